"""Who keeps the copies of whose snapshots: somebody who is not lost with it, and as many each."""

from collections import Counter

from everstep_contract.identity import Seat
from everstep_trainer.agent.partners import own_life, partner
from hypothesis import given
from hypothesis import strategies as st
from support.agent_core import make_order


def seats_on(nodes: str) -> tuple[Seat, ...]:
    """A seat for each letter, on the node of that name."""
    seats = make_order(1, tuple(range(len(nodes)))).seats
    return tuple(
        seat.model_copy(update={"member": seat.member.model_copy(update={"node": node})})
        for seat, node in zip(seats, nodes, strict=True)
    )


def partners(nodes: str) -> list[int | None]:
    """Of each seat the number of its partner's."""
    seats = seats_on(nodes)
    found = [partner(seats, seat.member.incarnation) for seat in seats]
    return [seats.index(one) if one else None for one in found]


def test_with_one_member_a_node_it_is_the_next_seat() -> None:
    assert partners("abcd") == [1, 2, 3, 0]


def test_members_of_a_node_have_partners_of_their_own() -> None:
    assert partners("aabb") == [2, 3, 0, 1]
    assert partners("abab") == [1, 0, 3, 2]


def test_where_all_share_a_node_there_is_none_unless_each_counts_for_itself() -> None:
    assert partners("aaa") == [None, None, None]
    seats = seats_on("aa")
    assert partner(seats, seats[0].member.incarnation, own_life) == seats[1]


def test_who_has_no_seat_has_no_partner() -> None:
    assert partner(seats_on("ab"), "a stranger") is None


@given(st.text("abcd", min_size=1, max_size=12))
def test_nobody_has_a_partner_of_its_own_node_and_none_has_more_than_its_share(nodes: str) -> None:
    chosen = partners(nodes)
    if len(set(nodes)) == 1:
        assert set(chosen) == {None}
        return
    pairs = [(at, to) for at, to in enumerate(chosen) if to is not None]
    assert len(pairs) == len(nodes)
    assert all(nodes[at] != nodes[to] for at, to in pairs)
    widest = max(Counter(nodes).values())
    others = len(nodes) - widest
    assert max(Counter(chosen).values()) <= max(1, -(-widest // others))
