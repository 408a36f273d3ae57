"""What an order means for this member."""

import pytest
from everstep_trainer.agent.meaning import assignment, fingers, is_peer, obstacle
from support.agent_core import Core, make_order, seat


def test_ranks_follow_the_orders_list() -> None:
    order = make_order(1, (2, 0, 1), nproc=2)
    me = Core(index=0, nproc=2).state.me
    assert [assignment(order, me, rank).rank for rank in (0, 1)] == [2, 3]
    assert assignment(order, me, 0).member_index == 1


def test_a_seat_with_another_number_of_workers_is_not_ours_to_take() -> None:
    me = Core(index=0, nproc=2).state.me
    order = make_order(1, (0, 1), nproc=1)
    assert "listed with 1 workers, has 2" in obstacle(order, me)


def test_nobody_is_assigned_where_there_is_no_store() -> None:
    order = make_order(1).model_copy(update={"store_host": None})
    with pytest.raises(ValueError, match="no seat"):
        assignment(order, Core().state.me, 0)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 100])
def test_fingers_are_few_others_and_never_oneself(count: int) -> None:
    me = Core(index=count - 1).state.me
    found = fingers(me, make_order(1, tuple(range(count))))
    assert me.peer not in found
    assert len(found) == len(set(found)) <= 7
    assert bool(found) == (count > 1)


def test_a_newcomer_without_a_seat_knows_whom_to_tell() -> None:
    me = Core(index=9).state.me
    assert seat(0).peer in fingers(me, make_order(1, (0,)))


def test_ec51_orders_come_from_members_of_the_gang_only() -> None:
    core = Core().warm()
    assert not is_peer(core.state, seat(1).peer.host)
    core.order(make_order(1, (0, 1)))
    assert is_peer(core.state, seat(1).peer.host)
    assert not is_peer(core.state, "10.9.9.9")
