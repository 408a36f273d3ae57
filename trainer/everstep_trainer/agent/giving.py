"""What a partner keeps for this member, so that its death does not take it along.

Every rank's own shard, and each part of a state that is split up: a state that all members hold
needs no copy.
"""

import math
from dataclasses import replace
from typing import Final

from everstep_checkpoint.validity import is_void
from everstep_contract.identity import Seat
from everstep_contract.orders import Order
from everstep_runtime.clock import Moment

from everstep_trainer.agent.effects import (
    AskForMarks,
    Effect,
    ForgetOvertaken,
    GiveSnapshot,
    LookAtSnapshots,
    Turn,
    Warn,
)
from everstep_trainer.agent.inputs import PeriodHeard, SnapshotGiven
from everstep_trainer.agent.meaning import wish
from everstep_trainer.agent.model import AgentState, Me
from everstep_trainer.agent.partners import node, own_life, partner
from everstep_trainer.agent.replicas import MAX_EVERY, Offer
from everstep_trainer.agent.report import median_step_seconds
from everstep_trainer.agent.snapshots import Gift, Handover, Snapshot

LEAST_SECONDS: Final = 2.0
"""Between two copies of a state that is split up."""


def keeper_of(incarnation: str, order: Order, me: Me) -> Seat | None:
    """Whose memory the copies of a member are in while this order lasts."""
    domain = own_life if me.replication.within_node else node
    return partner(order.seats, incarnation, domain)


def begin_anew(state: AgentState, order: Order) -> Turn:
    """With a new order there may be another partner; what was given counts for the old one."""
    if not state.me.has_storage:
        return state, ()
    before, has_partner = state.giving, _keeper(state) is not None
    alone = len(order.seats) > 1 and not has_partner and order.seat_of(state.me.incarnation)
    effects: list[Effect] = [ForgetOvertaken(order.history)]
    if alone and not before.is_alone:
        detail = "all members share one node: no copies of their snapshots"
        effects.append(Warn("no_partner", detail))
    if before.every and not has_partner:
        effects.append(AskForMarks(0))
    giving = replace(before, given=(), replicated=None, every=0, is_alone=bool(alone))
    return replace(state, giving=giving), tuple(effects)


def look_now_and_then(state: AgentState, moment: Moment) -> Turn:
    """While the job runs, and nothing is being sent."""
    giving = state.giving
    due = giving.looked_at + state.me.limits.give_seconds
    if not state.me.has_storage or giving.under_way or moment.monotonic < due:
        return state, ()
    if state.ending or wish(state) != "form" or _keeper(state) is None:
        return state, ()
    state = replace(state, giving=replace(giving, looked_at=moment.monotonic))
    return state, (LookAtSnapshots(Handover()),)


def hand_over(state: AgentState, found: tuple[Snapshot, ...], moment: Moment) -> Turn:
    """Give the next of what is newest; training goes on meanwhile, and newer ones win."""
    seat = _keeper(state)
    if seat is None or state.ending or state.giving.under_way:
        return state, ()
    own = tuple(one for one in found if not one.origin and (one.kind == "rank" or one.shards > 1))
    is_split = any(one.kind == "state" for one in own)
    state, asked = _ask(state) if is_split else (state, ())
    newest = _newest(own, only_marked=is_split)
    giving = replace(state.giving, places=tuple({one.place: None for one in own}))
    missing = [one for one in newest if one not in giving.given]
    if not missing:
        return replace(state, giving=giving), asked
    if len(missing) == len(newest):
        giving = replace(giving, began_at=moment.monotonic)
    gift = Gift(missing[0], seat.peer)
    state = replace(state, giving=replace(giving, under_way=gift))
    return state, (*asked, GiveSnapshot(gift.snapshot, gift.to, giving.every))


def _ask(state: AgentState) -> Turn:
    """A state that is split up is whole only where all members' copies are of one step."""
    step_seconds = median_step_seconds(state)
    if step_seconds is None:
        return state, ()
    return hear_period(state, PeriodHeard(period(step_seconds, state.giving.seconds)))


def period(step_seconds: float, seconds: float) -> int:
    """Steps between two copies: a power of two, so that members who measure differently meet.

    Args:
        step_seconds: What a step takes.
        seconds: What it took to copy what one member has. Twice that is left for it, so that a
            copy has come everywhere before the next begins.
    """
    needed = max(LEAST_SECONDS, 2 * seconds) / max(step_seconds, 1e-6)
    return min(MAX_EVERY, 1 << max(0, math.ceil(math.log2(needed))))


def _newest(own: tuple[Snapshot, ...], *, only_marked: bool) -> tuple[Snapshot, ...]:
    """Of each shard; small ones first."""
    newest = {one.place: one for one in sorted(own, key=lambda one: one.version)}
    if only_marked:
        last = max((one.version for one in own if one.marked), default=None)
        newest = {one.place: one for one in own if one.marked and one.version == last}
    return tuple(sorted(newest.values(), key=lambda one: one.total_bytes))


def hear_period(state: AgentState, heard: PeriodHeard) -> Turn:
    """Members ask for the same steps once the longest period has gone around."""
    if heard.every <= state.giving.every:
        return state, ()
    giving = replace(state.giving, every=heard.every)
    return replace(state, giving=giving), (AskForMarks(heard.every),)


def hear_given(state: AgentState, heard: SnapshotGiven, moment: Moment) -> Turn:
    """What was not kept is offered again as long as it is the newest."""
    giving, seat = state.giving, _keeper(state)
    skipped = giving.skipped + (not heard.kept)
    gift, giving = giving.under_way, replace(giving, under_way=None, skipped=skipped)
    if heard.kept and gift and seat and gift == Gift(heard.snapshot, seat.peer):
        giving = giving.with_given(heard.snapshot, moment.monotonic)
    state = replace(state, giving=giving)
    return state, () if state.ending or not heard.kept else (LookAtSnapshots(Handover()),)


def why_not_keep(state: AgentState, offer: Offer, host: str) -> str:
    """Why this member takes in no copy of that shard; empty if it does.

    Only from members of the gang, each for itself; nobody who ends, or is fenced, keeps more.
    """
    order = state.order
    seat = order.seat_of(offer.origin) if order else None
    if order is None or seat is None or seat.peer.host != host:
        return "it is no member's of this generation"
    if state.ending or not state.me.has_storage:
        return "it is not saved here"
    if offer.generation > order.generation or is_void(offer, order.history):
        return f"generation {offer.generation} has no step {offer.step}"
    return ""


def _keeper(state: AgentState) -> Seat | None:
    return keeper_of(state.me.incarnation, state.order, state.me) if state.order else None
