"""Training scripts for tests, written as a user would write them, that also say what they do."""

import contextlib
import faulthandler
import hashlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import everstep
import torch
from everstep_trainer import drill_torchrun, drill_train
from everstep_trainer.backend import host_store
from everstep_trainer.backend.group import InterruptibleGroup
from everstep_trainer.link import (
    PAGE_FD_VARIABLE,
    RANK_SLOTS_FD_VARIABLE,
    SOCKET_FD_VARIABLE,
    STATE_SLOTS_FD_VARIABLE,
)
from everstep_trainer.step_log import STEP_LOG_VARIABLE
from support.ranks import Link
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 48
FLAG_SECONDS = 60.0


def store(link: Link) -> None:
    """Host a store until the test ends."""
    hosted = host_store("127.0.0.1")
    link.say("hosting", port=hosted.port)
    signal.pause()


def inherit(descriptors: list[int], local_rank: int) -> None:
    """Set the environment the way an agent does."""
    handed = (
        SOCKET_FD_VARIABLE,
        PAGE_FD_VARIABLE,
        STATE_SLOTS_FD_VARIABLE,
        RANK_SLOTS_FD_VARIABLE,
    )
    os.environ |= dict(zip(handed, map(str, descriptors), strict=True))
    os.environ["LOCAL_RANK"] = str(local_rank)
    torch.set_num_threads(1)
    faulthandler.enable()


def make_model() -> nn.Module:
    """Small, with something random and something that a forward changes."""
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH),
        nn.BatchNorm1d(WIDTH),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(WIDTH, WIDTH),
    )


def batches(step: int, rank: int, world_size: int) -> Iterable[torch.Tensor]:
    """Two micro-batches that depend on nothing but the step and the rank."""
    generator = torch.Generator().manual_seed(step * 1000 + rank)
    return [torch.randn(4, WIDTH, generator=generator) for _ in range(2)]


def digest(model: nn.Module, *optimizers: torch.optim.Optimizer) -> str:
    """A digest of what replicas have in common, to the bit; running means are each rank's own."""
    sha = hashlib.sha256()
    for tensor in model.parameters():
        sha.update(tensor.detach().numpy().tobytes())
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            sha.update(repr(group["lr"]).encode())
            for parameter in group["params"]:
                for name, value in sorted(optimizer.state[parameter].items()):
                    sha.update(name.encode())
                    sha.update(value.numpy().tobytes())
    return sha.hexdigest()[:16]


