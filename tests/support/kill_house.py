"""A whole job on real parts, each of which can be killed while the others go on.

One nats-server, all services and two agents as processes of their own, and `counting_script` as the
workers' script. What is killed is started again at once, as a cluster would.
"""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, assert_never

import psutil
from everstep_bus.background import background
from everstep_checkpoint.storage import Storage
from everstep_contract.clients import Role
from everstep_contract.facts.job import OrderIssued, VerdictReached
from everstep_contract.facts.member import MemberFormed
from everstep_contract.facts.worker import WorkerExited
from support.agent_fleet import Fleet
from support.agent_home import gone
from support.kill_ledger import (
    Generations,
    Version,
    judge_files,
    newest_eligible,
    require_agreement,
)
from support.polling import eventually
from support.service_processes import ServiceProcess, service_process, settings_of

Part = Literal["worker", "workers", "flusher", "agent", "indexer", "job"]
PARTS: Final[tuple[Part, ...]] = ("worker", "workers", "flusher", "agent", "indexer", "job")
"""workers: all of them at once, and their agents live · job: all agents at once."""
SERVICES: Final[tuple[Role, ...]] = (
    "node_watcher",
    "adjudicator",
    "rescaler",
    "checkpoint_indexer",
)
MEMBERS: Final = 2
SCRIPT: Final = Path(__file__).with_name("counting_script.py")
WEIGHT_KIB: Final = 4096
"""Large enough for a kill to come in the middle of a copy or of a file."""
AGAIN_SECONDS: Final = 90.0
"""Longest wait for the job to go on: many times what it takes, as tests share a machine."""
LOOK_SECONDS: Final = 0.05
"""How often storage is looked through for checkpoints; retention takes longer to delete one."""
MOMENT_SECONDS: Final = 0.4
"""A kill comes at some moment of these: many steps, saves and commits long."""
SECOND_KILL: Final = 0.25
IMPATIENT: Final = {
    "EVERSTEP_FORM_SETTLE_SECONDS": "1",
    "EVERSTEP_GROW_QUIET_SECONDS": "0.1",
    "EVERSTEP_GROW_INTERVAL_SECONDS": "0",
}
"""Of the adjudicator: replacements come at once here."""


def service_of(fleet: Fleet, role: Role, root: str) -> AbstractAsyncContextManager[ServiceProcess]:
    """A service on this fleet's server; its log is called by its role and its turn.

    ``root``: of all checkpoints.
    """
    settings = settings_of(role, fleet.server.url, fleet.credentials)
    if role == "checkpoint_indexer":
        settings["EVERSTEP_CHECKPOINT_ROOT"] = root
    if role == "adjudicator":
        settings |= IMPATIENT
    turn = len(list(fleet.folder.glob(f"{role}-*.log")))
    return service_process(role, settings, fleet.folder / f"{role}-{turn}.log")


@dataclass(frozen=True)
class Training:
    """Steps between snapshots, and between checkpoints; workers of a member."""

    snapshot_every: int
    checkpoint_every: int
    nproc: int = 1


