"""What a training script may do with the library, and what it is told when it may not."""

import signal

import pytest
from support.ranks import Rank, RankHouse
from support.trainees import TrainingJob

RUN = "support.loop_programs:run"


def alone(house: RankHouse, script: str) -> Rank:
    """Run a script under plain python, without an agent."""
    (rank,) = house.start(RUN, [{"script": script}])
    return rank


def test_the_documentations_example_runs_as_written(house: RankHouse) -> None:
    job = TrainingJob(house, RUN, workers=2, script="documentation")
    job.order([0, 1])
    assert [said["step"] for said in job.until("ended", [0, 1])] == [12, 12]
    losses = [said["loss"] for said in job[0].rank.said("step")]
    assert losses[-1] < losses[0]
    assert len(job[0].rank.said("evaluated")) == 2


def test_a_script_trains_alone_under_plain_python(house: RankHouse) -> None:
    rank = alone(house, "documentation")
    assert rank.until("ended")["step"] == 12


def test_the_loops_objects_say_where_they_stand(house: RankHouse) -> None:
    rank = alone(house, "shown")
    assert rank.until("shown")["objects"] == [
        "Job(generation=1, step=0)",
        "Generation(number=1, rank=0, world_size=1, step=0)",
        "<Step 0: 0 of 2 micro-batches taken>",
    ]
    assert rank.until("completed")["step"] == "<Step 0: completed>"


def test_objects_that_are_made_anew_take_over_the_state_of_those_before(house: RankHouse) -> None:
    job = TrainingJob(house, RUN, workers=2, script="built_anew")
    job.order([0, 1])
    paused = job.until("paused", [0, 1])
    job.order([0, 1])
    agreed = job.until("agreed", [0, 1], generation=2)
    assert len({said["digest"] for said in paused + agreed}) == 1
    ended = job.until("ended", [0, 1], step=6)
    unhurt = TrainingJob(house, RUN, workers=2, script="built_once")
    unhurt.order([0, 1])
    ended += unhurt.until("ended", [0, 1])
    assert len({said["digest"] for said in ended}) == 1


def test_ec41_the_schedulers_view_of_the_job_is_told_and_never_used(house: RankHouse) -> None:
    job = TrainingJob(house, RUN, workers=2, script="places")
    job.order([0, 1])
    first = job[1].rank.until("place", generation=1)
    assert (first["RANK"], first["WORLD_SIZE"], first["GROUP_RANK"]) == ("1", "2", "1")
    assert first["MASTER_PORT"] == str(job.port)
    (warning,) = first["warnings"]
    assert "'WORLD_SIZE': '9'" in warning
    assert "VC_WORKER_NUM" in warning
    job.order([1, 0])
    second = job[1].rank.until("place", generation=2)
    assert (second["RANK"], len(second["warnings"])) == ("0", 1)


def test_ec75_a_store_of_the_scripts_own_is_hosted_and_not_looked_for(house: RankHouse) -> None:
    job = TrainingJob(house, RUN, workers=1, script="places")
    job.order([0])
    assert job[0].rank.until("store")["port"] > 0


def test_ec12_a_script_that_catches_every_exception_leaves_all_the_same(house: RankHouse) -> None:
    job = TrainingJob(house, RUN, workers=3, script="swallowing")
    job.order([0, 1, 2])
    job.until("step", [0, 1, 2], step=2)
    job[2].rank.signal(signal.SIGKILL)
    job.until_told("failed", [0, 1])
    job.order([0, 1])
    (step,) = {message.agreed_step for message in job.until_told("formed", [0, 1], generation=2)}
    said = job.until("step", [0, 1], generation=2, step=step + 2)
    assert len({one["digest"] for one in said}) == 1


def test_a_scripts_own_mistake_ends_the_worker(house: RankHouse) -> None:
    job = TrainingJob(house, RUN, workers=1, script="own_error")
    job.order([0])
    assert "ValueError: a mistake of the script" in job[0].rank.until("crashed")["error"]


def test_a_model_wrapped_in_an_earlier_generation_is_refused(house: RankHouse) -> None:
    job = TrainingJob(house, RUN, workers=2, script="stale_group")
    job.order([0, 1])
    job.until("step", [0, 1], step=1)
    job.order([0, 1])
    error = job[0].rank.until("crashed")["error"]
    assert "generation 1 was used in generation 2" in error


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("without_block", "use each generation in a `with generation:` block"),
        ("untracked", "wrapped in DDP but not tracked"),
        ("step_too_early", "before the last of its micro-batches"),
        ("step_outside", "an optimizer stepped outside a step"),
        ("tracked_twice", "track is called once a generation"),
        ("tracked_and_frozen", "model cannot be both tracked and frozen"),
        ("joined_twice", "this process has joined already"),
    ],
)
def test_a_wrong_use_is_told_in_one_sentence(house: RankHouse, script: str, told: str) -> None:
    assert told in alone(house, script).until("crashed")["error"].splitlines()[-1]


def test_the_page_says_what_the_loop_is_doing(house: RankHouse) -> None:
    job = TrainingJob(house, RUN, workers=1, script="phases")
    worker = job[0]
    assert worker.page.read().version == -1
    job.order([0])
    worker.rank.until("phase", name="evaluate", step=0)
    during = worker.page.read()
    assert (during.phase, during.step, during.step_begun, during.version) == ("evaluate", 0, 1, 0)
    worker.rank.tell(go="on")
    worker.rank.until("phase", name="my own", step=0)
    assert worker.page.read().phase == "user"
    worker.rank.tell(go="on")
    worker.rank.until("completed", step=0)
    after = worker.page.read()
    assert (after.phase, after.step, after.version, after.generation) == ("step", 1, 1, 1)
    assert len(after.step_seconds) == 1


def test_micro_batches_add_up_to_one_batch_that_is_averaged_once(house: RankHouse) -> None:
    job = TrainingJob(house, RUN, workers=2, script="micro_batches")
    job.order([0, 1])
    for said in job.until("gradients", [0, 1]):
        assert said["close"]
        assert said["averaged"] == [False, True]
