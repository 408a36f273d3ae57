"""The agent's rules: (state, what is heard, now) -> (state, what to do). No I/O, no clock.

Handlers take in what is heard; after each, the rules look at the state as a whole, so that what
must follow from it follows whatever came last and in whatever order.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from everstep_runtime.clock import Moment

from everstep_trainer.agent import deaths, giving, orders, saving, telling, vouching, words
from everstep_trainer.agent.effects import Turn
from everstep_trainer.agent.ending import begin_ending, finish_ending
from everstep_trainer.agent.inputs import (
    Input,
    OrderConfirmed,
    OrderHeard,
    PeersReached,
    PeriodHeard,
    ShardUnwritten,
    ShardWritten,
    SnapshotGiven,
    SnapshotsSeen,
    StoreDied,
    StoreUp,
    Terminate,
    Tick,
    WorkerDied,
    WorkerSaid,
    WorkerStarted,
    ZygoteLost,
)
from everstep_trainer.agent.model import AgentState, Store
from everstep_trainer.agent.report import with_left

Rule = Callable[[AgentState, Moment], Turn]

RULES: tuple[Rule, ...] = (
    deaths.start_store,
    orders.kill_the_stuck,
    orders.replace_by_order,
    deaths.start_workers,
    vouching.vouch,
    orders.instruct,
    orders.reach_peers,
    telling.tell_joined,
    telling.tell_formed,
    telling.tell_steps,
    saving.retry,
    giving.look_now_and_then,
    finish_ending,
    telling.report_when_due,
)


def react(state: AgentState, heard: Input, moment: Moment) -> Turn:
    """Take in one input and say what follows. Pure: same arguments, same answer."""
    if state.exited:
        return state, ()
    state, effects = _take_in(state, heard, moment)
    state = with_left(state)
    for rule in RULES:
        state, more = rule(state, moment)
        effects += more
    return state, effects


def _take_in(state: AgentState, heard: Input, moment: Moment) -> Turn:
    match heard:
        case OrderHeard(order):
            return orders.hear_order(state, order, moment)
        case WorkerStarted():
            return words.hear_start(state, heard, moment)
        case WorkerSaid():
            return words.hear_worker(state, heard, moment)
        case WorkerDied():
            return deaths.hear_death(state, heard, moment)
        case StoreUp() | StoreDied() | PeersReached() | OrderConfirmed():
            return _note(state, heard), ()
        case SnapshotGiven() | PeriodHeard():
            return _note_giving(state, heard, moment)
        case SnapshotsSeen() | ShardWritten() | ShardUnwritten():
            return _note_saving(state, heard, moment)
        case Tick():
            state, asked = vouching.doubt_after_a_pause(state, heard, moment)
            state, effects = words.hear_tick(state, heard, moment)
            return state, asked + effects
        case Terminate() | ZygoteLost():
            return _end(state, heard, moment)
        case _:
            assert_never(heard)


def _note(
    state: AgentState, heard: StoreUp | StoreDied | PeersReached | OrderConfirmed
) -> AgentState:
    match heard:
        case StoreUp(endpoint):
            return replace(state, store=replace(state.store, endpoint=endpoint))
        case StoreDied():
            return replace(state, store=Store(deaths=state.store.deaths + 1))
        case PeersReached(verdict_id):
            return replace(state, reached=verdict_id)
        case OrderConfirmed():
            return vouching.hear_confirmation(state, heard)


def _end(state: AgentState, heard: Terminate | ZygoteLost, moment: Moment) -> Turn:
    match heard:
        case Terminate(detail):
            return begin_ending(state, "terminated", detail, moment)
        case ZygoteLost(detail):
            return begin_ending(state, "failed", detail, moment)


def _note_saving(
    state: AgentState,
    heard: SnapshotsSeen | ShardWritten | ShardUnwritten,
    moment: Moment,
) -> Turn:
    match heard:
        case SnapshotsSeen():
            return saving.hear_snapshots(state, heard, moment)
        case ShardWritten():
            return saving.hear_written(state, heard, moment)
        case ShardUnwritten():
            return saving.hear_unwritten(state, heard, moment)


def _note_giving(state: AgentState, heard: SnapshotGiven | PeriodHeard, moment: Moment) -> Turn:
    match heard:
        case SnapshotGiven():
            return giving.hear_given(state, heard, moment)
        case PeriodHeard():
            return giving.hear_period(state, heard)
