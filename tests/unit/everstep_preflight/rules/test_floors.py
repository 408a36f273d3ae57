"""Floors and sizes: which numbers have to agree, and which of them is the odd one."""

from support.preflight import GOOD_JOB, fixed, fixed_text, found, rules

JOB_FLOOR = "  minAvailable: 6\n  tasks"
TASK_FLOOR = "    minAvailable: 6\n"
LOGGER = """\
  - name: logger
    replicas: 1
    template:
      spec:
        containers:
        - name: logger
          image: registry.example/logger:1
"""


def test_an_unset_task_floor_is_the_full_size() -> None:
    text = GOOD_JOB.replace(TASK_FLOOR, "")
    (finding,) = found(text)
    assert finding.rule.id == "task-floor-unset"
    assert fixed_text(text) == GOOD_JOB


def test_a_floor_that_only_nnodes_names_is_written_in_both_places() -> None:
    text = GOOD_JOB.replace(TASK_FLOOR, "").replace(JOB_FLOOR, "  tasks")
    assert rules(text) == ["task-floor-unset"]
    after = fixed_text(text)
    assert rules(after) == []
    assert after.count("minAvailable: 6") == 2


def test_a_job_floor_that_is_unset_is_the_sum_of_its_tasks() -> None:
    assert rules(GOOD_JOB.replace(JOB_FLOOR, "  tasks")) == []


def test_the_floor_that_two_others_contradict_is_changed() -> None:
    for odd in (
        GOOD_JOB.replace(JOB_FLOOR, "  minAvailable: 7\n  tasks"),
        GOOD_JOB.replace(TASK_FLOOR, "    minAvailable: 7\n"),
        GOOD_JOB.replace("--nnodes=6:8", "--nnodes=5:8"),
    ):
        assert rules(odd) == ["floors-differ"]
        assert fixed_text(odd) == GOOD_JOB


def test_a_fixed_number_of_members_becomes_a_range() -> None:
    text = GOOD_JOB.replace("--nnodes=6:8", "--nnodes=8")
    assert rules(text) == ["floors-differ"]
    assert fixed_text(text) == GOOD_JOB


def test_three_different_floors_need_a_person() -> None:
    text = GOOD_JOB.replace("--nnodes=6:8", "--nnodes=5:8").replace(
        TASK_FLOOR, "    minAvailable: 7\n"
    )
    (finding,) = fixed(text).left
    assert finding.rule.id == "floors-differ"
    assert finding.advice


def test_a_floor_above_what_there_is_is_refused() -> None:
    assert rules(GOOD_JOB.replace(TASK_FLOOR, "    minAvailable: 9\n")) == ["counts-refused"]
    assert rules(GOOD_JOB.replace(JOB_FLOOR, "  minAvailable: 9\n  tasks")) == ["counts-refused"]


def test_a_job_without_a_task_is_refused() -> None:
    text = GOOD_JOB[: GOOD_JOB.index("  tasks:")]
    assert rules(text) == ["counts-refused"]


def test_members_that_are_told_of_no_others_are_found() -> None:
    alone = GOOD_JOB.replace('"--nnodes=6:8", ', "")
    assert rules(alone) == []  # PET_NNODES may be in what envFrom brings
    bare = alone.replace(
        "envFrom:\n          - configMapRef:\n              name: everstep", "env: []"
    )
    finding = next(found for found in found(bare) if found.rule.id == "sizes-differ")
    assert finding.advice == "--nnodes=6:8"


def test_ec09_replicas_below_the_full_size_are_found() -> None:
    (finding,) = found(GOOD_JOB.replace("replicas: 8", "replicas: 7"))
    assert finding.rule.id == "sizes-differ"
    assert "highest index" in finding.rule.why


def test_a_job_that_needs_all_its_members_is_found() -> None:
    text = GOOD_JOB.replace("minAvailable: 6", "minAvailable: 8").replace("6:8", "8")
    (finding,) = found(text)
    assert (finding.rule.id, finding.fix) == ("no-room-to-shrink", ())


def test_a_single_member_has_nobody_to_lose() -> None:
    text = GOOD_JOB.replace("minAvailable: 6", "minAvailable: 1").replace("6:8", "1")
    assert rules(text.replace("replicas: 8", "replicas: 1")) == []


def test_a_task_that_does_not_train_counts_in_the_jobs_floor_only() -> None:
    text = GOOD_JOB.replace(JOB_FLOOR, "  minAvailable: 7\n  tasks") + LOGGER
    assert rules(text) == []
    assert fixed_text(text.replace(TASK_FLOOR, "")) == text


def test_numbers_that_only_a_shell_knows_are_left_alone() -> None:
    assert rules(GOOD_JOB.replace("--nnodes=6:8", "--nnodes=$MIN:$MAX")) == []
