"""One drill from its first process to its document."""

import asyncio
import secrets
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from everstep_bus.background import background

from everstep_cli.drill.awaiting import Injured
from everstep_cli.drill.board import Board
from everstep_cli.drill.cluster_state import cluster_seen, cluster_state
from everstep_cli.drill.disk import small_disk
from everstep_cli.drill.document import Against, DrillDocument
from everstep_cli.drill.fault import (
    MEMBERS,
    MIN_MEMBER,
    Fault,
    needs_small_disk,
    tripped_service,
)
from everstep_cli.drill.folder import temporary_folder
from everstep_cli.drill.injection import Injection
from everstep_cli.drill.judge import STEPS_AFTER, Observations, document_of, shortfalls
from everstep_cli.drill.leftovers import leftovers, shared_memory_files
from everstep_cli.drill.manifest import TRAINER, Gang
from everstep_cli.drill.processes import Processes
from everstep_cli.drill.stage import CHECKPOINTS, Setting, Stage
from everstep_cli.drill.torchrun import TorchrunPlan, against_torchrun
from everstep_cli.drill.watch import LATE_FACTS_SECONDS, Watch
from everstep_cli.drill.worker_logs import losses, read_steps
from everstep_cli.errors import CommandError
from everstep_cli.waiting import seen

START_SECONDS: Final = 180.0
"""How long eight members may take to their first common steps: they import torch on two cores."""
PODS_SECONDS: Final = 5.0
"""How often is looked whether a member has ended before it took a step."""
FIRST_STEPS: Final = 10
"""Steps before the fault: enough for a median."""
GO_ON_SECONDS: Final = 60.0
"""How long training may take to its next steps after everything healed."""
LOSS_SECONDS: Final = 1.0
"""How often the loss that is shown is read again."""
GHOST_SECONDS: Final = 2.0
"""How long what was let go is watched: it must not step."""


@dataclass(frozen=True)
class Drill:
    """What to do; ``keep``: a folder for logs and store that is not removed afterwards.

    ``script``: what is trained instead of the drill's own model, and its arguments.
    """

    fault: Fault
    seed: int
    nproc: int
    against_torchrun: bool
    keep: Path | None
    script: tuple[str, ...] = ()


async def run_drill(drill: Drill, board: Board) -> tuple[DrillDocument, tuple[str, ...]]:
    """Set the stage, hurt, measure, take down. Returns the document and why it is not healed.

    Raises:
        CommandError: Something did not start, or did not happen in time.
    """
    mark, before = secrets.token_hex(8), shared_memory_files()
    with (
        nullcontext(drill.keep) if drill.keep else temporary_folder() as folder,
        small_disk(folder / CHECKPOINTS) if needs_small_disk(drill.fault) else nullcontext(),
    ):
        processes = Processes(folder / "logs", mark)
        try:
            observed = await _observe(drill, board, folder, processes)
        finally:
            board.say("taking everything down")
            await processes.stop_all()
        against = await _against(drill, board, folder, processes)
        left = await leftovers(mark, before)
        return document_of(observed, against, left), shortfalls(observed)


async def _against(drill: Drill, board: Board, folder: Path, processes: Processes) -> Against:
    if not drill.against_torchrun or drill.fault.torchrun is None:
        return Against()
    board.forget()
    board.say(f"the same under plain torchrun, tuned: starting {MEMBERS} agents")
    plan = TorchrunPlan(drill.fault.torchrun, folder / "torchrun", drill.seed, board.say)
    try:
        return Against(torchrun=await against_torchrun(plan, processes))
    except CommandError as error:
        board.say(f"no comparison: {error}")
        return Against()
    finally:
        await processes.stop_all()


