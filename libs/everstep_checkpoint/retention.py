"""Which checkpoints may go: pure, and never so that none is left that was read back (EC-28)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from everstep_contract.manifest import Manifest
from everstep_contract.record import GenerationStart

from everstep_checkpoint.validity import Listed, standings


@dataclass(frozen=True)
class Retention:
    """How much is kept.

    Attributes:
        keep_last: Newest verified checkpoints that stay, at least 2: the newest could be damaged
            after it was verified.
        keep_every: Steps of which a multiple stays for good; 0 for none.
        max_bytes: As long as all of a lineage together have no more, older ones stay too; None:
            they go.
    """

    keep_last: int = 2
    keep_every: int = 0
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.keep_last < 2:
            raise ValueError(f"keep_last is {self.keep_last}: at least 2 verified ones must stay")
        if self.keep_every < 0:
            raise ValueError(f"keep_every is {self.keep_every}: a number of steps, or 0")

    def without_budget(self) -> "Retention":
        """What is kept where there is no room at all."""
        return replace(self, max_bytes=None)


def expendable(
    own: Collection[Listed],
    retention: Retention,
    starts: Iterable[GenerationStart] = (),
    *,
    busy: Collection[str] = (),
) -> tuple[Manifest, ...]:
    """What may be deleted of one lineage, in the order in which it goes.

    First what is void or damaged, once anything good has been read back; then, oldest first, what
    is older than the last ``keep_last`` that were. Nothing newer than those goes: what has not been
    read back proves nothing, but may be all there is of the newest steps.

    Args:
        own: All committed checkpoints of one lineage.
        retention: How much is kept.
        starts: Where the lineage's generations began, as far as that is known beyond manifests.
        busy: Names of checkpoints that are being read, or are about to be.
    """
    ranked = standings(own, starts)
    good = [one for one, standing in ranked if standing in ("newest", "good")]
    proven = [at for at, one in enumerate(good) if one.is_proven]
    if not proven:
        return ()
    worthless = [one for one, standing in ranked if standing in ("void", "damaged")]
    going = [one.manifest for one in worthless if _is_loose(one, busy)]
    left_bytes = sum(one.manifest.total_bytes for one in own) - _total_bytes(going)
    older = (
        good[proven[retention.keep_last - 1] + 1 :] if len(proven) >= retention.keep_last else []
    )
    for one in reversed(older):
        if retention.max_bytes is not None and left_bytes <= retention.max_bytes:
            break
        if _is_loose(one, busy) and not _is_milestone(one, retention):
            going.append(one.manifest)
            left_bytes -= one.manifest.total_bytes
    return tuple(going)


def _is_loose(one: Listed, busy: Collection[str]) -> bool:
    return not one.marks.pinned and one.manifest.checkpoint not in busy


def _is_milestone(one: Listed, retention: Retention) -> bool:
    return bool(retention.keep_every) and one.manifest.step % retention.keep_every == 0


def _total_bytes(manifests: Sequence[Manifest]) -> int:
    return sum(manifest.total_bytes for manifest in manifests)
