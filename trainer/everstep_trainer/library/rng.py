"""The random states of this process: a step that is done again must draw the same numbers."""

import random
import sys
from typing import Any

import torch


def capture_rng() -> dict[str, Any]:
    """The states of Python, numpy (once somebody imported it), torch and its GPU, as plain data."""
    states: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        states["numpy"] = _capture_numpy(sys.modules["numpy"])
    if _has_gpu_state():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore_rng(states: dict[str, Any]) -> None:
    """Go back to captured states; those of libraries that this process lacks are left out."""
    random.setstate(states["python"])
    torch.set_rng_state(states["torch"].clone())  # it reads a view at an odd address with a crash
    if "numpy" in states and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(states["numpy"])
    if "cuda" in states and _has_gpu_state():
        torch.cuda.set_rng_state(states["cuda"])


def _capture_numpy(numpy: Any) -> tuple[Any, ...]:
    name, keys, *rest = numpy.random.get_state()
    return (name, keys.tolist(), *rest)


def _has_gpu_state() -> bool:
    """Whether a GPU is in use; asking its random state would otherwise begin to use it."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch's
