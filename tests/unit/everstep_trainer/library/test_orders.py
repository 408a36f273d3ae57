"""What the agent ordered last."""

import socket
import threading

import pytest
from everstep_contract.identity import Endpoint, JobKey
from everstep_trainer.backend import Ending
from everstep_trainer.library.errors import AgentGoneError
from everstep_trainer.library.orders import Link, Orders
from everstep_trainer.link import Assignment, Finish, Park, Parked, to_line

WAIT_SECONDS = 30.0


def assignment(generation: int) -> Assignment:
    return Assignment(
        job=JobKey(namespace="default", name="job"),
        job_uid="uid",
        generation=generation,
        verdict_id=f"v{generation}",
        rank=0,
        world_size=1,
        local_rank=0,
        local_world_size=1,
        member_index=0,
        members=("a",),
        store=Endpoint(host="127.0.0.1", port=4000),
        store_prefix=f"g{generation}",
        form_seconds=5,
        construct_seconds=2,
    )


def test_r9_an_order_that_is_not_newer_is_ignored() -> None:
    orders = Orders()
    assert orders.put(assignment(3))
    assert not orders.put(assignment(3))
    assert not orders.put(assignment(2))
    assert not orders.put(Park(generation=2))
    assert orders.take() == assignment(3)


def test_r9_only_the_newest_of_several_orders_is_taken() -> None:
    orders = Orders()
    for generation in (1, 2, 3):
        orders.put(assignment(generation))
    assert orders.take() == assignment(3)
    assert orders.take() is None


def test_r20_a_worker_may_be_parked_within_its_generation() -> None:
    orders = Orders()
    orders.put(assignment(3))
    assert orders.put(Park(generation=3))


def test_nothing_comes_after_the_end() -> None:
    orders = Orders()
    orders.put(Finish(reason="stopped"))
    assert not orders.put(assignment(9))
    assert orders.take() == Finish(reason="stopped")


def test_r16_an_order_ends_the_generation_at_once() -> None:
    orders, ending = Orders(), Ending(1)
    orders.watch(ending)
    orders.put(assignment(2))
    assert ending.reason == "generation 2 is ordered"


def test_r16_an_order_that_came_before_the_generation_began_ends_it_too() -> None:
    orders, ending = Orders(), Ending(1)
    orders.put(assignment(2))
    orders.watch(ending)
    assert ending.reason == "generation 2 is ordered"


def test_a_wait_is_bounded() -> None:
    assert Orders().wait(0.01) is None


def test_a_lost_agent_ends_the_generation_and_every_wait() -> None:
    orders, ending = Orders(), Ending(1)
    orders.watch(ending)
    orders.agent_gone()
    assert ending.reason == "the agent is gone"
    with pytest.raises(AgentGoneError):
        orders.wait()


def test_a_listener_that_fails_leaves_no_worker_that_nobody_can_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    agent, worker = socket.socketpair()
    with agent, worker:
        orders, ending = Orders(), Ending(1)
        ending.on_end(lambda: 1 / 0)
        orders.watch(ending)
        Link(worker, orders)
        agent.sendall(to_line(assignment(2)))
        assert orders.wait(WAIT_SECONDS) == assignment(2)
        with pytest.raises(AgentGoneError):
            orders.wait(WAIT_SECONDS)


def test_lines_that_are_no_orders_are_passed_over() -> None:
    agent, worker = socket.socketpair()
    with agent, worker:
        orders = Orders()
        Link(worker, orders)
        agent.sendall(b"nonsense\n" + to_line(assignment(1)))
        assert orders.wait(WAIT_SECONDS) == assignment(1)
        agent.shutdown(socket.SHUT_WR)
        with pytest.raises(AgentGoneError):
            orders.wait(WAIT_SECONDS)


def test_telling_an_agent_that_is_gone_fails() -> None:
    agent, worker = socket.socketpair()
    with worker:
        link = Link(worker, Orders())
        agent.close()
        with pytest.raises(AgentGoneError, match="cannot tell the agent 'parked'"):
            link.send(Parked(generation=0, version=-1))
