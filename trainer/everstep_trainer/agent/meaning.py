"""What the newest order means for this member: form, park or finish; and whom to tell of it."""

from typing import Final, Literal

from everstep_contract.identity import Endpoint, Seat
from everstep_contract.orders import Order

from everstep_trainer.agent.model import AgentState, Me, Worker
from everstep_trainer.link import Assignment, Finish, Park, ToWorker

Wish = Literal["form", "park", "finish"]

MAX_FINGERS: Final = 10
"""Peers one agent tells: seats at distance 1, 2, 4, ... reach 1024 members in 10 hops."""


def wish(state: AgentState) -> Wish:
    """What the workers shall do now. An order that does not list us parks us (R1, R9, R20)."""
    order = state.order
    if state.ending or (order and order.state == "stop"):
        return "finish"
    if order is None or order.state == "hold" or obstacle(order, state.me):
        return "park"
    return "form"


def obstacle(order: Order, me: Me) -> str:
    """Why this member cannot take part in a run; empty when it can."""
    seat = order.seat_of(me.incarnation)
    if seat is None:
        return "not listed"
    if seat.nproc != me.gang.nproc_per_node:
        return f"listed with {seat.nproc} workers, has {me.gang.nproc_per_node}"
    if store_seat(order) is None:
        return f"the store host {order.store_host!r} has no seat"
    return ""


def store_seat(order: Order) -> Seat | None:
    """The seat of the member whose store the generation uses."""
    return order.seat_of(order.store_host) if order.store_host else None


def instruction(state: AgentState, worker: Worker) -> ToWorker | None:
    """What a worker shall be told now; None while there is no order."""
    order, wanted = state.order, wish(state)
    if wanted == "finish":
        return Finish(reason=state.ending.detail if state.ending else "the order stops the job")
    if order is None:
        return None
    if wanted == "park" or worker.barred == order.verdict_id:
        return Park(generation=order.generation)
    return assignment(order, state.me, worker.local_rank)


def assignment(order: Order, me: Me, local_rank: int) -> Assignment:
    """One worker's place in a generation.

    Raises:
        ValueError: There is an `obstacle`.
    """
    store = store_seat(order)
    if store is None:
        raise ValueError(obstacle(order, me))
    members = tuple(seat.member.incarnation for seat in order.seats for _ in range(seat.nproc))
    return Assignment(
        job=order.job,
        job_uid=order.job_uid,
        generation=order.generation,
        verdict_id=order.verdict_id,
        rank=order.first_rank(me.incarnation) + local_rank,
        world_size=order.world_size,
        local_rank=local_rank,
        local_world_size=me.gang.nproc_per_node,
        member_index=[seat.member.incarnation for seat in order.seats].index(me.incarnation),
        members=members,
        store=store.store,
        store_prefix=order.store_prefix,
        stores=tuple(seat.store for seat in order.seats),
        form_seconds=order.durations.form_seconds,
        construct_seconds=order.durations.construct_seconds,
        history=order.history,
    )


def leads(state: AgentState) -> bool:
    """Whether this member has rank 0, and so tells of the job's steps."""
    order = state.order
    return bool(order and order.seats and order.seats[0].member.incarnation == state.me.incarnation)


def is_peer(state: AgentState, host: str) -> bool:
    """Whether orders may come from there: only members of the gang hand them on (EC-51)."""
    seats = state.order.seats if state.order else ()
    return any(seat.peer.host == host for seat in seats)


def fingers(me: Me, *orders: Order | None) -> tuple[Endpoint, ...]:
    """Peers to tell of an order: by seat, at distances 1, 2, 4, ... in each of ``orders``.

    Whoever an order leaves out sits only in the one before, and must hear of it too.
    """
    found: dict[Endpoint, None] = {}
    for seats in [order.seats for order in orders if order and order.seats]:
        mine = next((i for i, s in enumerate(seats) if s.member.incarnation == me.incarnation), 0)
        distances = [2**power for power in range(MAX_FINGERS) if 2**power <= len(seats)]
        found |= dict.fromkeys(seats[(mine + far) % len(seats)].peer for far in distances)
    found.pop(me.peer, None)
    return tuple(found)