@dataclass
class KillHouse:
    """What a test sees and does; `kill` is one trial."""

    fleet: Fleet
    training: Training
    stack: AsyncExitStack
    services: dict[Role, ServiceProcess] = field(default_factory=dict)
    living: list[int] = field(default_factory=list)
    judged: dict[Path, Version] = field(default_factory=dict)
    killed: Counter[Part] = field(default_factory=Counter)
    cold: dict[int, Version] = field(default_factory=dict)
    """By the last generation of a job that died as a whole: the newest checkpoint of then."""
    lost_of_living: Counter[int] = field(default_factory=Counter)
    lost_of_dead: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._noted = Generations(self.fleet.folder)

    @property
    def root(self) -> Path:
        """Of all checkpoints."""
        return self.fleet.folder / "checkpoints"

    @property
    def storage(self) -> Storage:
        return Storage(self.root)

    @property
    def noted(self) -> Generations:
        """What all scripts have noted so far."""
        self._noted.look()
        return self._noted

    @property
    def sources(self) -> Counter[str]:
        """Where generations went on from, each once."""
        formed: list[MemberFormed] = self.fleet.events(MemberFormed)
        return Counter({told.generation: told.source for told in formed}.values())

    async def start(self) -> None:
        """Everything, until the job trains."""
        for role in SERVICES:
            await self.start_service(role)
        for _ in range(MEMBERS):
            await self.start_agent()
        await self.goes_on(0)
        await self.commits(Version(0, 0))

    async def start_service(self, role: Role) -> None:
        """In the place of the one before, if there was one."""
        started = service_of(self.fleet, role, str(self.root))
        self.services[role] = await self.stack.enter_async_context(started)

    async def start_agent(self) -> None:
        """One more member."""
        self.living.append(len(self.fleet.agents))
        training = self.training
        gang = ("--nnodes", f"1:{MEMBERS}", "--nproc-per-node", training.nproc)
        program = (SCRIPT, self.fleet.folder, WEIGHT_KIB)
        cadence = (training.snapshot_every, training.checkpoint_every)
        arguments = map(str, (*gang, *program, *cadence))
        await self.fleet.start_script(*arguments, EVERSTEP_CHECKPOINT_ROOT=str(self.root))

    async def goes_on(self, after_step: int) -> None:
        """Wait until all members train in one generation, and have come beyond this step."""

        def trains() -> bool:
            reports = [self.fleet.report(index) for index in self.living]
            places = {(r.phase, r.generation) if r else ("unheard", 0) for r in reports}
            ((phase, generation), *others) = places
            return (
                phase == "stepping"
                and not others
                and self.noted.done.get(generation, 0) > after_step
            )

        await eventually(trains, within_seconds=AGAIN_SECONDS, what=f"not beyond {after_step}")

    async def commits(self, beyond: Version) -> None:
        """Wait until there is a newer checkpoint than this."""
        await eventually(
            lambda: max(self.judged.values(), default=Version(0, 0)) > beyond,
            within_seconds=AGAIN_SECONDS,
            what=f"no checkpoint beyond {beyond}",
        )

    async def kill(self, part: Part, chance: random.Random) -> None:
        """One trial: kill it at some moment, have it started again, and judge what came of it.

        Sometimes something else dies before that has healed.
        """
        await asyncio.sleep(chance.uniform(0, MOMENT_SECONDS))
        noted = self.noted
        generation, committed = noted.reached().generation, self.newest_checkpoint(noted)
        await self._kill(part, chance)
        if chance.random() < SECOND_KILL:
            await asyncio.sleep(chance.uniform(0, MOMENT_SECONDS))
            await self._kill(chance.choice(PARTS), chance)
        await self.goes_on(self.noted.reached().step)
        await self.commits(committed)
        self.judge(generation, committed)

    async def _kill(self, part: Part, chance: random.Random) -> None:
        self.killed[part] += 1
        match part:
            case "worker":
                _kill_pids([chance.choice(await self._some("everstep-worker"))])
            case "workers":
                _kill_pids(await self._some("everstep-worker"))
            case "flusher":
                _kill_pids([chance.choice(await self._some("everstep-flush"))])
            case "agent":
                await self._kill_agents([chance.choice(self.living)])
            case "job":
                await self._kill_agents(list(self.living))
            case "indexer":
                await self.services["checkpoint_indexer"].close()
                await self.start_service("checkpoint_indexer")
            case _:
                assert_never(part)

    async def _kill_agents(self, indexes: list[int]) -> None:
        """What was committed until then is what a job goes on from of which nobody lives."""
        self.look_at_files()
        committed = list(self.judged.values())
        below = self._below(indexes)
        for index in indexes:
            self.fleet.agents[index].send_signal(signal.SIGKILL)
            self.living.remove(index)
        for child in below:
            await gone(child.pid)
        noted = self.noted
        newest = noted.reached().generation
        if not self._names_in(newest) & {f"trainer-{index}" for index in self.living}:
            self.cold[newest] = newest_eligible(committed, noted)
        for _ in indexes:
            await self.start_agent()

    def _names_in(self, generation: int) -> set[str]:
        """Who trained in a generation: a candidate that lives has nothing of it."""
        orders = (issued.order for issued in self.fleet.events(OrderIssued))
        return {
            seat.member.name
            for order in orders
            if order.generation == generation
            for seat in order.seats
        }

    async def _some(self, name: str) -> list[int]:
        """Living processes of this name; there soon are some."""
        found: list[int] = []

        def look() -> bool:
            with suppress(psutil.NoSuchProcess):  # one ended while we looked
                below = self._below(self.living)
                found[:] = [child.pid for child in below if child.name() == name]
            return bool(found)

        await eventually(look, within_seconds=AGAIN_SECONDS, what=f"no {name}")
        return found

    def _below(self, indexes: list[int]) -> list[psutil.Process]:
        """Everything that these agents have started."""
        found: list[psutil.Process] = []
        for index in indexes:
            found += psutil.Process(self.fleet.agents[index].pid).children(recursive=True)
        return found

    def judge(self, generation: int, floor: Version) -> None:
        """Judge where all generations after this one began; ``floor``: the newest checkpoint."""
        noted = self.noted
        require_agreement(self.fleet.events(MemberFormed), noted)
        for later in sorted(one for one in noted.begun if one > generation):
            reached, start = noted.reached_before(later), noted.start(later)
            assert start >= floor.step, f"{floor} was there, {later} began at {start}"
            committed = self.cold.get(reached.generation)
            if committed is not None:
                assert start >= committed.step, f"{committed} was there, {later} began at {start}"
            else:
                kept = noted.newest_snapshot(reached, self.training.snapshot_every)
                assert start >= kept, f"{kept} was in memory, {later} began at {start}"
            lost = self.lost_of_living if committed is None else self.lost_of_dead
            lost[max(0, reached.step - start)] += 1

    def newest_checkpoint(self, noted: Generations) -> Version:
        """Of those that may be gone on from."""
        self.look_at_files()
        return newest_eligible(self.judged.values(), noted)

    def look_at_files(self) -> None:
        """Judge every committed checkpoint that has come since the last look."""
        for folder in self.root.glob("*/g*"):
            if folder not in self.judged and (version := judge_files(self.storage, folder)):
                self.judged[folder] = version

    async def look_forever(self) -> None:
        """Until cancelled."""
        while True:
            self.look_at_files()
            await asyncio.sleep(LOOK_SECONDS)

    def require_no_failures(self) -> None:
        """Nothing has ended but what was killed, and nobody gave up."""
        exits: list[WorkerExited] = self.fleet.events(WorkerExited)
        assert [one for one in exits if one.signal != signal.SIGKILL] == []
        verdicts: list[VerdictReached] = self.fleet.events(VerdictReached)
        assert [one for one in verdicts if one.verdict.kind == "give_up"] == []
        for index in self.living:
            assert psutil.pid_exists(self.fleet.agents[index].pid)

    async def end(self) -> None:
        """End the job as a cluster does: with time to save what it has come to."""
        for index in self.living:
            self.fleet.agents[index].send_signal(signal.SIGTERM)
        for index in self.living:
            async with asyncio.timeout(AGAIN_SECONDS):
                await self.fleet.agents[index].wait()


def _kill_pids(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # the last kill still has its effects
            os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def kill_house(fleet: Fleet, training: Training) -> AsyncIterator[KillHouse]:
    """A job that trains, and whose committed checkpoints are judged as they come."""
    async with AsyncExitStack() as stack:
        house = KillHouse(fleet, training, stack)
        house.root.mkdir()
        async with background(house.look_forever()):
            await house.start()
            yield house
