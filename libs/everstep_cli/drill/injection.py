"""Does what a fault's row says: hurts members, stops and starts things, waits in between."""

import asyncio
import random
import time
from typing import Final, assert_never

from everstep_bus.background import background
from everstep_contract.facts.checkpoint import SaveFailed
from everstep_contract.identity import Member
from everstep_contract.node_queries import DrainNode, ReleaseNode

from everstep_cli.drill.actions import (
    Action,
    BringBack,
    Disturbing,
    EndJob,
    FillDisk,
    Hurt,
    Hurting,
    HurtWhileForming,
    LetTrain,
    ServiceName,
    StartApi,
    StartBus,
    StopApi,
    StopBus,
    TripService,
    Undo,
)
from everstep_cli.drill.awaiting import CHECKPOINT_SECONDS, Awaiter, Injured
from everstep_cli.drill.disk import flip_one_byte, good_checkpoints, keep_full
from everstep_cli.drill.fault import CHECKPOINT_EVERY, Fault
from everstep_cli.drill.manifest import JOB
from everstep_cli.drill.stage import Stage
from everstep_cli.drill.tripwire import Wire
from everstep_cli.drill.watch import Watch
from everstep_cli.drill.worker_logs import median_step_seconds, read_steps

STEPS_WITHOUT_ROOM: Final = 5
"""How many steps training goes on beside a full disk after a save has failed."""
DRILL: Final = "everstep drill"
DRAIN_SECONDS: Final = 120.0
WITHOUT_BUS_SECONDS: Final = 2.0
"""How long training goes on without a bus before something else fails, and again after it."""
DECISIONS: Final[dict[ServiceName, Wire]] = {
    "node_watcher": Wire(".suspected", said=False),
    "adjudicator": Wire("$KV.jobs.", said=True),
    "rescaler": Wire("everstep.cmd.", said=False),
}
"""The sentence between a service's decision and its publication: the adjudicator decides by
writing the record, so that is said; the others decide in memory, so what follows is not."""


UNDONE_BY: Final[dict[Hurting, str]] = {
    "freeze": "thaw",
    "cut_bus": "restore_bus",
    "stop_kubelet": "start_kubelet",
    "preempt": "relent",
}
LEFT_ALONE: Final[frozenset[Hurting]] = frozenset({"cut_bus", "stop_kubelet"})
"""What ends no process."""
REPLACED_ONLY_ON_DEMAND: Final[frozenset[Hurting]] = frozenset({"power_off", "crash", "freeze"})
"""Nodes that are cordoned before: a replacement starts there only when the drill says so."""


class Injection:
    """Carries one fault out on a stage; ``seed`` chooses members and moments."""

    def __init__(self, stage: Stage, watch: Watch, seed: int) -> None:
        self._stage = stage
        self._watch = watch
        self._random = random.Random(seed)  # noqa: S311  # a drill is repeatable
        self._standing: list[tuple[Hurting, str]] = []
        self._dark: list[str] = []
        self.injured = Injured()
        self._awaiter = Awaiter(stage, watch, self.injured)

    async def carry_out(self, fault: Fault) -> None:
        """Do all of it, and wait for all that it waits for.

        Raises:
            CommandError: Something expected did not come in time.
        """
        for action in fault.actions:
            await self._do(action)

    async def let_go(self) -> bool:
        """Thaw what was frozen, mend what was cut; whether there was anything."""
        standing, self._standing = self._standing, []
        for how, node in standing:
            if how == "drain":
                await self._watch.ask_of_node(ReleaseNode(node=node, reason=DRILL, by=DRILL))
            else:
                await self._stage.cluster.fault(UNDONE_BY[how], node)
        return bool(standing)

    async def _do(self, action: Action) -> None:
        match action:
            case Hurt():
                await self._random_moment(action.within_steps)
                await self._hurt(action)
            case HurtWhileForming(how=how):
                await self._awaiter.reordered()
                await self._hurt(Hurt(how))
            case BringBack():
                await self._stage.cluster.cordon(self.injured.members[0].node, cordoned=False)
            case Undo():
                await self._undo()
            case StopBus() | StartBus() | StopApi() | StartApi() | TripService():
                await self._disturb(action)
            case EndJob(damage=damage):
                await self._end_job(damage=damage)
            case FillDisk():
                await self._fill_disk()
            case _:
                await self._awaiter.wait(action)

    async def _disturb(self, action: Disturbing) -> None:
        match action:
            case StopBus():
                self._stage.stop_bus()
                await asyncio.sleep(WITHOUT_BUS_SECONDS)
            case StartBus():
                await asyncio.sleep(WITHOUT_BUS_SECONDS)
                self._stage.start_bus()
            case StopApi():
                await self._stage.cluster.stop_api()
            case StartApi():
                await self._stage.cluster.start_api()
            case TripService(service=service):
                self._stage.arm(service, DECISIONS[service])
            case _:
                assert_never(action)

    def _choose(self, hurt: Hurt) -> list[Member]:
        """Whom to hurt, among the members of the newest order that nobody has hurt yet."""
        order = self._watch.order
        assert order is not None
        whole = [s.member for s in order.seats if s.member not in self.injured.members]
        if hurt.target == "store_host":
            return [member for member in whole if member.incarnation == order.store_host]
        return self._random.sample(whole, hurt.count)

    async def _undo(self) -> None:
        await self.let_go()
        dark, self._dark = self._dark, []
        for node in dark:
            await self._stage.cluster.fault("power_on", node)

    async def _hurt(self, hurt: Hurt) -> None:
        chosen = self._choose(hurt)
        assert self._watch.order is not None
        self.injured.generation = self._watch.order.generation
        if hurt.cordoned and hurt.how in REPLACED_ONLY_ON_DEMAND:
            for member in chosen:
                await self._stage.cluster.cordon(member.node, cordoned=True)
        nodes = await self._stage.cluster.nodes()
        self.injured.members += chosen
        hurting = (self._hurt_one(hurt.how, member, nodes[member.node].pids) for member in chosen)
        first_at = min(await asyncio.gather(*hurting))
        self.injured.first_at = self.injured.first_at or first_at

    async def _hurt_one(self, how: Hurting, member: Member, pids: frozenset[int]) -> float:
        cluster = self._stage.cluster
        if how == "kill_worker":
            worker = self._watch.reports[member.incarnation].workers[0].pid
            self.injured.pids.add(worker)
            return await cluster.fault("kill", member.node, pid=worker)
        self.injured.pids |= pids if how not in LEFT_ALONE else set()
        if how == "delete_pod":
            at = time.time()
            await cluster.delete_pod(JOB.namespace, member.name)
            return at
        if how == "drain":
            at = time.time()
            self._standing.append((how, member.node))
            wish = DrainNode(
                node=member.node, reason=DRILL, by=DRILL, timeout_seconds=DRAIN_SECONDS
            )
            await self._watch.ask_of_node(wish)
            return at
        if how == "power_off" and not self._stage.networks:
            how = "freeze"
        if how == "power_off":
            self._dark.append(member.node)
        if how in UNDONE_BY:
            self._standing.append((how, member.node))
        return await cluster.fault(how, member.node)

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
            await self._awaiter.wait(LetTrain(STEPS_WITHOUT_ROOM))

    async def _random_moment(self, steps: int) -> None:
        """Wait until a moment anywhere within so many steps, as long as they take here."""
        taken = read_steps(self._stage.workers)
        step_seconds = median_step_seconds(taken, until=time.time()) or 0.0
        await asyncio.sleep(self._random.uniform(0.0, steps * step_seconds))
