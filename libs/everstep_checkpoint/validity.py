"""Which checkpoints are good, and which may go: pure, from manifests and starts (R26)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from everstep_contract.manifest import Manifest
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
class Retention:
    """How much is kept.

    Attributes:
        keep_last: Newest verified checkpoints that stay, at least 2: the newest could be damaged
            after it was verified.
        keep_every: Steps of which a multiple stays for good; 0 for none.
        max_bytes: Of all that is not kept for another reason; None for no bound.
    """

    keep_last: int = 2
    keep_every: int = 0
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.keep_last < 2:
            raise ValueError(f"keep_last is {self.keep_last}: at least 2 verified ones must stay")
        if self.keep_every < 0:
            raise ValueError(f"keep_every is {self.keep_every}: a number of steps, or 0")


def expendable(
    best_first: Sequence[Manifest],
    retention: Retention,
    *,
    verified: Collection[str],
    pinned: Collection[str],
) -> tuple[Manifest, ...]:
    """What may be deleted, oldest first.

    Nothing goes while fewer than ``keep_last`` are verified, and nothing newer than those: what
    has not been read back proves nothing.

    Args:
        best_first: As `eligible` gives them.
        retention: How much is kept.
        verified: Names of checkpoints that were read back whole since they were committed.
        pinned: Names that somebody wants kept.
    """
    proven = [at for at, one in enumerate(best_first) if one.checkpoint in verified]
    if len(proven) < retention.keep_last:
        return ()
    older = best_first[proven[retention.keep_last - 1] + 1 :]
    loose = [
        one
        for one in older
        if one.checkpoint not in pinned
        and not (retention.keep_every and one.step % retention.keep_every == 0)
    ]
    if retention.max_bytes is None:
        return tuple(reversed(loose))
    going: list[Manifest] = []
    left_bytes = sum(one.total_bytes for one in best_first)
    for one in reversed(loose):
        if left_bytes <= retention.max_bytes:
            break
        going.append(one)
        left_bytes -= one.total_bytes
    return tuple(going)
