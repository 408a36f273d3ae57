"""Random states for ranks that have none of their own: after a change of the world size, say.

A rank's own random states fit no other rank (EC-55): two ranks would draw the same dropout masks.
So where the world changed, all ranks get new ones, by a rule that gives the same again when the
same checkpoint is resumed again.
"""

import hashlib
import logging
import random
import sys
from typing import Any

import torch
from everstep_contract.manifest import Manifest

log = logging.getLogger("everstep")


def derived_rng(material: str, step: int, rank: int) -> dict[str, Any]:
    """The states that a rank goes on with, as `restore_rng` takes them.

    Of each library, the seed is ``(base + rank) mod 2**bits``, and the base is a hash of the
    library's name, the step and the material. So no two ranks share a stream, and those of two
    steps or two runs are unrelated.

    Args:
        material: What tells this resume from others; equal on all ranks.
        step: Completed steps in the state.
        rank: In the new generation.
    """

    def seed(library: str, bits: int) -> int:
        text = f"{library} {step} {material}".encode()
        return (int.from_bytes(hashlib.blake2b(text).digest()) + rank) % (1 << bits)

    python = random.Random(seed("python", 256))  # noqa: S311  # training's, not a cipher's
    states: dict[str, Any] = {
        "python": python.getstate(),
        "torch": torch.Generator("cpu").manual_seed(seed("torch", 32)).get_state(),
    }
    if "numpy" in sys.modules:
        drawn = sys.modules["numpy"].random.RandomState(seed("numpy", 32)).get_state()
        states["numpy"] = (drawn[0], drawn[1].tolist(), *drawn[2:])
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's
        states["cuda"] = torch.Generator("cuda").manual_seed(seed("cuda", 63)).get_state()
    return states


def log_derived(manifest: Manifest, world_size: int) -> None:
    """Say once what the change of the world size does to random numbers."""
    log.warning(
        "step %d was saved by %d ranks and goes on with %d: random states are derived anew for "
        "each rank, so that random numbers are not those of a run without the change",
        manifest.step,
        manifest.world_size,
        world_size,
    )
