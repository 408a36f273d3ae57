"""Forming is interruptible at every point, and says who is missing (R16, R17)."""

import signal
from typing import Any

import pytest
from support.rank_jobs import start_job
from support.ranks import RankHouse

EVERYBODY = [0, 1, 2, 3]
SURVIVORS = [0, 2, 3]


def frozen_while_connecting() -> dict[str, Any]:
    return {"at": "connect", "generation": 0, "count": 1, "signal": "SIGSTOP"}


def test_r16_a_newer_order_ends_the_wait_at_the_barrier(house: RankHouse) -> None:
    job = start_job(house, 4, "rest")
    job.order(EVERYBODY, to=SURVIVORS)
    job.until("connected", SURVIVORS)
    generation = job.order(SURVIVORS)
    outs = job.until("out", SURVIVORS, generation=0)
    assert {out["kind"] for out in outs} == {"GenerationEnded"}
    job.until("formed", SURVIVORS, generation=generation)


def test_r16_a_newer_order_ends_the_construction_with_a_frozen_peer(house: RankHouse) -> None:
    job = start_job(house, 4, "ddp", fault_1=frozen_while_connecting())
    job.order(EVERYBODY)
    job.until("hurt", [1])
    job.until("connecting", SURVIVORS)
    generation = job.order(SURVIVORS)
    outs = job.until("out", SURVIVORS, generation=0)
    assert {out["kind"] for out in outs} == {"GenerationEnded"}
    job.until("step", SURVIVORS, generation=generation, step=2)


def test_r16_a_newcomer_and_who_was_interrupted_form_together(house: RankHouse) -> None:
    job = start_job(house, 5, "rest", fault_1=frozen_while_connecting())
    job.order(EVERYBODY)
    job.until("connecting", SURVIVORS)
    together = [*SURVIVORS, 4]
    generation = job.order(together)
    job.until("formed", together, generation=generation)


@pytest.mark.parametrize("place", ["barrier", "connection"])
def test_r16_a_newer_order_ends_the_wait_for_a_frozen_store(house: RankHouse, place: str) -> None:
    job = start_job(house, 3, "rest")
    if place == "connection":
        job.store.signal(signal.SIGSTOP)
    job.order([0, 1, 2], to=[0, 1])
    if place == "barrier":
        job.until("connected", [0, 1])
        job.store.signal(signal.SIGSTOP)
    job.another_store()
    generation = job.order([0, 1])
    job.until("formed", [0, 1], generation=generation)


def test_r18_the_barrier_names_who_did_not_come(house: RankHouse) -> None:
    job = start_job(house, 4, "rest")
    job.order(EVERYBODY, to=[0, 3], form_seconds=0.3)
    for out in job.until("out", [0, 3], generation=0):
        assert (out["kind"], out["missing"]) == ("FormingFailedError", [1, 2])


def test_r16_a_peer_frozen_while_connecting_is_no_hang_without_an_order(house: RankHouse) -> None:
    job = start_job(house, 3, "rest", fault_1=frozen_while_connecting())
    job.order([0, 1, 2])
    outs = job.until("out", [0, 2], generation=0)
    assert {out["kind"] for out in outs} == {"FormingFailedError"}


@pytest.mark.parametrize("dead", range(3))
def test_ec11_the_store_dies_together_with_a_rank(house: RankHouse, dead: int) -> None:
    job = start_job(house, 3, "ddp")
    job.order([0, 1, 2])
    job.until("step", [0, 1, 2], step=2)
    job.store.signal(signal.SIGKILL)
    job.ranks[dead].signal(signal.SIGKILL)
    job.another_store()
    survivors = [me for me in range(3) if me != dead]
    generation = job.order(survivors)
    job.until("step", survivors, generation=generation, step=2)


def test_r17_a_dead_store_does_not_disturb_a_group_that_is_formed(house: RankHouse) -> None:
    job = start_job(house, 2, "ddp")
    job.order([0, 1])
    job.until("step", [0, 1], step=2)
    job.store.signal(signal.SIGKILL)
    seen = job.ranks[0].said("step")[-1]["step"]
    job.until("step", [0, 1], step=seen + 20)


def test_ec67_no_port_is_taken_in_a_hundred_formings_beside_a_squatter(house: RankHouse) -> None:
    job = start_job(house, 2, "rest")
    for _ in range(100):
        generation = job.order([0, 1])
        job.until("formed", [0, 1], generation=generation)
        job.store.events.clear()
        job.store.tell(host="again")
        job.port = job.store.until("hosting")["port"]


def test_ec75_the_launchers_environment_does_not_hijack_the_store(house: RankHouse) -> None:
    hijack = {
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "MASTER_ADDR": "192.0.2.1",
        "MASTER_PORT": "1",
        "TORCH_DIST_INIT_BARRIER": "1",
        "RANK": "0",
        "WORLD_SIZE": "8",
    }
    job = start_job(house, 2, "rest", environment=hijack)
    generation = job.order([0, 1])
    job.until("formed", [0, 1], generation=generation)


def test_ec75_a_store_that_nobody_serves_is_an_error_and_no_long_wait(house: RankHouse) -> None:
    job = start_job(house, 1, "rest")
    job.store.signal(signal.SIGKILL)
    job.order([0])
    (out,) = job.until("out", [0], generation=0)
    assert out["kind"] == "StoreUnreachableError"
