"""Which checkpoints are good: pure, from manifests, marks and starts (R26)."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from everstep_contract.manifest import Manifest, Marks, Standing
from everstep_contract.record import GenerationStart


class Save(Protocol):
    """A save of one generation's state."""

    @property
    def generation(self) -> int:
        """Of the workers that saved."""
        ...

    @property
    def step(self) -> int:
        """Completed steps in it."""
        ...


def is_void(save: Save, starts: Iterable[GenerationStart]) -> bool:
    """Whether a later generation went back to before the save's step (R26).

    Equality of generations does not matter: the breakpoint save of a broken generation is good
    as long as no later one started earlier.
    """
    return any(
        start.generation > save.generation and save.step > start.start_step for start in starts
    )


def eligible(
    manifests: Iterable[Manifest], lineage: str, starts: Iterable[GenerationStart] = ()
) -> tuple[Manifest, ...]:
    """What a job may be restored from, best first.

    Args:
        manifests: All that are known; those of other lineages are left out.
        lineage: The job's uid.
        starts: What the job's record knows of its generations. The manifests' own histories are
            taken in as well, so a lost record brings no abandoned future back.
    """
    own = [manifest for manifest in manifests if manifest.lineage == lineage]
    known = {start for manifest in own for start in manifest.history} | set(starts)
    good = [manifest for manifest in own if not is_void(manifest, known)]
    return tuple(sorted(good, key=lambda one: (one.generation, one.step), reverse=True))


@dataclass(frozen=True)
class Listed:
    """A committed checkpoint, and what became known of it since."""

    manifest: Manifest
    marks: Marks = field(default_factory=Marks)

    @property
    def is_proven(self) -> bool:
        """Whether it was read back whole, and nothing bad became known afterwards."""
        return self.marks.verified_at is not None and not self.marks.damage


def standings(
    own: Collection[Listed], starts: Iterable[GenerationStart] = ()
) -> tuple[tuple[Listed, Standing], ...]:
    """What each checkpoint of one lineage is good for, best first.

    Args:
        own: Of one lineage.
        starts: As in `eligible`.
    """
    known = {start for one in own for start in one.manifest.history} | set(starts)

    def standing(one: Listed) -> Standing:
        if is_void(one.manifest, known):
            return "void"
        return "damaged" if one.marks.damage else "good"

    order: tuple[Standing, ...] = ("good", "damaged", "void")
    ranked = sorted(
        ((one, standing(one)) for one in own),
        key=lambda row: (order.index(row[1]), -row[0].manifest.generation, -row[0].manifest.step),
    )
    if ranked and ranked[0][1] == "good":
        ranked[0] = (ranked[0][0], "newest")
    return tuple(ranked)
