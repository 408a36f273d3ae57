"""What a partner keeps for this member, so that its death does not take it along (T1).

Every rank's own shard, and each part of a state that is split up: a state that all members hold
needs no copy.
"""

from dataclasses import replace

from everstep_checkpoint.validity import is_void
from everstep_contract.identity import Seat
from everstep_contract.orders import Order
from everstep_runtime.clock import Moment

from everstep_trainer.agent.effects import (
    ForgetOvertaken,
    GiveSnapshot,
    LookAtSnapshots,
    Turn,
    Warn,
)
from everstep_trainer.agent.inputs import SnapshotGiven
from everstep_trainer.agent.meaning import wish
from everstep_trainer.agent.model import AgentState, Me
from everstep_trainer.agent.partners import node, own_life, partner
from everstep_trainer.agent.replicas import Offer
from everstep_trainer.agent.snapshots import Gift, Giving, Handover, Snapshot


def keeper_of(incarnation: str, order: Order, me: Me) -> Seat | None:
    """Whose memory the copies of a member are in while this order lasts."""
    domain = own_life if me.replication.within_node else node
    return partner(order.seats, incarnation, domain)


def begin_anew(state: AgentState, order: Order) -> Turn:
    """With a new order there may be another partner; what was given counts for the old one."""
    if not state.me.has_storage:
        return state, ()
    alone = len(order.seats) > 1 and _keeper(state) is None and bool(_seat(state))
    warned: tuple[Warn, ...] = ()
    if alone and not state.giving.is_alone:
        warned = (Warn("no_partner", "all members share one node: no copies of their snapshots"),)
    giving = Giving(under_way=state.giving.under_way, is_alone=alone)
    return replace(state, giving=giving), (*warned, ForgetOvertaken(order.history))


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


def hand_over(state: AgentState, found: tuple[Snapshot, ...]) -> Turn:
    """Give the next of what is newest; training goes on meanwhile, and newer ones win."""
    seat, giving = _keeper(state), state.giving
    if seat is None or state.ending or giving.under_way:
        return state, ()
    newest = _newest(found)
    giving = replace(giving, places=tuple(one.place for one in newest))
    missing = [one for one in newest if one not in giving.given]
    if not missing:
        return replace(state, giving=giving), ()
    gift = Gift(missing[0], seat.peer)
    state = replace(state, giving=replace(giving, under_way=gift))
    return state, (GiveSnapshot(gift.snapshot, gift.to),)


def _newest(found: tuple[Snapshot, ...]) -> tuple[Snapshot, ...]:
    """Of each shard that nobody else has; small ones first."""
    newest: dict[object, Snapshot] = {}
    for one in sorted(found, key=lambda one: one.version):
        if not one.origin and (one.kind == "rank" or one.shards > 1):
            newest[one.place] = one
    return tuple(sorted(newest.values(), key=lambda one: one.total_bytes))


def hear_given(state: AgentState, heard: SnapshotGiven) -> Turn:
    """What was not kept is offered again as long as it is the newest."""
    giving, seat = state.giving, _keeper(state)
    gift, giving = giving.under_way, replace(giving, under_way=None)
    if heard.kept and gift and seat and gift == Gift(heard.snapshot, seat.peer):
        giving = giving.with_given(heard.snapshot)
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


def _seat(state: AgentState) -> Seat | None:
    return state.order.seat_of(state.me.incarnation) if state.order else None


def _keeper(state: AgentState) -> Seat | None:
    return keeper_of(state.me.incarnation, state.order, state.me) if state.order else None
