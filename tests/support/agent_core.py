"""Drives an agent's pure core in tests: a clock that is stepped, and workers that answer."""

from datetime import timedelta
from typing import TypeVar

from everstep_contract.base import Event
from everstep_contract.identity import Endpoint, GangSpec, Seat
from everstep_contract.orders import Order
from everstep_contract.record import OrderState
from everstep_runtime.clock import Moment
from everstep_trainer.agent.decide import react
from everstep_trainer.agent.effects import Effect, Publish, Report, SendToWorker
from everstep_trainer.agent.inputs import (
    Input,
    OrderHeard,
    StoreUp,
    Tick,
    WorkerDied,
    WorkerSaid,
    WorkerStarted,
)
from everstep_trainer.agent.model import AgentState, ExitStatus, Limits, Me, Rung
from everstep_trainer.link import (
    Assignment,
    FirstStep,
    Formed,
    Hello,
    Left,
    Parked,
    ToAgent,
    ToWorker,
)
from everstep_trainer.page import PageView
from support.messages import AT, DURATIONS, JOB, member

EventT = TypeVar("EventT", bound=Event)
EffectT = TypeVar("EffectT")
KILLED = ExitStatus(signal=9, classified="killed")
CRASHED = ExitStatus(code=1, classified="application")
FINISHED = ExitStatus(code=0, classified="finished")


def seat(index: int, nproc: int = 1) -> Seat:
    return Seat(
        member=member(index),
        peer=Endpoint(host=f"10.0.0.{index + 1}", port=7000),
        store=Endpoint(host=f"10.0.0.{index + 1}", port=7001),
        nproc=nproc,
    )


def make_order(
    generation: int,
    members: tuple[int, ...] = (0, 1),
    *,
    state: OrderState = "run",
    verdict_id: str = "",
    nproc: int = 1,
    restart: tuple[int, ...] = (),
    reason: str = "",
) -> Order:
    seats = tuple(seat(index, nproc) for index in members)
    return Order(
        job=JOB,
        job_uid="uid-1",
        generation=generation,
        verdict_id=verdict_id or f"v{generation}",
        state=state,
        seats=seats,
        store_host=seats[0].member.incarnation if seats and state == "run" else None,
        durations=DURATIONS,
        restart=tuple(member(index).incarnation for index in restart),
        reason=reason,
    )


class Core:
    """One agent's core, member ``index`` of the job, with a clock of its own."""

    def __init__(
        self,
        index: int = 0,
        *,
        nproc: int = 1,
        rung: Rung = "in_process",
        limits: Limits | None = None,
        scheduler_world_size: int | None = None,
        has_storage: bool = False,
    ) -> None:
        self.seconds = 1000.0
        me = Me(
            job=JOB,
            member=member(index),
            gang=GangSpec(min_member=1, max_member=8, nproc_per_node=nproc),
            peer=seat(index).peer,
            boot_id="boot-1",
            rung=rung,
            scheduler_world_size=scheduler_world_size,
            has_storage=has_storage,
            limits=limits or Limits(),
        )
        self.state = AgentState.new(me, self.moment)
        self.effects: list[Effect] = []
        self.pages: list[PageView | None] = [None] * nproc
        self.bus_up = True

    @property
    def moment(self) -> Moment:
        return Moment(AT + timedelta(seconds=self.seconds), self.seconds)

    def hear(self, heard: Input) -> tuple[Effect, ...]:
        self.state, effects = react(self.state, heard, self.moment)
        self.effects += effects
        return effects

    def tick(self) -> tuple[Effect, ...]:
        return self.hear(Tick(self.bus_up, tuple(self.pages)))

    def pass_seconds(self, seconds: float) -> tuple[Effect, ...]:
        """Let time pass in ticks, as the service does."""
        before = len(self.effects)
        end = self.seconds + seconds
        while self.seconds < end:
            self.seconds = min(end, self.seconds + 0.25)
            self.tick()
        return tuple(self.effects[before:])

    def order(self, order: Order) -> tuple[Effect, ...]:
        return self.hear(OrderHeard(order))

    def say(self, message: ToAgent, rank: int = 0) -> tuple[Effect, ...]:
        return self.hear(WorkerSaid(rank, self.state.workers[rank].life, message))

    def die(self, rank: int = 0, status: ExitStatus = KILLED) -> tuple[Effect, ...]:
        return self.hear(WorkerDied(rank, self.state.workers[rank].life, status))

    def born(self, rank: int = 0) -> None:
        """The zygote has forked the worker that was asked for last."""
        life = self.state.workers[rank].life
        self.hear(WorkerStarted(rank, life, 100 * life + rank + 1))

    def warm(self) -> "Core":
        """Store up, every worker parked: a candidate."""
        self.tick()
        self.hear(StoreUp(seat(0).store))
        for rank in range(len(self.state.workers)):
            self.born(rank)
            self.say(Hello(local_rank=rank, pid=1), rank)
            self.say(Parked(generation=0, version=-1), rank)
        return self

    def leave(self, version: int = -1) -> None:
        """Every worker acknowledges the newest order's assignment."""
        n = self.state.generation
        for rank in range(len(self.state.workers)):
            self.say(Left(generation=n, left_generation=n - 1, version=version), rank)

    def form(self, agreed_step: int = 0) -> None:
        """Every worker leaves and forms the newest order's generation."""
        self.leave(agreed_step)
        for rank in range(len(self.state.workers)):
            self.say(self.formed_message(agreed_step), rank)

    def formed_message(self, agreed_step: int = 0, steps_lost: int = 0) -> Formed:
        n, verdict = self.state.generation, self.state.verdict_id
        return Formed(
            generation=n, verdict_id=verdict, agreed_step=agreed_step, steps_lost=steps_lost
        )

    def run(self, order: Order, step: int = 1) -> "Core":
        """Hear an order and take its first step."""
        self.order(order)
        self.form(step - 1)
        for rank in range(len(self.state.workers)):
            self.say(
                FirstStep(
                    generation=order.generation,
                    verdict_id=order.verdict_id,
                    step=step,
                    step_seconds=0.1,
                ),
                rank,
            )
        return self

    def step_to(self, step: int) -> None:
        """The pages say that every worker has completed ``step``."""
        self.pages = [page(step) for _ in self.pages]

    def published(self, kind: type[EventT]) -> list[EventT]:
        events = (effect.event for effect in self.effects if isinstance(effect, Publish))
        return [event for event in events if isinstance(event, kind)]

    def done(self, kind: type[EffectT]) -> list[EffectT]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def told(self, rank: int = 0) -> list[ToWorker]:
        return [e.message for e in self.done(SendToWorker) if e.local_rank == rank]

    @property
    def last_report(self) -> Report:
        return self.done(Report)[-1]


def page(
    step: int,
    begun: int | None = None,
    phase: str = "step",
    step_seconds: tuple[float, ...] = (0.1, 0.2, 0.3),
) -> PageView:
    return PageView(
        version=step,
        step=step,
        step_begun=step + 1 if begun is None else begun,
        generation=1,
        phase=phase,
        phase_began_ns=0,
        step_seconds=step_seconds,
    )


def assignments(core: Core, rank: int = 0) -> list[Assignment]:
    return [message for message in core.told(rank) if isinstance(message, Assignment)]
