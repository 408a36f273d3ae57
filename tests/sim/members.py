"""Simulated members: the agent's real core, with simulated processes and a simulated network."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

from everstep_bus.errors import TransientBusError
from everstep_bus.memory import MemoryBus
from everstep_contract.clients import agent_client_name
from everstep_contract.identity import Endpoint, GangSpec, JobKey, Member
from everstep_contract.names import encode_name
from everstep_contract.orders import Order
from everstep_contract.queries import ProbeMember, ProbeReply
from everstep_runtime.clock import Moment
from everstep_trainer.agent.decide import react
from everstep_trainer.agent.effects import (
    Effect,
    Exit,
    Gossip,
    KillWorker,
    Publish,
    Reach,
    Report,
    SendToWorker,
    StartStore,
    StartWorker,
    TerminateWorker,
    Warn,
)
from everstep_trainer.agent.inputs import (
    Input,
    OrderHeard,
    PeersReached,
    StoreUp,
    Terminate,
    Tick,
    WorkerDied,
    WorkerSaid,
    WorkerStarted,
)
from everstep_trainer.agent.model import AgentState, ExitStatus, Limits, Me
from everstep_trainer.agent.outbox import Outbox, matters
from everstep_trainer.link import ToAgent
from sim.ledger import Ledger
from sim.network import Network
from sim.workers import Fabric, SimWorker
from support.virtual_time import VirtualClock

TICK_SECONDS: Final = 0.25
START_SECONDS: Final = 0.5
PEER_PORT: Final = 29600
KILL_SECONDS: Final = 0.01
PHASE_SECONDS: Final = 8.0
"""A stuck first step is no exception here: the wait for it is just longer."""


@dataclass(frozen=True)
class Surroundings:
    """What all members of one world share."""

    job: JobKey
    gang: GangSpec
    network: Network
    fabric: Fabric
    ledger: Ledger
    clock: VirtualClock
    connect: Any


class SimMember:
    """One life of one pod: its agent's core, its workers, its connection to the bus."""

    def __init__(self, world: Surroundings, member: Member, host: str) -> None:
        self.host = host
        self.member = member
        self.alive = True
        self.left = False
        self.deaf = False
        self._world = world
        self._clock = world.clock
        self._running = asyncio.Event()
        self._running.set()
        self._unheard: list[Input] = []
        peer = Endpoint(host=host, port=PEER_PORT)
        limits = Limits(phase_seconds=PHASE_SECONDS)
        me = Me(world.job, member, world.gang, peer, boot_id=member.node, limits=limits)
        self._state = AgentState.new(me, self._moment())
        self._outbox = Outbox(lambda event: matters(event, self._state))
        self._workers: dict[int, tuple[int, SimWorker, asyncio.Task[None]]] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self.bus: MemoryBus = world.connect(agent_client_name(world.job, member.incarnation))
        world.network.open(peer, self._answer_peer)
        for work in (self._tick(), self._hear_orders(), self._publish(), self._answer_probes()):
            self._spawn(work)

    @property
    def incarnation(self) -> str:
        return self.member.incarnation

    @property
    def client_name(self) -> str:
        return agent_client_name(self._world.job, self.incarnation)

    @property
    def frozen(self) -> bool:
        return not self._running.is_set()

    @property
    def ending(self) -> bool:
        return self._state.ending is not None

    @property
    def order(self) -> Order | None:
        return self._state.order

    @property
    def store(self) -> Endpoint:
        return Endpoint(host=self.host, port=PEER_PORT + 1)

    @property
    def version(self) -> int:
        """The newest whole state that a worker here holds; -1: none."""
        return max((worker.version for _, worker, _ in self._workers.values()), default=-1)

    async def gate(self) -> None:
        """Wait while frozen."""
        await self._running.wait()

    async def network(self) -> None:
        """Wait while cut off from the others."""
        await self._world.network.wait_for(self.host)

    # --- what befalls it ------------------------------------------------------------------------

    def freeze(self) -> None:
        """SIGSTOP to everything here."""
        self._running.clear()

    def thaw(self) -> None:
        """SIGCONT: what was heard meanwhile is heard now."""
        self._running.set()
        unheard, self._unheard = self._unheard, []
        for heard in unheard:
            self.hear(heard)

    def die(self, *, quiet: bool) -> None:
        """All processes end; ``quiet``: with the node's power, so that nobody says goodbye."""
        if not self.alive:
            return
        self.alive = False
        for _, worker, task in self._workers.values():
            worker.vanish(quiet=quiet)
            task.cancel()
        for task in self._tasks:
            task.cancel()
        self._world.network.close(Endpoint(host=self.host, port=PEER_PORT))
        self.bus.close()

    def kill_worker(self, local_rank: int, classified: str = "killed") -> None:
        """One worker's process ends."""
        if local_rank not in self._workers:
            return
        life, worker, task = self._workers.pop(local_rank)
        worker.vanish(quiet=False)
        task.cancel()
        status = ExitStatus(signal=9, classified=classified)  # type: ignore[arg-type]  # a literal
        self.hear(WorkerDied(local_rank, life, status))

    def stick(self) -> None:
        """Workers here do not leave their group any more, whatever they are told (EC-12)."""
        for _, worker, _ in self._workers.values():
            worker.stuck = True

    def terminate(self) -> None:
        """SIGTERM to the agent."""
        self.hear(Terminate("SIGTERM"))

    # --- its agent ------------------------------------------------------------------------------

    def hear(self, heard: Input) -> None:
        """One input to the agent's core, and what follows from it."""
        if not self.alive or (self.deaf and isinstance(heard, OrderHeard)):
            return
        if self.frozen:
            self._unheard.append(heard)
            return
        before = self._state.order
        self._state, effects = react(self._state, heard, self._moment())
        after = self._state.order
        if after is not None and (before is None or after.verdict_id != before.verdict_id):
            self._world.ledger.obeys(self.incarnation, after)
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case StartWorker() | SendToWorker() | KillWorker() | TerminateWorker():
                self._manage(effect)
            case StartStore():
                self._later(KILL_SECONDS, self.hear, StoreUp(self.store))
            case Publish(event):
                self._outbox.put(event)
            case Report(report):
                self._spawn(self._report(report))
            case Gossip(order, to):
                for endpoint in to:
                    self._spawn(self._offer(order, endpoint))
            case Reach(verdict_id, endpoints):
                self._spawn(self._reach(verdict_id, endpoints))
            case Exit():
                self._later(0.2, self._leave)
            case Warn():
                pass

    def _manage(self, effect: StartWorker | SendToWorker | KillWorker | TerminateWorker) -> None:
        match effect:
            case StartWorker(local_rank, life, _):
                self._start_worker(local_rank, life)
            case SendToWorker(local_rank, life, message):
                known = self._workers.get(local_rank)
                if known is not None and known[0] == life:
                    known[1].tell(message)
            case KillWorker(local_rank, life, _) | TerminateWorker(local_rank, life):
                self._later(KILL_SECONDS, self._kill_asked, local_rank, life)

    def _leave(self) -> None:
        self.left = True
        self.die(quiet=False)

    def _later(self, seconds: float, what: Any, *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(seconds, what, *arguments)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(asyncio.ensure_future(work))

    def _start_worker(self, local_rank: int, life: int) -> None:
        def say(message: ToAgent) -> None:
            self.hear(WorkerSaid(local_rank, life, message))

        worker = SimWorker(self, self._world.fabric, local_rank, say)
        task = asyncio.ensure_future(worker.run(START_SECONDS))
        self._workers[local_rank] = (life, worker, task)
        self._later(KILL_SECONDS, self.hear, WorkerStarted(local_rank, life, 1000 + life))

    def _kill_asked(self, local_rank: int, life: int) -> None:
        known = self._workers.get(local_rank)
        if known is not None and known[0] == life and self.alive:
            self.kill_worker(local_rank)

    def _moment(self) -> Moment:
        return Moment.of(self._clock)

    # --- its connections ------------------------------------------------------------------------

    async def _tick(self) -> None:
        count = self._world.gang.nproc_per_node
        while True:
            await self.gate()
            pages = tuple(
                self._workers[rank][1].page() if rank in self._workers else None
                for rank in range(count)
            )
            self.hear(Tick(self.bus.connected, pages))
            await asyncio.sleep(TICK_SECONDS)

    async def _hear_orders(self) -> None:
        while True:
            try:
                async for order in self.bus.orders(self._world.job):
                    self.hear(OrderHeard(order))
            except TransientBusError:
                await asyncio.sleep(TICK_SECONDS)

    async def _publish(self) -> None:
        await self._outbox.run(self.bus)

    async def _report(self, report: Any) -> None:
        try:
            await self.bus.report(report)
        except TransientBusError:
            return

    async def _answer_probes(self) -> None:
        async def answer(query: ProbeMember) -> ProbeReply:
            await self.gate()
            return await self._world.network.probe(self.host, query)

        address = f"{self._world.job.token}.{encode_name(self.incarnation)}"
        while True:
            try:
                async with self.bus.answer(ProbeMember, answer, address=address):
                    await asyncio.Event().wait()
            except TransientBusError:
                await asyncio.sleep(TICK_SECONDS)

    async def _answer_peer(self, offered: Order | None) -> tuple[str, Order | None]:
        await self.gate()
        if offered is not None:
            self.hear(OrderHeard(offered))
        return self.incarnation, self.order

    async def _offer(self, order: Order, endpoint: Endpoint) -> None:
        try:
            _, newest = await self._world.network.ask(self.host, endpoint, order)
        except (OSError, TimeoutError):
            return
        if newest is not None:
            self.hear(OrderHeard(newest))

    async def _reach(self, verdict_id: str, endpoints: tuple[Endpoint, ...]) -> None:
        missing = list(endpoints)
        while missing and self.order is not None and self.order.verdict_id == verdict_id:
            missing = [endpoint for endpoint in missing if not await self._reaches(endpoint)]
            if missing:
                await asyncio.sleep(TICK_SECONDS)
        if not missing:
            self.hear(PeersReached(verdict_id))

    async def _reaches(self, endpoint: Endpoint) -> bool:
        if endpoint.port != PEER_PORT:
            return self._world.fabric.store_answers(self.host, endpoint)
        try:
            await self._world.network.ask(self.host, endpoint, None)
        except (OSError, TimeoutError):
            return False
        return True
