"""The random states of this process: a step that is done again must draw the same numbers."""

import base64
import hashlib
import json
import random
import sys
from typing import Any, Final

import torch

LIBRARIES: Final = ("python", "numpy", "torch", "cuda")
"""Whose random states a process can have."""
_TENSORS: Final = frozenset({"torch", "cuda"})


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


def to_json(states: dict[str, Any]) -> str:
    """Captured states as text, bit for bit."""
    return json.dumps(
        {
            name: _bytes(state) if isinstance(state, torch.Tensor) else state
            for name, state in states.items()
        }
    )


def digests(states: dict[str, Any]) -> tuple[int, ...]:
    """Seven bytes for each of `LIBRARIES` that tell its states apart."""
    return tuple(
        int.from_bytes(hashlib.blake2b(to_json({name: state}).encode(), digest_size=7).digest())
        for name in LIBRARIES
        for state in [states.get(name)]
    )


def from_json(text: str) -> dict[str, Any]:
    """The inverse of `to_json`."""
    states: dict[str, Any] = json.loads(text)
    for name in _TENSORS & states.keys():
        raw = bytearray(base64.b64decode(states[name]))
        states[name] = torch.frombuffer(raw, dtype=torch.uint8)
    version, internal, gauss = states["python"]
    return {**states, "python": (version, tuple(internal), gauss)}


def _bytes(state: torch.Tensor) -> str:
    return base64.b64encode(bytes(state.numpy())).decode()


def _capture_numpy(numpy: Any) -> tuple[Any, ...]:
    name, keys, *rest = numpy.random.get_state()
    return (name, keys.tolist(), *rest)


def _has_gpu_state() -> bool:
    """Whether a GPU is in use; asking its random state would otherwise begin to use it."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch's
