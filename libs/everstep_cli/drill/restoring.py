"""Where the state came from that a job went on with, by its members' own word; pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from everstep_contract.base import Event
from everstep_contract.facts.member import MemberFormed
from everstep_contract.manifest import Manifest

from everstep_cli.drill.document import Restored
from everstep_cli.drill.fault import Fault


def first_formed(events: Iterable[Event], since: datetime) -> tuple[MemberFormed, ...]:
    """What members told of the first generation that formed after an instant."""
    formed = [e for e in events if isinstance(e, MemberFormed) and e.at >= since]
    first = min((event.generation for event in formed), default=0)
    return tuple(event for event in formed if event.generation == first)


def restored(formed: Sequence[MemberFormed], since: datetime) -> Restored | None:
    """The whole job's way to its state: ready when the last member was."""
    if not formed:
        return None
    first = formed[0]
    chosen = [_after(event, event.chosen_seconds, since) for event in formed]
    loaded = [_after(event, event.loaded_seconds, since) for event in formed]
    return Restored(
        source=first.source,
        checkpoint=first.checkpoint,
        step=first.agreed_step,
        chosen_seconds=max((at for at in chosen if at is not None), default=None),
        loaded_seconds=max((at for at in loaded if at is not None), default=None),
    )


def _after(formed: MemberFormed, seconds: float | None, since: datetime) -> float | None:
    """From the fault, what a member counts from its receipt of the order."""
    if seconds is None:
        return None
    received = formed.at - timedelta(seconds=formed.formed_seconds)
    return (received - since).total_seconds() + seconds


def restored_wrongly(
    fault: Fault, formed: Sequence[MemberFormed], best: Manifest | None
) -> list[str]:
    """What speaks against the state that the members went on with.

    Args:
        fault: What was done.
        formed: What members told of the first generation after it.
        best: The newest whole checkpoint that there was then, or None.
    """
    if not fault.sources:
        return []
    ways = {(event.source, event.checkpoint, event.agreed_step) for event in formed}
    if len(ways) != 1:
        return [f"members went on from {len(ways)} states: {sorted(ways)}"]
    ((source, checkpoint, step),) = ways
    if source not in fault.sources:
        return [f"the state came from {source}, not {' or '.join(fault.sources)}"]
    if source == "disk" and best is None:
        return [f"{checkpoint} was loaded, and there was no whole checkpoint"]
    if source == "disk" and best is not None and step < best.step:
        return [f"{checkpoint} was loaded, and {best.checkpoint} was whole and newer"]
    return []
