"""Does what a fault's row says: hurts members, stops and starts things, waits in between."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, assert_never

from everstep_bus.background import background
from everstep_contract.facts.checkpoint import SaveFailed
from everstep_contract.identity import Member
from everstep_contract.manifest import Manifest

from everstep_cli.drill.disk import flip_one_byte, good_checkpoints, keep_full
from everstep_cli.drill.faults import (
    CHECKPOINT_EVERY,
    Action,
    AwaitCheckpoints,
    AwaitDismissal,
    AwaitHold,
    AwaitSteps,
    BringBack,
    EndJob,
    Fault,
    FillDisk,
    Hurt,
    Hurting,
    HurtWhileForming,
    ServiceName,
    StartBus,
    StopBus,
    TripService,
    Waiting,
)
from everstep_cli.drill.manifest import JOB
from everstep_cli.drill.stage import Stage
from everstep_cli.drill.tripwire import Wire
from everstep_cli.drill.watch import Watch
from everstep_cli.drill.worker_logs import median_step_seconds, read_steps
from everstep_cli.errors import CommandError
from everstep_cli.waiting import seen

HEAL_SECONDS: Final = 60.0
"""How long any change of membership may take; the same bound as plain torchrun has."""
CHECKPOINT_SECONDS: Final = 120.0
"""How long it may take to the next checkpoint, and to the next save that fails."""
STEPS_WITHOUT_ROOM: Final = 5
"""How many steps training goes on beside a full disk after a save has failed."""
HOLD_WATCH_SECONDS: Final = 2.0
"""How long a holding job is watched: it must not take a step."""
WITHOUT_BUS_SECONDS: Final = 2.0
"""How long training goes on without a bus before something else fails, and again after it."""
DECISIONS: Final[dict[ServiceName, Wire]] = {
    "node_watcher": Wire(".suspected", said=False),
    "adjudicator": Wire("$KV.jobs.", said=True),
    "rescaler": Wire("everstep.cmd.", said=False),
}
"""The sentence between a service's decision and its publication: the adjudicator decides by
writing the record, so that is said; the others decide in memory, so what follows is not."""


UNDONE_BY: Final[dict[Hurting, str]] = {"freeze": "thaw", "cut_bus": "restore_bus"}
REPLACED_ONLY_ON_DEMAND: Final[frozenset[Hurting]] = frozenset({"power_off", "crash", "freeze"})
"""Nodes that are cordoned before: a replacement starts there only when the drill says so."""


@dataclass
class Injured:
    """What was done so far; ``first_at`` in seconds since the epoch.

    ``best``: the newest checkpoint that was whole when the job had ended; ``damaged``: the one that
    was newer.
    """

    first_at: float | None = None
    members: list[Member] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    generation: int = 0
    best: Manifest | None = None
    damaged: Manifest | None = None

    @property
    def since(self) -> datetime:
        """The first fault's instant."""
        assert self.first_at is not None
        return datetime.fromtimestamp(self.first_at, UTC)


