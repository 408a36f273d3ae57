"""A job whose workers die, freeze, hold and come back, in the same processes."""

import signal
import time
from collections.abc import Callable

import psutil
import pytest
from everstep_contract.identity import Endpoint
from support.ranks import UNTIL_SECONDS, RankHouse
from support.trainees import LOOPBACK, TrainingJob

TRAIN = "support.trainee_programs:train"


def kill(job: TrainingJob, *numbers: int) -> None:
    for number in numbers:
        job[number].rank.signal(signal.SIGKILL)


def peer_ports(pid: int) -> set[int]:
    """Where this process is connected to."""
    connections = psutil.Process(pid).net_connections("tcp")
    return {one.raddr.port for one in connections if one.raddr}


def becomes(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true within a bound."""
    deadline = time.monotonic() + UNTIL_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


ATTEMPTS = 5
"""How often a test may try for a moment that it cannot choose."""


def go_on(job: TrainingJob, numbers: list[int], generation: int, steps: int = 2) -> int:
    """Wait until they have agreed, to the bit, and done some steps; the step agreed on."""
    agreed = job.until("agreed", numbers, generation=generation)
    assert len({said["digest"] for said in agreed}) == 1
    (step,) = {int(said["step"]) for said in agreed}
    job.until("step", numbers, generation=generation, step=step + steps)
    return step


@pytest.mark.parametrize("fault", ["SIGKILL", "SIGSTOP"])
def test_ec12_seven_go_on_in_their_processes_when_the_eighth_is_gone(
    house: RankHouse, fault: str
) -> None:
    job = TrainingJob(house, TRAIN, workers=8)
    everybody, survivors = list(range(8)), list(range(7))
    job.order(everybody)
    job.until("step", everybody, step=3)
    job[7].rank.signal(signal.Signals[fault])
    job.order(survivors)
    go_on(job, survivors, generation=2)
    assert {
        message.steps_lost for message in job.until_told("formed", survivors, generation=2)
    } == {0}


def test_losses_are_to_the_bit_those_of_a_job_that_shrank_unhurt(house: RankHouse) -> None:
    hurt = TrainingJob(house, TRAIN, workers=4)
    hurt.order([0, 1, 2, 3])
    hurt.until("step", [0, 1, 2, 3], step=3)
    kill(hurt, 2)
    hurt.order([0, 1, 3])
    step = go_on(hurt, [0, 1, 3], generation=2, steps=4)
    unhurt = TrainingJob(house, TRAIN, workers=4, pause_at=step)
    unhurt.order([0, 1, 2, 3])
    unhurt.until("paused", [0, 1, 2, 3], step=step)
    unhurt.order([0, 1, 3])
    assert go_on(unhurt, [0, 1, 3], generation=2, steps=4) == step
    for number in (0, 1, 3):
        for later in range(step + 1, step + 5):
            said = [
                job[number].rank.until("step", generation=2, step=later) for job in (hurt, unhurt)
            ]
            assert said[0]["loss"] == said[1]["loss"]


def test_four_become_three_and_then_two_without_losing_a_step(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=4)
    members = [0, 1, 2, 3]
    job.order(members)
    go_on(job, members, generation=1)
    for generation in (2, 3):
        kill(job, members.pop(0))
        job.order(members)
        go_on(job, members, generation=generation)
        formed = job.until_told("formed", members, generation=generation)
        assert {message.steps_lost for message in formed} == {0}


def test_two_workers_of_one_member_go_together(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=6, nproc=2)
    job.order([0, 1, 2, 3, 4, 5])
    go_on(job, [0, 1, 2, 3, 4, 5], generation=1)
    kill(job, 2, 3)
    job.order([0, 1, 4, 5])
    go_on(job, [0, 1, 4, 5], generation=2)


def test_r20_a_hold_keeps_all_state_and_takes_no_step(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=2)
    job.order([0, 1])
    go_on(job, [0, 1], generation=1)
    held = job.park([0, 1])
    parked = job.until_told("parked", [0, 1], generation=held)
    steps = [len(job[n].rank.said("step")) for n in (0, 1)]
    generation = job.order([0, 1])
    step = go_on(job, [0, 1], generation)
    assert step == max(message.version for message in parked)
    assert [len(job[n].rank.said("step", generation=1)) for n in (0, 1)] == steps


@pytest.mark.parametrize("place", ["last", "first"])
def test_a_newcomer_copies_the_state_of_a_survivor_whatever_its_rank(
    house: RankHouse, place: str
) -> None:
    job = TrainingJob(house, TRAIN, workers=2, pause_at=3)
    job.order([0, 1])
    before = job.until("paused", [0, 1])
    job.start(2, seed=99, pause_at=None)
    job.until_told("parked", [2], generation=0)
    members = [2, 0, 1] if place == "first" else [0, 1, 2]
    generation = job.order(members)
    assert go_on(job, members, generation) == 3
    after = job.until("agreed", members, generation=generation)
    assert len({said["digest"] for said in before + after}) == 1


def test_r22_a_worker_that_was_restarted_copies_from_its_peers(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=3)
    job.order([0, 1, 2])
    go_on(job, [0, 1, 2], generation=1)
    kill(job, 0)
    job.start(0)
    generation = job.order([0, 1, 2])
    assert go_on(job, [0, 1, 2], generation) >= 2
    assert job[0].page.read().version >= 2


def test_ec32_a_second_death_while_forming_is_healed_by_the_next_order(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=3)
    job.start(3, fault={"at": "allreduce", "generation": 2, "signal": "SIGKILL"})
    job.order([0, 1, 2, 3])
    go_on(job, [0, 1, 2, 3], generation=1)
    kill(job, 1)
    job.order([0, 2, 3])
    job[3].rank.until("hurt")
    job.order([0, 2])
    go_on(job, [0, 2], generation=3)


def test_r18_who_does_not_come_is_named_and_the_rest_forms_without_it(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=3)
    job.order([0, 1, 2])
    go_on(job, [0, 1, 2], generation=1)
    kill(job, 2)
    job.order([0, 1], world_size=3, form_seconds=1.0)
    for failed in job.until_told("failed", [0, 1], generation=2):
        assert failed.while_forming
        assert failed.peer_ranks == (2,)
    job.order([0, 1])
    go_on(job, [0, 1], generation=3)


def test_r22_a_source_that_dies_in_mid_copy_leaves_every_replica_what_it_was(
    house: RankHouse,
) -> None:
    assert any(a_source_died_in_mid_copy(house) for _ in range(ATTEMPTS))


def a_source_died_in_mid_copy(house: RankHouse) -> bool:
    """Whether one did: survivors that were a step apart when told to leave copy another way."""
    job = TrainingJob(house, TRAIN, workers=0)
    job.start(0, fault={"at": "alltoall_base", "generation": 2, "signal": "SIGKILL"})
    job.start(1)
    job.order([0, 1])
    go_on(job, [0, 1], generation=1)
    job.start(2, seed=99)
    job.order([0, 1, 2])
    if job[0].rank.until_either("hurt", "agreed", generation=2)["event"] == "agreed":
        return False
    job.order([1, 2])
    assert go_on(job, [1, 2], generation=3) >= 2
    return True


def test_ec11_the_store_dies_with_its_member_and_the_next_generation_uses_another(
    house: RankHouse,
) -> None:
    job = TrainingJob(house, TRAIN, workers=3)
    job.order([0, 1, 2])
    go_on(job, [0, 1, 2], generation=1)
    job.store.signal(signal.SIGKILL)
    kill(job, 0)
    job.another_store()
    job.order([1, 2])
    go_on(job, [1, 2], generation=2)


def test_r17_a_store_that_nobody_hosts_is_reported_and_the_next_order_heals(
    house: RankHouse,
) -> None:
    job = TrainingJob(house, TRAIN, workers=2)
    job.store.signal(signal.SIGKILL)
    job.order([0, 1])
    assert all(failed.while_forming for failed in job.until_told("failed", [0, 1]))
    job.another_store()
    job.order([0, 1])
    go_on(job, [0, 1], generation=2)


def test_r17_every_members_store_is_connected_before_it_is_needed(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=2)
    _, spare = job.host_store()
    stores = [Endpoint(host=LOOPBACK, port=port) for port in (job.port, spare)]
    job.order([0, 1], stores=stores)
    go_on(job, [0, 1], generation=1)
    assert becomes(lambda: all(spare in peer_ports(job[number].rank.pid) for number in (0, 1)))


def test_r13_a_failed_collective_is_reported_and_the_worker_waits_for_an_order(
    house: RankHouse,
) -> None:
    job = TrainingJob(house, TRAIN, workers=3)
    job.order([0, 1, 2])
    go_on(job, [0, 1, 2], generation=1)
    kill(job, 2)
    failed = job.until_told("failed", [0, 1], generation=1)
    assert not any(message.while_forming for message in failed)
    job.order([0, 1])
    go_on(job, [0, 1], generation=2)


def test_a_worker_that_was_frozen_and_left_out_takes_over_the_others_state(
    house: RankHouse,
) -> None:
    job = TrainingJob(house, TRAIN, workers=3)
    job.order([0, 1, 2])
    go_on(job, [0, 1, 2], generation=1)
    job[2].rank.signal(signal.SIGSTOP)
    job.order([0, 1])
    go_on(job, [0, 1], generation=2)
    steps = len(job[2].rank.said("step"))
    job.park([2])
    job[2].rank.signal(signal.SIGCONT)
    job[2].until_told("parked")
    assert len(job[2].rank.said("step")) == steps
    generation = job.order([0, 1, 2])
    go_on(job, [0, 1, 2], generation)


def test_r9_only_the_newest_order_counts(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=2)
    job.generation = 4
    job.order([0, 1])
    go_on(job, [0, 1], generation=5)
    job.repeat_order([1, 0], 3)
    job.repeat_order([1, 0], 5)
    step = job[0].page.read().step
    job.until("step", [0, 1], generation=5, step=step + 3)
    assert not [m for m in job[0].messages("left") if m.generation == 3]


def test_training_ends_on_all_ranks_at_the_same_step(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=2, total=4)
    job.order([0, 1])
    ended = job.until("ended", [0, 1])
    assert {said["step"] for said in ended} == {4}
    assert len({said["digest"] for said in ended}) == 1
    assert {message.step for message in job.until_told("finished", [0, 1])} == {4}


def test_a_job_that_is_stopped_ends_its_scripts_loops(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=2)
    job.order([0, 1])
    go_on(job, [0, 1], generation=1)
    job.finish([0, 1])
    job.until("ended", [0, 1])
    assert job[0].messages("finished") == []


def test_a_worker_ends_when_its_agent_is_gone(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=1)
    job.order([0])
    go_on(job, [0], generation=1)
    job[0].hang_up()
    assert "AgentGoneError" in job[0].rank.until("crashed")["error"]


def test_twenty_generations_leave_no_thread_no_descriptor_and_no_memory_behind(
    house: RankHouse,
) -> None:
    job = TrainingJob(house, TRAIN, workers=2)
    used = []
    for _ in range(20):
        generation = job.order([0, 1])
        go_on(job, [0, 1], generation, steps=1)
        used.append(job[0].rank.until("agreed", generation=generation))
    settled, last = used[4:8], used[-4:]
    for kind, of_one in (("threads", 3), ("descriptors", 4)):  # one may still have to be settled
        assert min(said[kind] for said in last) <= max(said[kind] for said in settled) + of_one
    growth = min(said["rss_bytes"] for said in last) - min(said["rss_bytes"] for said in settled)
    assert growth < 8 << 20
