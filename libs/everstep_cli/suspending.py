"""`everstep suspend` and `everstep resume`: asked of the adjudicator, and awaited."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from everstep_bus.interface import Bus
from everstep_contract.queries import CommandAccepted, JobStatusReply, ResumeJob, SuspendJob
from everstep_contract.record import JobRecord

from everstep_cli.access import with_bus
from everstep_cli.errors import CommandError
from everstep_cli.jobs import looked_at, status_of, told
from everstep_cli.options import Access
from everstep_cli.terminal import output
from everstep_cli.waiting import answered


@dataclass(frozen=True)
class Wish:
    """What is asked for; ``wait_seconds`` None: only that it is ruled."""

    job: str
    reason: str
    wait_seconds: float | None
    as_json: bool


def suspend_and_show(access: Access, wish: Wish) -> None:
    """Suspend the job, and print since which step all its members hold.

    Raises:
        CommandError: It was refused, or some member does not hold in time.
    """
    with_bus(lambda bus: _rule_and_show(bus, wish, SuspendJob, _all_hold), access)


def resume_and_show(access: Access, wish: Wish) -> None:
    """Resume the job, and print its first new step.

    Raises:
        CommandError: It was refused, or takes no step in time.
    """
    with_bus(lambda bus: _rule_and_show(bus, wish, ResumeJob, _steps_again), access)


async def _rule_and_show(
    bus: Bus,
    wish: Wish,
    kind: type[SuspendJob | ResumeJob],
    reached: Callable[[JobStatusReply], bool],
) -> None:
    seen = await looked_at(bus, wish.job)
    command = kind(job=seen.job, generation=seen.generation, reason=wish.reason)
    generation = (await told(bus, command, CommandAccepted)).generation
    reply = await status_of(bus, seen)
    if wish.wait_seconds is not None:

        async def look() -> JobStatusReply | None:
            nonlocal reply
            with suppress(CommandError):  # another adjudicator takes over within seconds
                reply = await status_of(bus, seen)
            return reply if reached(reply) or _is_over(reply.record) else None

        await answered(look, within_seconds=wish.wait_seconds)
    _show(wish, reply, reached=reached(reply))
    if wish.wait_seconds is not None and not reached(reply):
        late = f"generation {generation} is ruled, and after {wish.wait_seconds:g} s"
        raise CommandError(f"{late}: {_line(reply)}")


def _all_hold(reply: JobStatusReply) -> bool:
    record = reply.record
    return record is not None and record.state == "hold" and reply.parked == len(record.seats)


def _steps_again(reply: JobStatusReply) -> bool:
    record = reply.record
    return record is not None and record.state == "run" and record.phase == "resumed"


def _is_over(record: JobRecord | None) -> bool:
    return record is None or record.phase == "ended"


def _show(wish: Wish, reply: JobStatusReply, *, reached: bool) -> None:
    record = reply.record
    if wish.as_json:
        document = {
            "job": str(record.job) if record else wish.job,
            "generation": record.generation if record else None,
            "state": record.state if record else None,
            "phase": record.phase if record else None,
            "step": reply.step,
            "members": len(record.seats) if record else 0,
            "parked": reply.parked,
            "reached": reached,
        }
        sys.stdout.write(json.dumps(document) + "\n")
    elif reached or wish.wait_seconds is None:
        output().print(_line(reply), markup=False, highlight=False, soft_wrap=True)


def _line(reply: JobStatusReply) -> str:
    """How the job is, for people."""
    record = reply.record
    if record is None or record.phase == "ended":
        return f"the job has ended: {record.reason}" if record else "the job is gone"
    members = len(record.seats)
    where = f"step {reply.step}, generation {record.generation}"
    if record.state == "hold":
        holding = f"{members}" if reply.parked == members else f"{reply.parked} of {members}"
        word = "suspended" if record.verdict.kind == "suspend" else "holding"
        waits = f"; {reply.waiting_for}" if word == "holding" and reply.waiting_for else ""
        return f"{word} at {where}; {holding} members hold their state in memory{waits}"
    if record.phase == "resumed":
        return f"goes on with {where}; {members} members"
    return f"ordered to run, at {where}; {members} members form"
