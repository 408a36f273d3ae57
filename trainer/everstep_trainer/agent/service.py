"""The agent's loop: hear orders, workers, peers and time; let the core decide; do what it says."""

import asyncio
import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, assert_never

import structlog
from everstep_bus.errors import BusError
from everstep_bus.interface import Bus
from everstep_contract.orders import Order
from everstep_contract.queries import ProbeMember
from everstep_contract.telemetry import MemberReport
from everstep_runtime.clock import Clock, Moment

from everstep_trainer.agent.decide import react
from everstep_trainer.agent.effects import (
    AskForMarks,
    AskForOrder,
    Effect,
    Exit,
    ForgetOvertaken,
    GiveSnapshot,
    Gossip,
    KillWorker,
    LookAtSnapshots,
    NoteFlush,
    Publish,
    Reach,
    Report,
    SendToWorker,
    StartStore,
    StartWorker,
    StopFlusher,
    TerminateWorker,
    Vouch,
    Warn,
    WriteShard,
)
from everstep_trainer.agent.ending import EXIT_STATUS
from everstep_trainer.agent.environment import worker_environment
from everstep_trainer.agent.errands import Errands
from everstep_trainer.agent.flushing import Flushing, Shelf
from everstep_trainer.agent.giver import Giver
from everstep_trainer.agent.giving import why_not_keep
from everstep_trainer.agent.inputs import (
    Input,
    OrderConfirmed,
    OrderHeard,
    PeriodHeard,
    SnapshotsSeen,
    Terminate,
    Tick,
)
from everstep_trainer.agent.meaning import is_peer
from everstep_trainer.agent.memory import Memory
from everstep_trainer.agent.model import AgentState, Me
from everstep_trainer.agent.outbox import Outbox, matters
from everstep_trainer.agent.peer import MAX_LINE_BYTES, PeerPort, probe
from everstep_trainer.agent.replicas import Incoming, Offer
from everstep_trainer.agent.workers import Places, Workers
from everstep_trainer.agent.zygote import Zygote

TICK_SECONDS: Final = 0.25
FLUSH_SECONDS: Final = 2.0
"""How long the agent's end waits for its last facts; well under a pod's grace of 30 s."""
RESTART_SECONDS: Final = 0.5

log = structlog.get_logger()


@dataclass(frozen=True)
class Life:
    """What an agent is born with."""

    me: Me
    zygote: Zygote
    listener: socket.socket
    run_id: str
    log_dir: str = ""
    checkpoint_root: str = ""