async def _observe(drill: Drill, board: Board, folder: Path, processes: Processes) -> Observations:
    gang = Gang(MEMBERS, MIN_MEMBER, drill.nproc, drill.script or TRAINER)
    board.say("starting nats-server, a simulated cluster, four services and eight members")
    async with (
        Stage(folder, processes, gang, _setting(drill.fault)) as stage,
        stage.bus() as bus,
    ):
        watch = Watch(bus, board)
        board.say(f"waiting for the first steps of all {MEMBERS}, at most {START_SECONDS:g} s")
        async with background(watch.run(), _show_loss(stage, board)):
            await first_steps(stage, watch, gang)
            injection = Injection(stage, watch, drill.seed)
            before = await cluster_state(stage.cluster, bus)
            board.say(f"{drill.fault.name}: {drill.fault.summary}")
            problem = await _hurt_and_heal(drill, stage, watch, injection)
            found = await _gather(drill, stage, watch, injection, problem)
            if drill.fault.cluster is None:
                return found
            seen = await cluster_seen(stage.cluster, bus, before, injection.injured)
            return replace(found, cluster=seen)


def _setting(fault: Fault) -> Setting:
    spares = fault.cluster.spares if fault.cluster else 0
    return Setting(tripped_service(fault), spares=spares, hasty=fault.cluster is not None)


async def _show_loss(stage: Stage, board: Board) -> None:
    while True:
        board.loss = losses(read_steps(stage.workers))[1]
        await asyncio.sleep(LOSS_SECONDS)


async def _hurt_and_heal(
    drill: Drill, stage: Stage, watch: Watch, injection: Injection
) -> str | None:
    """Carry the fault out and see training go on; what did not come in time, or None."""
    try:
        await injection.carry_out(drill.fault)
        expected = drill.fault.last_outcome is not None
        await _go_on(stage, watch, injection.injured.since, incidents=expected)
    except CommandError as error:
        if injection.injured.first_at is None:
            raise
        return str(error)
    return None


async def first_steps(stage: Stage, watch: Watch, gang: Gang) -> None:
    """Wait until the whole gang has taken enough steps to tell its pace.

    Raises:
        CommandError: It does not.
    """

    def stepping() -> bool | None:
        stage.require_all()
        return watch.stepping(gang.members, after=0) or None

    for _ in range(int(START_SECONDS / PODS_SECONDS)):
        if await seen(stepping, within_seconds=PODS_SECONDS):
            await _steps(stage, watch, FIRST_STEPS)
            return
        await stage.require_members()
    raise CommandError(
        f"no first step of all members within {START_SECONDS:g} s: a script must call everstep.join"
    )


async def _go_on(stage: Stage, watch: Watch, since: datetime, *, incidents: bool) -> None:
    """Wait for steps of the newest generation, and for every verdict's and incident's end."""
    await _steps(stage, watch, STEPS_AFTER)
    what = "the end of every incident"

    def settled() -> bool | None:
        return watch.settled(since, incidents=incidents) or None

    await watch.until(settled, within_seconds=GO_ON_SECONDS, what=what)


async def _steps(stage: Stage, watch: Watch, count: int) -> None:
    def enough() -> bool | None:
        newest = watch.order.generation if watch.order else 0
        taken = {s.step for s in read_steps(stage.workers) if s.generation == newest}
        return len(taken) >= count or None

    if not await seen(enough, within_seconds=GO_ON_SECONDS):
        raise CommandError(f"the job took no {count} steps within {GO_ON_SECONDS:g} s")


def _target(fault: Fault, injured: Injured) -> str:
    if needs_small_disk(fault):
        return "where checkpoints lie"
    if len(injured.members) == MEMBERS:
        return "all members"
    return ", ".join(f"{member.name} on {member.node}" for member in injured.members)


async def _gather(
    drill: Drill, stage: Stage, watch: Watch, injection: Injection, problem: str | None
) -> Observations:
    injured = injection.injured
    await asyncio.sleep(LATE_FACTS_SECONDS)
    events, incidents = tuple(watch.events), await watch.incidents(injured.since)
    if await injection.let_go():
        await asyncio.sleep(GHOST_SECONDS)
    return Observations(
        fault=drill.fault,
        target=_target(drill.fault, injured),
        fault_at=injured.since,
        min_member=MIN_MEMBER,
        nproc=drill.nproc,
        events=events,
        incidents=incidents,
        steps=read_steps(stage.workers),
        hurt=frozenset(member.incarnation for member in injured.members),
        hurt_pids=frozenset(injured.pids),
        problem=problem,
        best=injured.best,
        damaged=injured.damaged,
        believed=await watch.believed(),
        must_learn=not drill.script,
    )
