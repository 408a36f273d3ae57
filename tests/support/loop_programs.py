"""Small scripts, each about one thing that the loop must do or refuse."""

import contextlib
import logging
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import everstep
import torch
import torch.distributed as dist
from support.ranks import Link
from support.trainee_programs import WIDTH, Parts, batches, inherit, wait_for_order
from torch import nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel


def run(link: Link, script: str, descriptors: list[int] | None = None, **settings: Any) -> None:
    """Run one of these scripts, as a worker or, without descriptors, under plain python."""
    if descriptors is not None:
        inherit(descriptors, settings["local_rank"])
    torch.set_num_threads(1)
    SCRIPTS[script](link)


def documentation(link: Link) -> None:
    """The example of the design, as a user would fill it in."""

    class Answer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH)
            self.loss = torch.tensor(0.0)

        def forward(self, sample: torch.Tensor) -> "Answer":
            self.loss = (self.layer(sample) - sample).square().mean()
            return self

    own = Answer()
    base = torch.optim.AdamW(own.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(base, 12)

    def build(mesh: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
        return DistributedDataParallel(own, device_mesh=mesh), base

    def loader(step: int, rank: int, world_size: int) -> list[dict[str, torch.Tensor]]:
        return [{"sample": batch} for batch in batches(step, rank, world_size)]

    def evaluate(model: nn.Module) -> None:
        link.say("evaluated")

    job = everstep.join()
    for generation in job.generations():
        with generation:
            model, optimizer = build(generation.mesh)
            generation.track(model=model, optimizer=optimizer, scheduler=scheduler)
            for step in generation.steps(loader, total=12):
                for batch in step.micro_batches:
                    loss = step.backward(model(**batch).loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                step.completed(loss=loss)
                link.say("step", step=step.index + 1, loss=float(loss))
                if step.due(every=5):
                    with generation.phase("evaluate"):
                        evaluate(model)
    link.say("ended", step=generation.step)


def built_anew(link: Link, *, pause_at: int | None = 3) -> None:
    """Everything is made anew in each generation, from another seed; the state is not."""
    job = everstep.join()
    for generation in job.generations():
        with generation:
            parts = Parts.make(seed=generation.number)
            model = DistributedDataParallel(parts.own)
            generation.track(**parts.tracked(model))
            link.say("agreed", generation=generation.number, digest=parts.digest())
            for step in generation.steps(batches, total=6):
                if step.index == pause_at and generation.number == 1:
                    link.say("paused", digest=parts.digest())
                    wait_for_order(generation)
                for batch in step.micro_batches:
                    step.backward(model(batch).square().mean())
                parts.step_the_first()
                parts.scheduler.step()
                model.zero_grad()
    link.say("ended", step=generation.step, digest=parts.digest())


def built_once(link: Link) -> None:
    """The same script when nothing happens."""
    built_anew(link, pause_at=None)


def places(link: Link) -> None:
    """What a script sees of its place, by torchrun's variables and by the generation."""
    os.environ.update(WORLD_SIZE="9", RANK="8", VC_WORKER_NUM="9")
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    warnings: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("everstep").addHandler(handler)
    job = everstep.join()

    @job.on_generation
    def tell(generation: everstep.Generation) -> None:
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
        place = {name: os.environ[name] for name in names}
        link.say("place", generation=generation.number, warnings=warnings, **place)

    for generation in job.generations():
        with generation:
            link.say("store", port=_private_store_port())
            wait_for_order(generation)
            dist.barrier()


def _private_store_port() -> int:
    """Host a store of the script's own the way torch's rendezvous does, with this rank as first."""
    hosted = next(rendezvous("tcp://127.0.0.1:0?rank=0&world_size=1", timeout=timedelta(0, 9)))
    return int(hosted[0].port)


def swallowing(link: Link) -> None:
    """A script that catches everything an exception clause can catch, and goes on."""
    parts = Parts.make(seed=7)
    job = everstep.join()
    for generation in job.generations():
        with generation:
            model = DistributedDataParallel(parts.own)
            generation.track(**parts.tracked(model))
            for step in generation.steps(batches, total=1000):
                for batch in step.micro_batches:
                    with contextlib.suppress(Exception):
                        step.backward(model(batch).square().mean())
                with contextlib.suppress(Exception):
                    parts.step_the_first()
                with contextlib.suppress(Exception):
                    parts.scheduler.step()
                    link.say(
                        "step",
                        generation=generation.number,
                        step=step.index + 1,
                        digest=parts.digest(),
                    )
                model.zero_grad()


def own_error(_link: Link) -> None:
    """A mistake of the script's own is not Everstep's to heal."""
    for generation in everstep.join().generations():
        with generation:
            raise ValueError("a mistake of the script")


def stale_group(link: Link) -> None:
    """A wrapped model is kept over generations."""
    parts = Parts.make(seed=7)
    model: nn.Module | None = None
    for generation in everstep.join().generations():
        with generation:
            model = model or DistributedDataParallel(parts.own)
            generation.track(**parts.tracked(model))
            for step in generation.steps(batches, total=1000):
                for batch in step.micro_batches:
                    step.backward(model(batch).square().mean())
                parts.step_the_first()
                link.say("step", step=step.index + 1)


def without_block(_link: Link) -> None:
    """A generation is not entered."""
    for _ in everstep.join().generations():
        pass


def untracked(_link: Link) -> None:
    """A model is wrapped but not tracked."""
    parts, forgotten = Parts.make(seed=7), Parts.make(seed=8)
    for generation in everstep.join().generations():
        with generation:
            model = DistributedDataParallel(parts.own)
            DistributedDataParallel(forgotten.own)
            generation.track(**parts.tracked(model))


def step_too_early(_link: Link) -> None:
    """An optimizer steps before the last micro-batch."""
    parts = Parts.make(seed=7)
    for generation in everstep.join().generations():
        with generation:
            generation.track(**parts.tracked(parts.own))
            for step in generation.steps(batches, total=2):
                next(step.micro_batches)
                parts.step_the_first()


def step_outside(_link: Link) -> None:
    """An optimizer steps a second time, after the step was completed."""
    parts = Parts.make(seed=7)
    for generation in everstep.join().generations():
        with generation:
            generation.track(**parts.tracked(parts.own))
            for step in generation.steps(total=2):
                parts.step_the_first()
                step.completed()
                parts.step_the_first()


def tracked_twice(_link: Link) -> None:
    """Two calls of track in one generation."""
    parts = Parts.make(seed=7)
    for generation in everstep.join().generations():
        with generation:
            generation.track(model=parts.own)
            generation.track(model=parts.own)


def tracked_and_frozen(_link: Link) -> None:
    """A model that is both."""
    parts = Parts.make(seed=7)
    for generation in everstep.join().generations():
        with generation:
            generation.track(frozen=[parts.own], model=parts.own)


def joined_twice(_link: Link) -> None:
    """Two calls of join in one process."""
    everstep.join()
    everstep.join()


def phases(link: Link) -> None:
    """What the page says while the script does this and that."""
    for generation in everstep.join().generations():
        with generation:
            for step in generation.steps(total=2):
                for name in ("evaluate", "my own"):
                    with generation.phase(name):
                        link.say("phase", name=name, step=step.index)
                        next(link.hear())
                step.completed()
                link.say("completed", step=step.index)
                next(link.hear())


def micro_batches(link: Link) -> None:
    """The gradients of two micro-batches are those of one batch, averaged once over the ranks."""
    parts = Parts.make(seed=7)
    for layer in parts.own.children():
        if isinstance(layer, nn.BatchNorm1d | nn.Dropout):
            layer.eval()
    for generation in everstep.join().generations():
        with generation:
            model = DistributedDataParallel(parts.own)
            generation.track(**parts.tracked(model))
            for step in generation.steps(batches, total=1):
                averaged = []
                for batch in step.micro_batches:
                    loss = step.backward(model(batch).square().mean())
                    averaged.append(model.require_backward_grad_sync)
                gradients = [p.grad.clone() for p in parts.own.parameters() if p.grad is not None]
                model.zero_grad()
                every = [batches(0, rank, generation.world_size) for rank in range(2)]
                whole = torch.cat([batch for rank in every for batch in rank])
                parts.own(whole).square().mean().backward()
                expected = [p.grad for p in parts.own.parameters() if p.grad is not None]
                close = all(map(torch.allclose, gradients, expected))
                link.say("gradients", close=close, averaged=averaged, loss=float(loss))


def shown(link: Link) -> None:
    """What a person sees of the loop's objects."""
    job = everstep.join()
    for generation in job.generations():
        with generation:
            for step in generation.steps(batches, total=1):
                link.say("shown", objects=[repr(job), repr(generation), repr(step)])
                for _ in step.micro_batches:
                    pass
                step.completed()
                link.say("completed", step=repr(step))


SCRIPTS: dict[str, Callable[[Link], None]] = {
    script.__name__: script
    for script in (
        documentation,
        built_anew,
        built_once,
        places,
        swallowing,
        own_error,
        stale_group,
        without_block,
        untracked,
        step_too_early,
        step_outside,
        tracked_twice,
        tracked_and_frozen,
        joined_twice,
        phases,
        micro_batches,
        shown,
    )
}
