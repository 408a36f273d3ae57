"""Looking on: every version of the record, and what no history may break, checked from outside."""

import functools
from typing import TYPE_CHECKING, Final

from everstep_contract.layout import JOBS
from everstep_contract.record import IncidentRecord, JobRecord
from sim.members import SimMember

if TYPE_CHECKING:
    from sim.world import World

LOOK_SECONDS: Final = 0.05
WELL_SECONDS: Final = 25.0
"""After its last trouble a member may still be left out for so long: a deadline and a detector."""


async def watch_records(world: "World") -> None:
    """Every version of the record, straight from the store, before any of them is lost."""
    newest = ""
    stream = world.broker.bucket(JOBS)
    while True:
        await stream.changed.wait(LOOK_SECONDS)
        record = world.record()
        if record is not None and record.rescale is not None and record.rescale.is_open:
            world.ledger.may_run_with(record.rescale.size.min_available)
        if record is not None and record.verdict_id != newest:
            newest = record.verdict_id
            _check_exclusions(world, record)
            world.ledger.recorded(record)
            names = " ".join(record.incarnations)
            world.say(
                f"generation {record.generation} {record.verdict.kind} {record.state}:"
                f" {names} ({record.reason})"
            )


def _check_exclusions(world: "World", record: JobRecord) -> None:
    """Nobody who was well for a while is left out of a generation."""
    before = world.ledger.records[-1].incarnations if world.ledger.records else ()
    for member in (*world.members.values(), *world.past):
        well_since = world.troubled_at.get(member.incarnation, 0.0) + WELL_SECONDS
        dropped = member.incarnation in before and member.incarnation not in record.incarnations
        if (
            dropped
            and member.alive
            and not member.ending
            and not _goes(member, record)
            and well_since < world.clock.monotonic()
        ):
            world.ledger.breach(
                f"{member.incarnation} is well and left out of {record.generation}:"
                f" {[item.kind for item in record.evidence]}"
            )


def best_living_version(world: "World") -> int:
    return max(
        (member.version for member in world.members.values() if member.alive and not member.frozen),
        default=-1,
    )


def _goes(member: SimMember, record: JobRecord) -> bool:
    """Whether a wish for another size takes the member's pod."""
    wish, index = record.rescale, member.member.index
    assert index is not None, "pods are named after their index"
    return wish is not None and index >= wish.size.replicas


@functools.lru_cache(maxsize=64)
def record_of(payload: bytes) -> JobRecord:
    return JobRecord.model_validate_json(payload)


@functools.lru_cache(maxsize=64)
def incident_of(payload: bytes) -> IncidentRecord:
    return IncidentRecord.model_validate_json(payload)
