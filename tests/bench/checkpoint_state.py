"""About 1 GiB of training state: a small GPT in float32 with Adam's moments, and the clocks."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from everstep_trainer.library.replica import Replica
from everstep_trainer.library.tree import pack
from torch import nn

LAYERS: Final = 12
WIDTH: Final = 768
VOCABULARY: Final = 8192
GIB: Final = 1 << 30


@dataclass(frozen=True)
class Cost:
    """Of one call, for the thread that made it."""

    seconds: float
    cpu_seconds: float
    page_faults: int


def cost_of(call: Callable[[], Any]) -> Cost:
    """What it costs the training thread."""
    faults, cpu, began = _page_faults(), time.thread_time(), time.perf_counter()
    call()
    ended, cpu_after = time.perf_counter(), time.thread_time()
    return Cost(ended - began, cpu_after - cpu, _page_faults() - faults)


def _page_faults() -> int:
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_minflt + usage.ru_majflt


def make_replica(scale: float = 1.0) -> Replica:
    """The state after one step, so that the moments exist; ``scale`` is of the layers."""
    torch.manual_seed(0)
    model = nn.ModuleDict({"tokens": nn.Embedding(VOCABULARY, WIDTH)})
    for layer in range(max(1, round(LAYERS * scale))):
        model[f"layer{layer}"] = nn.ModuleList(
            [
                nn.Linear(WIDTH, 3 * WIDTH, bias=False),
                nn.Linear(WIDTH, WIDTH, bias=False),
                nn.Linear(WIDTH, 4 * WIDTH, bias=False),
                nn.Linear(4 * WIDTH, WIDTH, bias=False),
                nn.LayerNorm(WIDTH),
            ]
        )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1e-3)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return Replica({"model": model, "optimizer": optimizer})


def fill(replica: Replica, value: float) -> None:
    """Have every tensor hold one value, so that a mixture of two steps shows."""
    with torch.no_grad():
        for tensor in tensors_of(replica).values():
            tensor.fill_(value)


def tensors_of(replica: Replica) -> dict[str, torch.Tensor]:
    """All of them, by the names that they have in a shard."""
    return pack(replica.capture(), "state").tensors
