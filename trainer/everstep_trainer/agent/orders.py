"""Orders: which are obeyed, what follows at once, and what when a worker does not follow (R9)."""

from dataclasses import replace
from typing import Final

from everstep_contract.base import MAX_TEXT
from everstep_contract.facts.member import OrderRefused
from everstep_contract.orders import Order
from everstep_runtime.clock import Moment

from everstep_trainer.agent import giving, saving
from everstep_trainer.agent.effects import Effect, Gossip, Publish, Reach, SendToWorker, Turn, Warn
from everstep_trainer.agent.ending import begin_ending, kill
from everstep_trainer.agent.meaning import fingers, instruction, obstacle, store_seat, wish
from everstep_trainer.agent.model import AgentState, Limits, Restored, Worker
from everstep_trainer.agent.report import is_parked
from everstep_trainer.link import Assignment, Finish

_MUST_LEAVE: Final = ("parked", "left", "formed", "stepping", "broken")
_OWN_TIME: Final = ("evaluate", "checkpoint", "user")
STEPS_TO_LEAVE: Final = 3
"""Longest recent steps a worker may take to come to a place where it can leave."""


def hear_order(state: AgentState, order: Order, moment: Moment) -> Turn:
    """Obey a newer order of this job; ignore any other, and report a forked one (R1, R9)."""
    if order.job != state.me.job or order.job_uid != state.me.member.job_uid:
        return state, ()
    if order.generation == state.generation and order.verdict_id != state.verdict_id:
        return _refuse(state, order, moment)
    if order.generation <= state.generation:
        return state, ()
    return _obey(state, order, moment)


def _refuse(state: AgentState, order: Order, moment: Moment) -> Turn:
    if state.told.refused == order.verdict_id:
        return state, ()
    refused = OrderRefused(
        at=moment.at,
        job=state.me.job,
        member=state.me.member,
        generation=order.generation,
        verdict_id=order.verdict_id,
        obeyed_verdict_id=state.verdict_id,
    )
    told = replace(state.told, refused=order.verdict_id)
    return replace(state, told=told), (Publish(refused),)


def _obey(state: AgentState, order: Order, moment: Moment) -> Turn:
    previous = state.order
    state = replace(
        state,
        order=order,
        heard_at=moment.monotonic,
        left_seconds=None,
        agreed_step=0,
        steps_lost=0,
        restored=Restored(),
        gossiped_at=moment.monotonic,
    )
    effects: list[Effect] = [Gossip(order, fingers(state.me, order, previous))]
    effects += _doubts(state, order)
    state, saved = saving.break_off(state, previous, order)
    state, renewed = giving.begin_anew(state, order)
    effects += (*saved, *renewed)
    if order.state == "stop":
        why = f": {order.reason}" if order.reason else ""
        detail = f"order {order.generation} stops the job{why}"[:MAX_TEXT]
        state, more = begin_ending(state, "stopped", detail, moment)
        return state, (*effects, *more)
    if order.state == "run" and not obstacle(order, state.me):
        state, more = _start_anew(state, order)
        effects += more
    return state, tuple(effects)


def _doubts(state: AgentState, order: Order) -> tuple[Effect, ...]:
    """The order wins over the scheduler's environment, which may be stale (EC-41)."""
    why = obstacle(order, state.me)
    scheduled = state.me.scheduler_world_size
    doubts: list[Effect] = []
    if order.state == "run" and why not in ("", "not listed"):
        doubts.append(Warn("order_not_possible", f"generation {order.generation}: {why}"))
    if order.state == "run" and not why and scheduled not in (None, order.world_size):
        doubts.append(Warn("env_world_mismatch", f"{scheduled} != {order.world_size}"))
    return tuple(doubts)


def _start_anew(state: AgentState, order: Order) -> Turn:
    """Kill this member's workers if the order says so and none has been started anew since."""
    if state.me.incarnation not in order.restart:
        return state, ()
    if any(worker.assigned == 0 for worker in state.workers):
        return state, ()
    return kill(state, f"order {order.generation} starts them anew")


def instruct(state: AgentState, _moment: Moment) -> Turn:
    """Tell every worker once what is wanted of it; the restart rung needs no words."""
    sent: list[Effect] = []
    for worker in state.workers if state.me.rung == "in_process" else ():
        message = instruction(state, worker)
        key = "finish" if isinstance(message, Finish) else state.verdict_id
        if message is None or not worker.alive or worker.kill_reason or worker.told == key:
            continue
        assigned = state.generation if isinstance(message, Assignment) else worker.assigned
        state = state.with_worker(replace(worker, told=key, assigned=assigned))
        sent.append(SendToWorker(worker.local_rank, worker.life, message))
    return state, tuple(sent)


def kill_the_stuck(state: AgentState, moment: Moment) -> Turn:
    """A worker that has not left its old group in time is killed, and started anew (EC-12)."""
    order = state.order
    if order is None or state.ending or state.me.rung == "restart":
        return state, ()
    kills: list[Effect] = []
    for worker in state.workers:
        patience = _patience_seconds(state.me.limits, order, worker)
        late = moment.monotonic >= max(state.heard_at, worker.stage_at) + patience
        if late and worker.generation != order.generation and worker.stage in _MUST_LEAVE:
            reason = f"did not leave for generation {order.generation} within {patience:g} s"
            state, more = kill(state, reason, only=(worker.local_rank,))
            kills += more
    return state, tuple(kills)


def _patience_seconds(limits: Limits, order: Order, worker: Worker) -> float:
    """How long a worker may take to leave: its state may be worth more than the haste.

    Between two collectives nothing can interrupt it, so a step may take its time, and whatever is
    no step, or the first of its kind, may take long. Meanwhile the others are not held up: who has
    not joined at the deadline is left out (R18).
    """
    page = worker.page
    if page and (page.phase in _OWN_TIME or (page.phase == "step" and not page.step_seconds)):
        return limits.phase_seconds
    steps = STEPS_TO_LEAVE * max(page.step_seconds, default=0.0) if page else 0.0
    return max(min(limits.leave_seconds, order.durations.form_seconds / 2), steps)


def replace_by_order(state: AgentState, _moment: Moment) -> Turn:
    """On the restart rung a worker lives for one generation and ends with it."""
    if state.me.rung == "in_process" or state.ending:
        return state, ()
    stale = tuple(
        worker.local_rank
        for worker in state.workers
        if wish(state) == "park" or worker.generation != state.generation
    )
    return kill(state, f"generation {state.generation} follows", only=stale)


def reach_peers(state: AgentState, _moment: Moment) -> Turn:
    """Before a candidate calls itself ready it looks whether it can reach the gang (R19)."""
    order = state.order
    listed = order and order.seat_of(state.me.incarnation)
    if order is None or listed or wish(state) != "park" or state.reaching == order.verdict_id:
        return state, ()
    if not order.seats or not all(is_parked(state, worker) for worker in state.workers):
        return state, ()
    store = store_seat(order)
    peers = fingers(state.me, order)
    endpoints = (*peers, store.store) if store else peers
    state = replace(state, reaching=order.verdict_id)
    return state, (Reach(order.verdict_id, endpoints),)