class Agent:
    """Holds the core's state, and does what the core says. One loop, no thread, no lock."""

    def __init__(self, life: Life, clock: Clock) -> None:
        self._life = life
        self._clock = clock
        self._state = AgentState.new(life.me, self._moment())
        self._outbox = Outbox(lambda event: matters(event, self._state))
        self._memory = Memory(life.me)
        places = Places(life.me.peer.host, life.log_dir, self._memory.workers)
        self._workers = Workers(life.zygote, self.hear, places)
        root = life.checkpoint_root
        self._flushing = Flushing(Shelf(root, life.me), self._memory, self.hear) if root else None
        self._report: MemberReport | None = None
        self._reportable = asyncio.Event()
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._doubts: asyncio.Queue[int] = asyncio.Queue(1)
        self._errands = Errands(self, life.me.peer.host)
        self._giver = Giver(life.me, self._memory, self.hear)

    @property
    def zygote_pid(self) -> int:
        """The process that forks this agent's workers."""
        return self._life.zygote.pid

    @property
    def flusher_pid(self) -> int:
        """The process that makes snapshots durable; 0 while there is none."""
        return self._flushing.pid if self._flushing else 0

    @property
    def incarnation(self) -> str:
        """Of this agent."""
        return self._life.me.incarnation

    @property
    def order(self) -> Order | None:
        """The newest order heard, whoever asks: peers, and our own errands."""
        return self._state.order

    def hear(self, heard: Input) -> None:
        """Decide about one input and act on it at once."""
        self._state, effects = react(self._state, heard, self._moment())
        for effect in effects:
            self._perform(effect)

    def hear_order(self, order: Order, via: str) -> None:
        """An order came by the bus or from a peer."""
        if order.generation > self._state.generation:
            log.info("order heard", generation=order.generation, state=order.state, via=via)
        self.hear(OrderHeard(order))

    def hear_peer(self, order: Order, host: str) -> None:
        """An order was offered on the peer port; the training network is open to many."""
        if is_peer(self._state, host):
            self.hear_order(order, "peer")
        else:
            log.warning("order from a stranger ignored", source=host, generation=order.generation)

    def begin_to_keep(self, offer: Offer, host: str) -> Incoming | str:
        """A peer offers a shard on the peer port: where it may come to, or why it may not."""
        refusal = why_not_keep(self._state, offer, host)
        if refusal:
            return refusal
        self.hear(PeriodHeard(offer.every))
        return self._memory.replicas.begin(offer)

    def end_to_keep(self, incoming: Incoming) -> None:
        """A shard has come, or never will."""
        self._memory.replicas.end(incoming)

    async def live(self, bus: Bus) -> int:
        """Until the core says exit; the exit status."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._tick(bus)),
                group.create_task(self._follow_orders(bus)),
                group.create_task(self._confirm_order(bus)),
                group.create_task(self._outbox.run(bus)),
                group.create_task(self._send_reports(bus)),
                group.create_task(self._answer_probes(bus)),
                group.create_task(self._errands.run()),
                group.create_task(self._giver.run()),
            ]
            status = await self._ended
            await self._outbox.flush(FLUSH_SECONDS)
            for task in tasks:
                task.cancel()
        self._workers.close()
        if self._flushing:
            self._flushing.stop()
        self._memory.close()
        return status

    def _moment(self) -> Moment:
        return Moment.of(self._clock)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case StartWorker() | SendToWorker() | KillWorker() | TerminateWorker() | StartStore():
                self._manage(effect)
            case Publish(event):
                self._outbox.put(event)
            case Report(report):
                self._report = report
                self._reportable.set()
            case Gossip() | Reach() | AskForOrder():
                self._ask(effect)
            case Vouch() | NoteFlush():
                self._note(effect)
            case LookAtSnapshots() | WriteShard() | StopFlusher():
                self._save(effect)
            case GiveSnapshot() | AskForMarks() | ForgetOvertaken():
                self._copy(effect)
            case Warn(what, detail):
                log.warning(what, detail=detail, generation=self._state.generation)
            case Exit(code, reason):
                say = log.error if code == EXIT_STATUS["failed"] else log.info
                say("agent ends", status=code, why=reason)
                self._ended.set_result(code)
            case _:
                assert_never(effect)

    def _note(self, effect: Vouch | NoteFlush) -> None:
        match effect:
            case Vouch(generation):
                self._workers.vouch(generation)
            case NoteFlush(seconds):
                self._workers.note_flush(seconds)

    def _manage(
        self, effect: StartWorker | SendToWorker | KillWorker | TerminateWorker | StartStore
    ) -> None:
        match effect:
            case StartWorker(local_rank, life, place):
                run_id = self._life.run_id
                changes = worker_environment(self._life.me, local_rank, run_id, place)
                self._workers.start_worker(local_rank, life, changes)
            case SendToWorker(local_rank, life, message):
                self._workers.tell(local_rank, life, message)
            case KillWorker(local_rank, life, reason):
                log.warning("worker killed", local_rank=local_rank, why=reason)
                self._workers.signal(local_rank, life, signal.SIGKILL)
            case TerminateWorker(local_rank, life):
                self._workers.signal(local_rank, life, signal.SIGTERM)
            case StartStore():
                self._workers.start_store()

    def _ask(self, effect: Gossip | Reach | AskForOrder) -> None:
        match effect:
            case Gossip(order, to, doubt):
                self._errands.offer(order, to, doubt)
            case Reach(verdict_id, endpoints):
                self._errands.reach(verdict_id, endpoints)
            case AskForOrder(doubt):
                with suppress(asyncio.QueueFull):  # asked already; the next tick asks again
                    self._doubts.put_nowait(doubt)

    def _save(self, effect: LookAtSnapshots | WriteShard | StopFlusher) -> None:
        assert self._flushing is not None, "without storage the core saves nothing"
        match effect:
            case LookAtSnapshots(occasion):
                self.hear(SnapshotsSeen(occasion, self._memory.snapshots()))
            case WriteShard(snapshot, keep_until, not_before, gentle):
                self._flushing.write(snapshot, keep_until, not_before, gentle=gentle)
            case StopFlusher():
                self._flushing.stop()
                self._giver.stop()
                self._memory.replicas.close()

    def _copy(self, effect: GiveSnapshot | AskForMarks | ForgetOvertaken) -> None:
        match effect:
            case GiveSnapshot():
                self._giver.give(effect)
            case AskForMarks(every):
                self._memory.ask(every)
            case ForgetOvertaken(history):
                self._memory.replicas.forget_overtaken(history)

    async def _tick(self, bus: Bus) -> None:
        count = len(self._state.workers)
        while True:
            self.hear(Tick(bus.connected, self._workers.pages(count)))
            await asyncio.sleep(TICK_SECONDS)

    async def _follow_orders(self, bus: Bus) -> None:
        """For ever: training goes on without the bus, and hears it again when it is back."""
        while True:
            try:
                async for order in bus.orders(self._life.me.job):
                    self.hear_order(order, "bus")
            except BusError as error:
                log.warning("cannot hear orders, trying again", why=str(error))
            await asyncio.sleep(RESTART_SECONDS)

    async def _confirm_order(self, bus: Bus) -> None:
        while True:
            doubt = await self._doubts.get()
            try:
                posted = await bus.last_order(self._life.me.job)
            except BusError as error:
                log.info("order not confirmed, asking again", why=str(error))
                continue
            if posted:
                self.hear_order(posted.order, "bus")
            self.hear(OrderConfirmed(doubt))

    async def _send_reports(self, bus: Bus) -> None:
        while True:
            await self._reportable.wait()
            self._reportable.clear()
            if self._report:
                try:
                    await bus.report(self._report)
                except BusError as error:  # the next report says more
                    log.warning("report not sent", why=str(error))

    async def _answer_probes(self, bus: Bus) -> None:
        me = self._life.me
        address = f"{me.job.token}.{me.incarnation}"
        while True:
            try:
                async with bus.answer(ProbeMember, probe, address=address):
                    await asyncio.Event().wait()
            except BusError as error:
                log.warning("cannot answer probes, trying again", why=str(error))
                await asyncio.sleep(RESTART_SECONDS)


def _reap_orphans() -> None:
    """As a container's first process the agent inherits what its workers leave behind."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


async def serve(life: Life, bus: Bus, clock: Clock) -> int:
    """Be an agent until its end; the process's exit status."""
    loop = asyncio.get_running_loop()
    agent = Agent(life, clock)
    for end in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(end, agent.hear, Terminate(end.name))
    loop.add_signal_handler(signal.SIGCHLD, _reap_orphans)
    port = PeerPort(agent)
    async with await asyncio.start_server(port.serve, sock=life.listener, limit=MAX_LINE_BYTES):
        return await agent.live(bus)
