"""A script in whose state every number is the step that it is at; it trains for ever.

    python counting_script.py FOLDER KIB SNAPSHOT_EVERY CHECKPOINT_EVERY

Appends to FOLDER/counts-PID, each line by one write:

    begun GENERATION STEP LEAST MOST    what the state is when a generation's steps begin
    done GENERATION STEP                after each step
    without GENERATION STEP             after a snapshot that found no room
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import everstep
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FLOAT_BYTES = 4


class Counting(nn.Module):
    """Its loss has the gradient -1 in every number of the weight; its buffer counts forwards."""

    forwards: torch.Tensor

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(numbers))
        self.register_buffer("forwards", torch.zeros(256))

    def forward(self, ones: torch.Tensor) -> torch.Tensor:
        self.forwards += 1
        return -(self.weight * ones).sum()


class Ascent(torch.optim.Optimizer):
    """Steps by 1 against a gradient of -1, and sums up where it went, as a momentum would."""

    def __init__(self, parameters: Iterator[nn.Parameter]) -> None:
        super().__init__(parameters, {"lr": 1.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]  # gives no loss
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                went = state.setdefault("went", torch.zeros_like(parameter))
                went.sub_(parameter.grad)
                parameter.sub_(parameter.grad, alpha=group["lr"])


class Tally:
    """A small object of the script's own."""

    def __init__(self) -> None:
        self.steps = 0
        self.tensor = torch.zeros(16, dtype=torch.float64)

    def advance(self) -> None:
        self.steps += 1
        self.tensor += 1

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "tensor": self.tensor}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]
        self.tensor.copy_(state["tensor"])


def extremes(model: nn.Module, optimizer: Ascent, tally: Tally) -> tuple[float, float]:
    """The least and the greatest number in the whole state."""
    tensors = [*model.state_dict().values(), tally.tensor, torch.tensor(float(tally.steps))]
    if optimizer.state:
        tensors += [state["went"] for state in optimizer.state.values()]
    elif tally.steps:
        return -1.0, float(tally.steps)  # the optimizer's part is missing
    return min(float(one.min()) for one in tensors), max(float(one.max()) for one in tensors)


class Notes(logging.Handler):
    """The file, and what the library says of snapshots that were left out."""

    def __init__(self, folder: Path) -> None:
        super().__init__(logging.INFO)
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
        self._file = os.open(folder / f"counts-{os.getpid()}", flags, 0o644)
        self.generation = 0

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())

    def emit(self, record: logging.LogRecord) -> None:
        if "left out" in record.msg:
            assert isinstance(record.args, tuple)
            self.write("without", self.generation, record.args[0])


def main() -> None:
    folder, kib, snapshot_every, checkpoint_every = Path(sys.argv[1]), *map(int, sys.argv[2:])
    notes = Notes(folder)
    logging.getLogger("everstep").addHandler(notes)
    logging.getLogger("everstep").setLevel(logging.INFO)
    own, tally = Counting(kib * 1024 // FLOAT_BYTES), Tally()
    optimizer = Ascent(own.parameters())
    job = everstep.join(snapshot_every=snapshot_every, checkpoint_every=checkpoint_every)
    for generation in job.generations():
        with generation:
            model = DistributedDataParallel(own, device_mesh=generation.mesh)
            generation.track(model=model, optimizer=optimizer, tally=tally)
            notes.generation = generation.number
            least, most = extremes(own, optimizer, tally)
            notes.write("begun", generation.number, generation.step, least, most)
            for step in generation.steps(total=1_000_000):
                loss = step.backward(model(torch.ones(1)))
                optimizer.step()
                optimizer.zero_grad()
                tally.advance()
                step.completed(loss=loss)
                notes.write("done", generation.number, generation.step)


if __name__ == "__main__":
    main()
