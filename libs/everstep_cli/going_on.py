"""What it takes to go on with a job that was given up (EC-74)."""

from typing import Final

from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus
from everstep_contract.queries import LatestCheckpoint, LatestCheckpointReply
from everstep_contract.record import CheckpointRecord, JobRecord

from everstep_cli.access import ASK_SECONDS

UNASKED: Final = "see `everstep checkpoints list` for what there is"


async def to_go_on(bus: Bus, record: JobRecord) -> str:
    """From which checkpoint it would begin, and how; empty unless the job was given up."""
    if record.verdict.kind != "give_up":
        return ""
    try:
        query = LatestCheckpoint(job=record.job)
        reply = await bus.ask(query, LatestCheckpointReply, timeout_seconds=ASK_SECONDS)
        newest = _in_words(reply.record)
    except TransientBusError:
        newest = UNASKED
    name, namespace = record.job.name, record.job.namespace
    return (
        f"{newest}; once the cause is mended, make the Job anew:"
        f" kubectl -n {namespace} delete jobs.batch.volcano.sh {name},"
        " then kubectl apply its manifest"
    )


def _in_words(newest: CheckpointRecord | None) -> str:
    if newest is None:
        return "it has no checkpoint, and would begin at step 0"
    read_back = f"read back {newest.verified_at:%Y-%m-%d %H:%M} UTC" if newest.verified_at else ""
    return (
        f"it would begin at step {newest.step}, from {newest.checkpoint}"
        f" ({read_back or 'not read back yet'})"
    )
