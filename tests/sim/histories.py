"""Seeded histories: faults on a mischievous bus, then a kind world in which all must heal."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from everstep_adjudicator.policy import Policy
from everstep_bus.errors import BusError
from everstep_bus.memory import CALM, Mischief
from everstep_contract.layout import DEAD
from everstep_contract.queries import ResumeJob, SuspendJob
from everstep_contract.record import JobRecord
from everstep_contract.verdicts import Suspend
from sim.members import SimMember
from sim.world import World
from support.virtual_time import VirtualLoop

PATIENT: Final = Policy(no_progress_limit=1000, restart_budget=1000, rescale_seconds=60.0)
"""Nobody gives up: whether it heals is the question."""
HEALED_SECONDS: Final = 150.0
"""Ten waits of `Policy.form_seconds`: each fault may cost one, and the last must still form."""
STABLE_SECONDS: Final = 5.0
SERVICES: Final = ("adjudicator", "rescaler", "node_watcher")
LOSABLE: Final = ("KV_jobs", "KV_incidents", "KV_leases", "EVENTS", "ORDERS")
MEMBERS: Final = 8


def mischief_of(dice: random.Random, seed: int) -> Mischief:
    """How badly the bus behaves in this history; in one of four not at all."""
    if dice.random() < 0.25:
        return Mischief(seed=seed)
    return Mischief(
        seed=seed,
        delay_seconds=dice.choice([0.0, 0.005, 0.05]),
        refuse=dice.uniform(0, 0.04),
        lose_reply=dice.uniform(0, 0.04),
        duplicate=dice.uniform(0, 0.1),
        redeliver=dice.uniform(0, 0.1),
        reorder=dice.uniform(0, 0.2),
        lose_notice=dice.uniform(0, 0.1),
        lose_report=dice.uniform(0, 0.2),
        drop_connection=dice.choice([0.0, 0.002]),
    )


class History:
    """One history: what happens when follows from the seed alone."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.world = World(
            seed,
            members=MEMBERS,
            min_member=self.dice.choice([2, 5, 6, 8]),
            nproc=self.dice.choice([1, 1, 2]),
            mischief=mischief_of(self.dice, seed),
            policy=PATIENT,
        )
        self._repairs: list[asyncio.Task[None]] = []
        self._lossless = True
        self._faults: list[Callable[[], Awaitable[None]]] = [
            *[self.crash, self.power_off, self.freeze, self.kill_worker] * 3,
            *[self.terminate, self.stick, self.cut_bus, self.isolate] * 2,
            self.cut_network,
            *[self.kill_service] * 4,
            *[self.restart_bus, self.lose_tail, self.drop_connections],
            *[self.suspend, self.rescale, self.rescale, self.rescale_by_hand],
        ]

    async def run(self) -> None:
        """Faults, then kindness, then everything must be well."""
        world = self.world
        for name in SERVICES:
            self._start_service(name)
        if self.dice.random() < 0.3:
            world.start_service("adjudicator-standby")
        world.start_members()
        await world.go_on(self.dice.choice([0.5, 4.0, 6.0]))
        for _ in range(self.dice.randint(1, 6)):
            await self.dice.choice(self._faults)()
            await world.go_on(self.dice.choice([0.0, 0.02, 0.3, 1.0, 4.0]))
        await self.be_kind()
        await world.until(
            self._well_for(STABLE_SECONDS), within_seconds=HEALED_SECONDS, what="all is well"
        )
        self._check_what_was_told()
        world.ledger.check()

    def _check_what_was_told(self) -> None:
        """Every generation was announced (R4, R6), and nothing was given up as undeliverable."""
        world = self.world
        if not self._lossless:
            return
        told = world.announced()
        for record in world.ledger.records:
            if record.verdict_id not in told:
                world.ledger.breach(f"generation {record.generation} was never announced")
        if (dead := world.broker.stream(DEAD).last_sequence) > 0:
            world.ledger.breach(f"{dead} messages ended in DEAD")

    def _well_for(self, seconds: float) -> Callable[[], bool]:
        """Whether for so long all members have stepped in one generation, and nothing is open."""
        ledger, clock = self.world.ledger, self.world.clock
        since: list[tuple[float, int, int]] = []

        def well() -> bool:
            record = self.world.record()
            if record is None or not self._is_well(record):
                since.clear()
                return False
            if not since or since[0][1] != record.generation:
                since[:] = [(clock.monotonic(), record.generation, ledger.highest_step)]
            began, _, step = since[0]
            return clock.monotonic() - began >= seconds and ledger.highest_step > step

        return well

    def _is_well(self, record: JobRecord) -> bool:
        living = [member.incarnation for member in self.world.members.values() if member.alive]
        everybody = sorted(record.incarnations) == sorted(living)
        closed = all(incident.outcome is not None for incident in self.world.incidents())
        whole = len(living) == self.world.job.size.replicas
        over = record.rescale is None or not record.rescale.is_open
        return record.phase == "resumed" and everybody and whole and closed and over

    async def close(self) -> None:
        """End everything."""
        for task in self._repairs:
            task.cancel()
        await self.world.close()

    async def be_kind(self) -> None:
        """Everything is repaired, and the cluster says what it knows of dead nodes."""
        world = self.world
        world.say("the world is kind")
        world.trouble()
        for task in self._repairs:
            task.cancel()
        self._repairs.clear()
        world.broker.dice.mischief = CALM
        world.broker.connections.start()
        self._repairs.append(asyncio.ensure_future(self._keep_alive()))
        for member in (*world.members.values(), *world.past):
            if member.alive:
                world.thaw(member)
                world.reconnect(member)
        for node in world.dark_nodes:
            await world.fence(node)

    async def _keep_alive(self) -> None:
        """What has died is started again within a second, as a cluster does."""
        world = self.world
        while True:
            for name in SERVICES:
                if name not in world.services:
                    world.start_service(name)
            for index, member in list(world.members.items()):
                if not member.alive and world.wanted(index):
                    world.start_member(index)
            await self._resume()
            await asyncio.sleep(1.0)

    # --- faults ---------------------------------------------------------------------------------

    def _living(self) -> list[int]:
        return [i for i, m in self.world.members.items() if m.alive and not m.frozen]

    def _pick(self) -> int | None:
        living = self._living()
        return self.dice.choice(living) if living else None

    def _later(self, seconds: tuple[float, float], repair: Callable[[], None]) -> None:
        async def wait() -> None:
            await asyncio.sleep(self.dice.uniform(*seconds))
            repair()

        self._repairs.append(asyncio.ensure_future(wait()))

    def _remake(self, index: int, dead: SimMember) -> None:
        gone = self.world.members[index] is dead and not dead.alive
        if gone and self.world.wanted(index):
            self.world.start_member(index)

    async def crash(self) -> None:
        if (index := self._pick()) is not None:
            dead = self.world.members[index]
            self.world.crash(index)
            self._later((1, 20), lambda: self._remake(index, dead))

    async def power_off(self) -> None:
        if (index := self._pick()) is not None:
            dead = self.world.members[index]
            self.world.power_off(index)
            self._later((3, 30), lambda: self._remake(index, dead))

    async def freeze(self) -> None:
        if (index := self._pick()) is not None:
            member = self.world.members[index]
            self.world.freeze(index)
            self._later((0.2, 20), lambda: self.world.thaw(member) if member.alive else None)

    async def kill_worker(self) -> None:
        if (index := self._pick()) is not None:
            self.world.say(f"a worker of {self.world.members[index].incarnation} is killed")
            self.world.trouble(self.world.members[index])
            rank = self.dice.randrange(self.world.gang.nproc_per_node)
            self.world.members[index].kill_worker(rank)

    async def terminate(self) -> None:
        if (index := self._pick()) is not None:
            dead = self.world.members[index]
            self.world.say(f"{dead.incarnation} is told to go")
            dead.terminate()
            self._later((12, 30), lambda: self._remake(index, dead))

    async def stick(self) -> None:
        if (index := self._pick()) is not None:
            self.world.say(f"workers of {self.world.members[index].incarnation} are stuck")
            self.world.trouble(self.world.members[index])
            self.world.members[index].stick()

    async def cut_bus(self) -> None:
        if (index := self._pick()) is not None:
            member = self.world.members[index]
            self.world.cut_bus(index)
            self._later((0.5, 20), lambda: self.world.mend_bus(member))

    async def isolate(self) -> None:
        if (index := self._pick()) is not None:
            member = self.world.members[index]
            self.world.isolate(index)
            self._later((0.5, 25), lambda: self.world.reconnect(member))

    async def cut_network(self) -> None:
        if (index := self._pick()) is not None:
            member = self.world.members[index]
            self.world.cut_network(index)
            self._later((0.5, 10), lambda: self.world.reconnect(member))

    async def kill_service(self) -> None:
        """At once, or in the middle of one of its next calls to the bus."""
        name = self.dice.choice(SERVICES)
        if name in self.world.services:
            self.world.kill_service(name)
        self._later((0.05, 5), lambda: self._start_service(name))

    def _start_service(self, name: str) -> None:
        if name not in self.world.services:
            doomed = self.dice.random() < 0.3
            die_at = self.dice.randint(1, 60) if doomed else None
            self.world.start_service(name, die_at=die_at, after=self.dice.random() < 0.5)
            if doomed:
                self._later((5, 10), lambda: self._start_service(name))

    async def restart_bus(self) -> None:
        self.world.say("the bus dies")
        self.world.trouble()
        self.world.broker.stop()
        self._later((0.5, 8), self._start_bus)

    def _start_bus(self) -> None:
        self.world.say("the bus is back")
        self.world.trouble()
        self.world.broker.start()

    async def lose_tail(self) -> None:
        """The server dies and comes back without its newest writes."""
        name, count = self.dice.choice(LOSABLE), self.dice.randint(1, 5)
        self._lossless = False
        self.world.say(f"the bus dies and loses {count} writes of {name}")
        self.world.trouble()
        self.world.broker.stop()
        self.world.broker.lose_tail(name, count)
        self._later((0.5, 3), self._start_bus)

    async def suspend(self) -> None:
        """An operator lets the job hold; who resumes it is `be_kind`, or this, after a while."""
        record = self.world.record()
        with suppress(BusError):  # refused, or not answered
            if record is not None:
                self.world.say("an operator suspends the job")
                await self.world.command(SuspendJob, record.generation)

    async def _resume(self) -> None:
        record = self.world.record()
        if record is None or record.verdict != Suspend(by="operator"):
            return
        with suppress(BusError):
            self.world.say("an operator resumes the job")
            await self.world.command(ResumeJob, record.generation)

    async def rescale(self) -> None:
        """An operator wishes for another size; one in four is denied by the cluster."""
        replicas = self.dice.randint(2, MEMBERS + 1)
        least = self.dice.randint(1, replicas)
        job = self.world.job
        job.denial = "denied" if self.dice.random() < 0.25 else ""
        with suppress(BusError):
            self.world.say(f"an operator wishes for {replicas} members, at least {least}")
            await self.world.rescale(replicas, least)

    async def rescale_by_hand(self) -> None:
        """Somebody changes the Job's replicas, and asks nobody."""
        job = self.world.job
        replicas = self.dice.randint(job.size.min_available, MEMBERS + 1)
        self.world.trouble()
        job.become(job.size.model_copy(update={"replicas": replicas}))

    async def drop_connections(self) -> None:
        self.world.say("all connections drop")
        self.world.trouble()
        self.world.connections.drop_all("Slow Consumer")


def run_history(seed: int) -> World:
    """Run one history in simulated time.

    Raises:
        BrokenPromiseError: A promise does not hold; the message tells the seed and the history.
    """

    async def live() -> World:
        history = History(seed)
        try:
            await history.run()
        except AssertionError as error:
            told = "\n".join(history.world.ledger.lines)
            raise type(error)(f"seed {seed}: {error}\n{told}") from None
        finally:
            await history.close()
        return history.world

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(live())


def check_history(seed: int) -> None:
    """`run_history` for a pool of processes, which can carry an error back but no world."""
    run_history(seed)