def usage() -> dict[str, int]:
    """What this process holds of the machine."""
    fields = dict(
        line.split(":", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":" in line
    )
    return {
        "rss_bytes": int(fields["VmRSS"].split()[0]) * 1024,
        "threads": int(fields["Threads"]),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }


class Faults:
    """Hurt this process, or hold it until an order is there, at a chosen place.

    ``{"at": "collective", "generation": 2, "count": 3, "signal": "SIGKILL"}``
    """

    def __init__(self, link: Link, fault: dict[str, Any] | None) -> None:
        self._link = link
        self._fault = dict(fault or {})
        self.generation: Any = None
        issue = InterruptibleGroup._issue

        def watched(group: InterruptibleGroup, *args: Any, **more: Any) -> Any:
            self.come_to("collective")
            self.come_to(args[0])
            return issue(group, *args, **more)

        if fault:
            setattr(InterruptibleGroup, "_issue", watched)  # noqa: B010 - mypy: a test's stand-in

    def come_to(self, place: str) -> None:
        fault = self._fault
        if fault.get("at") != place or self.generation is None:
            return
        if fault.get("generation", self.generation) != self.generation:
            return
        fault["count"] = fault.get("count", 1) - 1
        if fault["count"] == 0:
            self._link.say("hurt", place=place, generation=self.generation)
            os.kill(os.getpid(), signal.Signals[fault["signal"]])


def wait_for_order(generation: everstep.Generation) -> None:
    """Hold this worker until an order has ended the generation."""
    ended = threading.Event()
    generation._ending.on_end(ended.set)
    assert ended.wait(FLAG_SECONDS)


@dataclass
class Parts:
    """What the scripts train."""

    own: nn.Module
    optimizers: list[torch.optim.Optimizer]
    scheduler: torch.optim.lr_scheduler.LRScheduler

    @classmethod
    def make(cls, seed: int, optimizers: int = 1, rate: float = 1e-2) -> "Parts":
        torch.manual_seed(seed)
        own = make_model()
        parameters = list(own.parameters())
        made = [torch.optim.AdamW(parameters[n::optimizers], lr=rate) for n in range(optimizers)]
        return cls(own, list(made), torch.optim.lr_scheduler.StepLR(made[0], 3, 0.9))

    def tracked(self, model: nn.Module) -> dict[str, Any]:
        optimizers = {f"optimizer_{n}": each for n, each in enumerate(self.optimizers)}
        return {"model": model, "scheduler": self.scheduler, **optimizers}

    def step_the_first(self) -> None:
        self.optimizers[0].step()

    def step_the_others(self) -> None:
        for optimizer in self.optimizers[1:]:
            optimizer.step()

    def digest(self) -> str:
        return digest(self.own, *self.optimizers)


def turn(step: everstep.Step, model: nn.Module, parts: Parts) -> torch.Tensor:
    """One turn of the loop; tests interrupt it at each of these lines."""
    loss = torch.tensor(0.0)
    for batch in step.micro_batches:
        loss = model(batch).square().mean()
        loss = step.backward(loss)
    parts.step_the_first()
    parts.step_the_others()
    parts.scheduler.step()
    model.zero_grad()
    step.completed(loss=loss)
    return loss


def lines_of(function: Callable[..., Any]) -> list[int]:
    """The numbers of the lines of a function's body."""
    numbers = {line for _, _, line in function.__code__.co_lines() if line is not None}
    return sorted(numbers)[1:]


INTERRUPTIBLE_LINES = len(lines_of(turn))


def line_index(text: str) -> int:
    """Which line of the body of ``turn`` reads like this."""
    source, first = inspect.getsourcelines(turn)
    return next(
        index for index, line in enumerate(lines_of(turn)) if source[line - first].strip() == text
    )


class Interruption:
    """Holds a worker at one line of a function until an order is there, then ends it right there.

    What no line of an ordinary script does: between two collectives nothing looks at the flag.
    """

    def __init__(self, link: Link, function: Callable[..., Any]) -> None:
        self._link = link
        self._code = function.__code__
        self._lines = lines_of(function)

    def arm(self, generation: everstep.Generation, line: int, step: int) -> None:
        """Interrupt at this line (its index in the body), the first time it is come to."""
        wanted = self._lines[line]

        def trace(frame: FrameType, event: str, _argument: object) -> Any:
            if frame.f_code is not self._code or generation.step != step:
                return trace
            if event == "line" and frame.f_lineno == wanted:
                sys.settrace(None)
                self._link.say("at_line", line=line, generation=generation.number)
                wait_for_order(generation)
                generation._ending.check()
            return trace

        sys.settrace(trace)


def train(
    link: Link,
    descriptors: list[int],
    local_rank: int,
    number: int,
    *,
    total: int = 1000,
    pause_at: int | None = None,
    fault: dict[str, Any] | None = None,
    seed: int = 7,
    optimizers: int = 1,
    rate: float = 1e-2,
    lines: dict[str, int] | None = None,
    swallow: bool = False,
    root: str = "",
    resume_from: str = "",
    **cadence: Any,
) -> None:
    """The loop of the documentation, with DDP.

    ``pause_at``: hold at the beginning of this step until an order comes. ``lines``: in which
    generation to be interrupted at which line. ``swallow``: catch whatever the turn raises.
    ``root``, ``resume_from``: where checkpoints lie, and of which earlier life of the job.
    ``cadence``: as `join` takes it.
    """
    inherit(descriptors, local_rank)
    parts = Parts.make(seed, optimizers, rate)
    faults = Faults(link, fault)
    interruption = Interruption(link, turn)
    os.environ["EVERSTEP_CHECKPOINT_ROOT"] = root
    os.environ["EVERSTEP_RESUME_FROM"] = resume_from
    job = everstep.join(**cadence)

    @job.on_generation
    def note(generation: everstep.Generation) -> None:
        faults.generation = generation.number
        faults.come_to("formed")

    for generation in job.generations():
        with generation:
            model = DistributedDataParallel(parts.own, device_mesh=generation.mesh)
            generation.track(**parts.tracked(model))
            said = {"generation": generation.number, "rank": generation.rank}
            link.say("agreed", step=generation.step, digest=parts.digest(), **said, **usage())
            line = (lines or {}).get(str(generation.number))
            if line is not None:
                interruption.arm(generation, line, generation.step + 1)
            for step in generation.steps(batches, total=total):
                if step.index == pause_at:
                    pause_at = None
                    link.say("paused", step=step.index, digest=parts.digest())
                    wait_for_order(generation)
                with contextlib.suppress(*([Exception] if swallow else [])):
                    loss = turn(step, model, parts)
                    link.say("step", step=step.index + 1, loss=float(loss).hex(), **said)
    link.say("ended", step=generation.step, digest=parts.digest())


def drill(
    link: Link,
    *,
    directory: str,
    steps: int = 1000,
    descriptors: list[int] | None = None,
    local_rank: int = 0,
    number: int = 0,
) -> None:
    """The drill's own script, as `everstep run` starts it, or alone."""
    if descriptors is not None:
        inherit(descriptors, local_rank)
    os.environ[STEP_LOG_VARIABLE] = directory
    sys.argv = ["drill_train.py", "--steps", str(steps)]
    drill_train.main()
    link.say("ended")


def plain_drill(link: Link, *, directory: str, steps: int) -> None:
    """The drill's comparison, as torchrun starts it, in a world of one."""
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    sys.argv = ["drill_torchrun.py", "--directory", directory, "--steps", str(steps)]
    drill_torchrun.main()
    link.say("ended")