class Injection:
    """Carries one fault out on a stage; ``seed`` chooses members and moments."""

    def __init__(self, stage: Stage, watch: Watch, seed: int) -> None:
        self._stage = stage
        self._watch = watch
        self._random = random.Random(seed)  # noqa: S311  # a drill is repeatable
        self._standing: list[tuple[Hurting, str]] = []
        self.injured = Injured()

    async def carry_out(self, fault: Fault) -> None:
        """Do all of it, and wait for all that it waits for.

        Raises:
            CommandError: Something expected did not come in time.
        """
        for action in fault.actions:
            await self._do(action)

    async def let_go(self) -> bool:
        """Thaw what was frozen, mend what was cut; whether there was anything."""
        for how, node in self._standing:
            await self._stage.cluster.fault(UNDONE_BY[how], node)
        return bool(self._standing)

    async def _do(self, action: Action) -> None:
        match action:
            case Hurt():
                await self._random_moment(action.within_steps)
                await self._hurt(action.how, self._choose(action))
            case HurtWhileForming(how=how):
                await self._reordered()
                await self._hurt(how, self._choose(Hurt(how)))
            case AwaitSteps() | AwaitCheckpoints() | AwaitHold() | AwaitDismissal():
                await self._wait(action)
            case BringBack():
                await self._stage.cluster.cordon(self.injured.members[0].node, cordoned=False)
            case StopBus():
                self._stage.stop_bus()
                await asyncio.sleep(WITHOUT_BUS_SECONDS)
            case StartBus():
                await asyncio.sleep(WITHOUT_BUS_SECONDS)
                self._stage.start_bus()
            case TripService(service=service):
                self._stage.arm(service, DECISIONS[service])
            case EndJob(damage=damage):
                await self._end_job(damage=damage)
            case FillDisk():
                await self._fill_disk()
            case _:
                assert_never(action)

    async def _wait(self, awaited: Waiting) -> None:
        match awaited:
            case AwaitSteps():
                await self._await_steps(awaited)
            case AwaitCheckpoints(count=count):
                await self._await_checkpoints(count)
            case AwaitHold():
                await self._reordered()
                await asyncio.sleep(HOLD_WATCH_SECONDS)
            case AwaitDismissal():
                await self._await_dismissal()
            case _:
                assert_never(awaited)

    def _choose(self, hurt: Hurt) -> list[Member]:
        """Whom to hurt, among the members of the newest order that nobody has hurt yet."""
        order = self._watch.order
        assert order is not None
        whole = [s.member for s in order.seats if s.member not in self.injured.members]
        if hurt.target == "store_host":
            return [member for member in whole if member.incarnation == order.store_host]
        return self._random.sample(whole, hurt.count)

    async def _hurt(self, how: Hurting, chosen: list[Member]) -> None:
        assert self._watch.order is not None
        self.injured.generation = self._watch.order.generation
        if how in REPLACED_ONLY_ON_DEMAND:
            for member in chosen:
                await self._stage.cluster.cordon(member.node, cordoned=True)
        nodes = await self._stage.cluster.nodes()
        self.injured.members += chosen
        hurting = (self._hurt_one(how, member, nodes[member.node].pids) for member in chosen)
        first_at = min(await asyncio.gather(*hurting))
        self.injured.first_at = self.injured.first_at or first_at

    async def _hurt_one(self, how: Hurting, member: Member, pids: frozenset[int]) -> float:
        cluster = self._stage.cluster
        if how == "kill_worker":
            worker = self._watch.reports[member.incarnation].workers[0].pid
            self.injured.pids.add(worker)
            return await cluster.fault("kill", member.node, pid=worker)
        self.injured.pids |= pids if how != "cut_bus" else set()
        if how == "power_off" and not self._stage.networks:
            how = "freeze"
        if how in UNDONE_BY:
            self._standing.append((how, member.node))
        return await cluster.fault(how, member.node)

    async def _reordered(self) -> None:
        def newer() -> bool | None:
            order = self._watch.order
            return (order is not None and order.generation > self.injured.generation) or None

        await self._watch.until(newer, within_seconds=HEAL_SECONDS, what="a newer order")

    async def _await_steps(self, wanted: AwaitSteps) -> None:
        def stepping() -> bool | None:
            return self._watch.stepping(wanted.members, after=self.injured.generation) or None

        what = f"the first step with {wanted.members} members"
        await self._watch.until(stepping, within_seconds=wanted.within_seconds, what=what)
        assert self._watch.order is not None
        self.injured.generation = self._watch.order.generation

    async def _await_checkpoints(self, count: int) -> None:
        """Committed from now on, so that nothing is half written when one is there."""
        before = self._watch.committed

        def enough() -> bool | None:
            return self._watch.committed >= before + count or None

        what = f"{count} more checkpoints"
        await self._watch.until(enough, within_seconds=count * CHECKPOINT_SECONDS, what=what)

    async def _end_job(self, *, damage: bool) -> None:
        """All stop in the same moment and are killed where they stand: nobody says goodbye.

        The moment is any in which no checkpoint is being written, which takes a few steps.

        Their nodes are frozen in between, so that no pod is seen to fail: of a job whose pods have
        all failed Volcano starts none anew.
        """
        await self._random_moment(CHECKPOINT_EVERY // 2)
        cluster, order = self._stage.cluster, self._watch.order
        assert order is not None
        self.injured.generation = order.generation
        self.injured.members += [seat.member for seat in order.seats]
        nodes = [member.node for member in self.injured.members]
        for node in (await cluster.nodes()).values():
            self.injured.pids |= node.pids
        self.injured.first_at = min(await cluster.everywhere("freeze", nodes))
        good = good_checkpoints(self._stage.checkpoints, JOB)
        if damage and good:
            self.injured.damaged, *rest = good
            flip_one_byte(self._stage.checkpoints, good[0])
            good = tuple(rest)
        self.injured.best = good[0] if good else None
        await cluster.force_delete_pods(JOB.namespace)
        await cluster.everywhere("crash", nodes)
        await cluster.everywhere("thaw", nodes)

    async def _fill_disk(self) -> None:
        def failed() -> bool | None:
            return any(isinstance(event, SaveFailed) for event in self._watch.events) or None

        self.injured.first_at = time.time()
        async with background(keep_full(self._stage.checkpoints)):
            what = "a save that fails for want of room"
            await self._watch.until(failed, within_seconds=CHECKPOINT_SECONDS, what=what)
            last = self._newest_step() + STEPS_WITHOUT_ROOM

            def stepped() -> bool | None:
                return self._newest_step() >= last or None

            if not await seen(stepped, within_seconds=HEAL_SECONDS):
                raise CommandError(f"no step {last} beside a full disk in {HEAL_SECONDS:g} s")

    def _newest_step(self) -> int:
        return max((step.step for step in read_steps(self._stage.workers)), default=0)

    async def _await_dismissal(self) -> None:
        def dismissed() -> bool | None:
            ended = self._watch.ended(self.injured.since)
            return any(incident.outcome == "dismissed" for incident in ended) or None

        await self._watch.until(dismissed, within_seconds=HEAL_SECONDS, what="a dismissal")

    async def _random_moment(self, steps: int) -> None:
        """Wait until a moment anywhere within so many steps, as long as they take here."""
        taken = read_steps(self._stage.workers)
        step_seconds = median_step_seconds(taken, until=time.time()) or 0.0
        await asyncio.sleep(self._random.uniform(0.0, steps * step_seconds))
