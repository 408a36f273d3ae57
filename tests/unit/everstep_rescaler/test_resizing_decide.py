"""What is due for a wish of another size: EC-09, EC-19."""

from dataclasses import replace
from typing import Any

from everstep_contract.record import JobRecord
from everstep_contract.rescaling import JobSize, Rescale
from everstep_kube.resizing import SizedJob
from everstep_rescaler.resizing_decide import Answer, Resize, decide_resizing
from support.jobs import JOB, JOB_UID, NOW, member, record

EIGHT, SIX = JobSize(replicas=8, min_available=6), JobSize(replicas=6, min_available=5)
THERE = SizedJob(JOB, JOB_UID, "81002", EIGHT)
SMALL = replace(THERE, size=SIX)


def wished(
    size: JobSize = SIX,
    stage: str = "granted",
    before: JobSize = EIGHT,
    seats: int = 6,
    **more: Any,
) -> JobRecord:
    """A record with a wish, under which the first so many members are seated."""
    wish = Rescale.model_validate(
        {
            "id": "7-1-rescale",
            "size": size,
            "stage": stage,
            "reason": "others",
            "asked_at": NOW,
            "size_before": before,
        }
    )
    members = tuple(map(member, range(seats)))
    return record(9, members, **{"phase": "resumed", "rescale": wish, **more})


def due(ruled: JobRecord, job: SizedJob | None = THERE, *, act: bool = True) -> object:
    return decide_resizing(ruled, job, act=act)


def test_a_wish_is_possible_before_anything_else_is_done() -> None:
    assert due(wished(stage="asked", seats=8)) == Answer("possible", EIGHT)


def test_a_rescaler_that_only_observes_refuses_with_what_to_do_by_hand() -> None:
    answer = due(wished(stage="asked"), act=False)
    assert isinstance(answer, Answer)
    assert answer.answer == "refused"
    assert answer.detail.endswith(f"by hand: {SIX.by_hand(JOB.namespace, JOB.name)}")


def test_ec09_the_job_gets_smaller_only_when_nobody_is_seated_on_what_goes() -> None:
    assert due(wished(seats=7)) is None
    assert due(wished(seats=6)) == Resize(SIX)


def test_ec09_the_generation_without_them_has_to_go_on_first() -> None:
    assert due(wished(phase="decided", formed_generation=8)) is None
    assert due(wished(phase="decided", formed_generation=9)) == Resize(SIX)
    assert due(wished(phase="holding")) == Resize(SIX)


def test_a_larger_job_waits_for_nobody() -> None:
    larger = wished(EIGHT, before=SIX, phase="decided")
    assert due(larger, SMALL) == Resize(EIGHT)


def test_a_job_that_has_the_size_is_done_whoever_gave_it() -> None:
    assert due(wished(), SMALL) == Answer("done", SIX)
    assert due(wished(stage="asked"), SMALL) == Answer("done", SIX)


def test_somebody_elses_change_of_the_size_is_not_undone() -> None:
    theirs = replace(THERE, size=JobSize(replicas=7, min_available=6))
    answer = due(wished(), theirs)
    assert answer == Answer(
        "refused",
        theirs.size,
        "somebody else changed the Job: it has replicas 7, minAvailable 6",
    )


def test_a_job_of_several_tasks_is_refused() -> None:
    answer = due(wished(stage="asked"), replace(THERE, size=None))
    assert isinstance(answer, Answer)
    assert answer.answer == "refused"


def test_another_job_of_the_same_name_is_left_alone() -> None:
    for job in (None, replace(THERE, uid="another")):
        answer = due(wished(), job)
        assert isinstance(answer, Answer)
        assert answer.answer == "refused"


def test_nothing_is_due_for_what_is_over() -> None:
    assert due(wished(stage="done")) is None
    assert due(wished(stage="refused")) is None
    assert due(wished(phase="ended")) is None
    assert due(record(9, ())) is None
