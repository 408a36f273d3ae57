"""`everstep rescale`: asked of the adjudicator, and awaited until the Job has the size."""

import json
import sys
from contextlib import suppress
from dataclasses import dataclass

from everstep_bus.interface import Bus
from everstep_contract.queries import CommandAccepted, JobStatusReply, RescaleJob
from everstep_contract.record import JobRecord
from everstep_contract.rescaling import Rescale

from everstep_cli.access import with_bus
from everstep_cli.errors import CommandError, MisuseError
from everstep_cli.jobs import looked_at, status_of, told
from everstep_cli.options import Access
from everstep_cli.terminal import output
from everstep_cli.waiting import answered


@dataclass(frozen=True)
class Wish:
    """What is asked for; ``wait_seconds`` None: only that it is in the job's record."""

    job: str
    replicas: int
    min_available: int | None
    reason: str
    wait_seconds: float | None
    as_json: bool


def rescale_and_show(access: Access, wish: Wish) -> None:
    """Ask for another size, and print what became of it.

    Raises:
        MisuseError: The numbers contradict each other.
        CommandError: It was refused, or is not done in time.
    """
    if wish.min_available is not None and wish.min_available > wish.replicas:
        raise MisuseError(f"--min-available {wish.min_available} is more than {wish.replicas}")
    with_bus(lambda bus: _ask_and_show(bus, wish), access)


async def _ask_and_show(bus: Bus, wish: Wish) -> None:
    seen = await looked_at(bus, wish.job)
    command = RescaleJob(
        job=seen.job,
        generation=seen.generation,
        replicas=wish.replicas,
        min_available=wish.min_available,
        reason=wish.reason,
    )
    await told(bus, command, CommandAccepted)
    reply = await status_of(bus, seen)
    if wish.wait_seconds is not None:

        async def look() -> JobStatusReply | None:
            nonlocal reply
            with suppress(CommandError):  # another adjudicator takes over within seconds
                reply = await status_of(bus, seen)
            return None if _is_open(reply.record) else reply

        await answered(look, within_seconds=wish.wait_seconds)
    _show(wish, reply)
    _judge(wish, reply)


def _is_open(record: JobRecord | None) -> bool:
    if record is None or record.phase == "ended" or record.rescale is None:
        return False
    return record.rescale.is_open


def _show(wish: Wish, reply: JobStatusReply) -> None:
    record = reply.record
    asked = record.rescale if record else None
    if wish.as_json:
        document = {
            "job": str(record.job) if record else wish.job,
            "generation": record.generation if record else None,
            "members": len(record.seats) if record else 0,
            "step": reply.step,
            "rescale": asked.model_dump(mode="json") if asked else None,
        }
        sys.stdout.write(json.dumps(document) + "\n")
    elif record and asked and (asked.stage == "done" or wish.wait_seconds is None):
        line = f"{said_of(asked)}; {len(record.seats)} members, generation {record.generation}"
        output().print(line, markup=False, highlight=False, soft_wrap=True)


def _judge(wish: Wish, reply: JobStatusReply) -> None:
    asked = reply.record.rescale if reply.record else None
    if asked is None:
        raise CommandError("the job is gone")
    if asked.stage == "refused":
        raise CommandError(said_of(asked))
    if asked.is_open and wish.wait_seconds is not None:
        waits = f"; it waits for {reply.waiting_for}" if reply.waiting_for else ""
        raise CommandError(f"after {wish.wait_seconds:g} s, {said_of(asked)}{waits}")


def said_of(asked: Rescale) -> str:
    """What has become of a wish, for people."""
    match asked.stage:
        case "asked":
            return f"rescale to {asked.size}: asked for, and not answered yet"
        case "granted":
            return f"rescale to {asked.size}: under way"
        case "done":
            return f"rescaled to {asked.size}"
        case "refused":
            return f"rescale to {asked.size}: refused: {asked.detail}"
