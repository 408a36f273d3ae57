"""Whether the workers may step: only while the agent can know that they still belong.

An agent that was stopped, with its workers or without them, goes on as if nothing had happened; its
clock says that something may have. Until somebody confirms its order it vouches for nothing, so
that no worker takes a step of a generation that went on without it.
"""

from dataclasses import replace

from everstep_runtime.clock import Moment

from everstep_trainer.agent.effects import AskForOrder, Effect, Gossip, Turn, Vouch
from everstep_trainer.agent.inputs import OrderConfirmed, Tick
from everstep_trainer.agent.meaning import fingers, wish
from everstep_trainer.agent.model import AgentState
from everstep_trainer.page import NOBODY


def doubt_after_a_pause(state: AgentState, tick: Tick, moment: Moment) -> Turn:
    """Ask for the newest order when this process stood still, until somebody answers.

    The bus is asked, or the peers where it is away. A member without peers whom nobody can tell
    anything goes on: a lost bus stops no training.
    """
    paused = _stood_still(state, moment)
    state = replace(state, ticked_at=moment.monotonic)
    if paused and state.order is not None:
        state = replace(state, doubts=state.doubts + 1, is_sure=False)
    if state.is_sure or state.order is None:
        return state, ()
    if tick.bus_up:
        return state, (AskForOrder(state.doubts),)
    peers = fingers(state.me, state.order)
    if not peers:
        return replace(state, is_sure=True), ()
    return state, (Gossip(state.order, peers, state.doubts),)


def _stood_still(state: AgentState, moment: Moment) -> bool:
    return moment.monotonic - state.ticked_at > state.me.limits.doubt_seconds


def hear_confirmation(state: AgentState, heard: OrderConfirmed) -> AgentState:
    """The newest order is heard: what was asked before the last pause says nothing about it."""
    return replace(state, is_sure=True) if heard.doubt == state.doubts else state


def vouch(state: AgentState, moment: Moment) -> Turn:
    """Say on the pages which generation may step: at once when it changes, and again and again.

    Whatever is heard first after a pause may be older than it: nothing is vouched for until a tick
    has asked.
    """
    generation = NOBODY
    if state.is_sure and not _stood_still(state, moment):
        generation = state.generation if wish(state) == "form" else 0
    key = (generation, *(worker.life for worker in state.workers))
    due = moment.monotonic >= state.vouched_at + state.me.limits.vouch_seconds
    if key == state.vouched and not due:
        return state, ()
    effects: tuple[Effect, ...] = (Vouch(generation),)
    return replace(state, vouched=key, vouched_at=moment.monotonic), effects
