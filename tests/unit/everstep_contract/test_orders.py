"""Seats and ranks of an order."""

import pytest
from everstep_contract.identity import Endpoint, Member, Seat
from everstep_contract.orders import Order
from hypothesis import given
from hypothesis import strategies as st
from support.messages import ENDPOINT, order

sizes = st.lists(st.integers(1, 16), min_size=1, max_size=12)


def seat(index: int, nproc: int) -> Seat:
    member = Member(
        job_uid="u", name=f"w-{index}", pod_uid=f"p-{index}", incarnation=f"i-{index}", node="n"
    )
    return Seat(member=member, peer=ENDPOINT, store=ENDPOINT, nproc=nproc)


def with_seats(sizes: list[int]) -> Order:
    seats = tuple(seat(index, nproc) for index, nproc in enumerate(sizes))
    return order(1).model_copy(update={"seats": seats})


@given(sizes)
def test_members_have_adjacent_ranks_in_the_order_of_their_seats(sizes: list[int]) -> None:
    one = with_seats(sizes)
    ranks = [
        one.first_rank(seat.member.incarnation) + local
        for seat in one.seats
        for local in range(seat.nproc)
    ]
    assert ranks == list(range(one.world_size))


def test_r1_only_a_listed_incarnation_has_a_seat() -> None:
    one = with_seats([1, 2])
    assert one.seat_of("i-1") == one.seats[1]
    assert one.seat_of("i-9") is None
    with pytest.raises(ValueError, match="does not list 'i-9'"):
        one.first_rank("i-9")


def test_r17_two_verdicts_of_one_generation_never_share_a_store_prefix() -> None:
    prefixes = {order(2, "a").store_prefix, order(2, "b").store_prefix, order(3, "a").store_prefix}
    assert len(prefixes) == 3


def test_an_endpoint_reads_as_people_write_it() -> None:
    assert str(Endpoint(host="10.0.0.1", port=29500)) == "10.0.0.1:29500"
