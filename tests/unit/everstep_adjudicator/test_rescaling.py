"""Another size by an operator's wish: asked, granted, moved, done or refused. EC-09, EC-19, R7."""

from everstep_adjudicator.actions import Advance, Decision, Recorded, Refuse, Rule
from everstep_adjudicator.case import Case
from everstep_adjudicator.model import JobView
from everstep_adjudicator.operators import Command, obey
from everstep_contract.facts.job import JobObserved, RescaleAnswered
from everstep_contract.identity import GangSpec
from everstep_contract.queries import RescaleJob, ResumeJob, SuspendJob
from everstep_contract.rescaling import JobSize, Rescale
from everstep_contract.verdicts import AwaitReplacement, Grow, Shrink, Suspend
from support.courtroom import Courtroom, running
from support.gang import all_of, member
from support.messages import JOB

BEFORE = JobSize(replicas=8, min_available=4)


def job_of(members: int = 8) -> Courtroom:
    """A job that runs with so many of its 8 members, and the cluster's word about it."""
    room = running(members, min_member=4, max_member=8)
    observe(room, BEFORE)
    return room


def observe(room: Courtroom, size: JobSize) -> None:
    """The watcher saw the Job."""
    room.hear(
        JobObserved(
            at=room.now.at,
            job=JOB,
            job_uid="uid-1",
            gang=GangSpec(
                min_member=size.min_available, max_member=size.replicas, nproc_per_node=1
            ),
            annotated_generation=room.view.generation,
            resource_version="1",
        )
    )


def command(room: Courtroom, replicas: int, least: int | None = None) -> RescaleJob:
    generation = room.view.generation
    return RescaleJob(
        job=JOB, generation=generation, replicas=replicas, min_available=least, reason="others"
    )


def obeyed(room: Courtroom, asked: Command) -> Decision:
    """The command is in the record, if it is not refused."""
    decision = obey(Case.of(room.view, room.policy, room.now), asked)
    if isinstance(decision.action, Rule | Advance):
        room.hear(Recorded(decision.action.record, room.view.revision + 1))
    return decision


def answer(room: Courtroom, said: str, size: JobSize | None = BEFORE, detail: str = "") -> None:
    """The rescaler answers the wish."""
    room.hear(
        RescaleAnswered.model_validate(
            {
                "at": room.now.at,
                "job": JOB,
                "job_uid": "uid-1",
                "wish": wish(room).id,
                "answer": said,
                "size": size,
                "detail": detail,
            }
        )
    )


def wish(room: Courtroom) -> Rescale:
    assert room.record.rescale is not None
    return room.record.rescale


def granted(room: Courtroom, replicas: int, least: int | None = None) -> None:
    obeyed(room, command(room, replicas, least))
    answer(room, "possible")


def moved(room: Courtroom) -> None:
    """Everybody obeys: those without a seat leave, and wait for one."""
    room.obey()
    for incarnation in set(room.agents) - set(room.names):
        room.agents[incarnation].follow(room.record, "ready")
    room.report(*room.agents)


def seats(*indices: int) -> list[str]:
    return [f"trainer-{index}.1" for index in indices]


def test_nobody_moves_before_the_rescaler_says_that_it_may_change_the_job() -> None:
    room = job_of()
    obeyed(room, command(room, 6))
    room.pass_time(5)
    assert (room.view.generation, wish(room).stage) == (1, "asked")
    answer(room, "possible")
    assert (room.view.generation, wish(room).stage) == (2, "granted")


def test_ec09_those_on_the_indices_that_will_go_leave_before_the_job_is_changed() -> None:
    room = job_of()
    granted(room, 6)
    assert room.record.verdict == Shrink(lost=("trainer-6.1", "trainer-7.1"))
    assert room.names == seats(0, 1, 2, 3, 4, 5)
    assert wish(room).size == JobSize(replicas=6, min_available=4)
    assert wish(room).size_before == BEFORE


def test_a_planned_leave_is_no_failure_and_accuses_no_node() -> None:
    room = job_of()
    granted(room, 6)
    moved(room)
    record = room.record
    assert (record.excluded, record.incident, record.failures_without_progress) == ((), None, 0)
    assert room.incidents == []


def test_the_jobs_new_size_completes_the_wish_and_nobody_is_let_in_meanwhile() -> None:
    room = job_of()
    granted(room, 6)
    moved(room)
    room.pass_time(room.policy.readmit_seconds + 5)  # the two that left wait, ready, for a seat
    assert room.view.generation == 2
    observe(room, wish(room).size)
    assert (wish(room).stage, room.record.gang.max_member) == ("done", 6)
    room.pass_time(30)
    assert room.names == seats(0, 1, 2, 3, 4, 5)


def test_a_repeated_word_about_the_old_size_does_not_undo_the_wish() -> None:
    room = job_of()
    granted(room, 6)
    moved(room)
    observe(room, BEFORE)
    room.pass_time(30)
    assert (len(room.names), wish(room).stage) == (6, "granted")


def test_what_the_rescaler_reads_completes_it_where_the_watcher_said_nothing() -> None:
    room = job_of()
    granted(room, 6)
    moved(room)
    answer(room, "done", JobSize(replicas=6, min_available=4))
    room.pass_time(30)
    assert (wish(room).stage, len(room.names)) == ("done", 6)


def test_a_larger_size_moves_nobody_and_is_no_generation() -> None:
    room = running(6, min_member=4, max_member=6)
    observe(room, JobSize(replicas=6, min_available=4))
    obeyed(room, command(room, 8))
    answer(room, "possible", JobSize(replicas=6, min_available=4))
    assert (room.view.generation, wish(room).stage) == (1, "granted")
    observe(room, JobSize(replicas=8, min_available=4))
    assert wish(room).stage == "done"
    room.start(member(6), member(7))
    room.pass_time(room.policy.grow_quiet_seconds + 1)
    assert room.record.verdict == Grow(added=("trainer-6.1", "trainer-7.1"))


def test_ec19_a_refusal_is_kept_in_its_own_words_and_who_left_is_seated_again() -> None:
    room = job_of()
    granted(room, 6)
    moved(room)
    answer(room, "refused", detail="400: denied the request")
    assert (wish(room).stage, wish(room).detail) == ("refused", "400: denied the request")
    room.pass_time(room.policy.grow_quiet_seconds + 1)
    assert room.record.verdict == Grow(added=("trainer-6.1", "trainer-7.1"))


def test_a_refusal_below_the_jobs_floor_seats_the_others_at_once() -> None:
    room = running(8, min_member=8, max_member=8)
    observe(room, JobSize(replicas=8, min_available=8))
    obeyed(room, command(room, 6))
    answer(room, "possible", JobSize(replicas=8, min_available=8))
    moved(room)
    assert len(room.names) == 6
    answer(room, "refused", detail="403")
    assert room.record.verdict == Grow(added=("trainer-6.1", "trainer-7.1"))


def test_a_floor_that_was_raised_by_hand_holds_a_job_that_is_below_it() -> None:
    room = job_of(6)
    observe(room, JobSize(replicas=8, min_available=7))
    assert isinstance(room.record.verdict, AwaitReplacement)
    moved(room)
    room.start(member(6))
    assert (room.state(), len(room.names)) == ("run", 7)


def test_a_wish_that_no_rescaler_answers_ends_with_what_to_do_by_hand() -> None:
    room = job_of()
    obeyed(room, command(room, 6))
    room.pass_time(room.policy.rescale_answer_seconds + 1)
    assert wish(room).stage == "refused"
    assert f"kubectl -n {JOB.namespace} patch jobs.batch.volcano.sh {JOB.name}" in wish(room).detail
    assert room.view.generation == 1


def test_a_granted_wish_that_the_cluster_never_fulfils_ends_and_all_are_seated_again() -> None:
    room = job_of()
    granted(room, 6)
    moved(room)
    room.pass_time(room.policy.rescale_seconds + 10)
    assert (wish(room).stage, len(room.names)) == ("refused", 8)


def test_a_member_lost_before_the_move_is_ruled_on_first_and_the_rest_moves_later() -> None:
    room = job_of()
    obeyed(room, command(room, 6))
    room.lose(member(1))
    answer(room, "possible")
    assert room.record.verdict == Shrink(lost=("trainer-1.1",))
    moved(room)
    room.pass_time(room.policy.grow_quiet_seconds + 5)
    assert room.names == seats(0, 2, 3, 4, 5)
    assert room.record.failures_without_progress == 0  # not of the move: a step came in between


def test_a_member_lost_after_the_move_shrinks_what_is_left() -> None:
    room = job_of()
    granted(room, 6)
    moved(room)
    room.lose(member(2))
    assert room.names == seats(0, 1, 3, 4, 5)
    assert wish(room).stage == "granted"


def test_losses_that_leave_too_few_for_the_wish_refuse_it() -> None:
    room = job_of()
    obeyed(room, command(room, 6, 6))
    room.lose(member(0))
    answer(room, "possible")
    moved(room)
    room.pass_time(5)
    assert (wish(room).stage, wish(room).detail) == ("refused", "only 5 members would stay by now")
    assert len(room.names) == 7


def test_ec09_a_dead_low_index_costs_no_healthy_member_below_the_floor() -> None:
    room = job_of()
    room.lose(member(1))
    moved(room)
    room.pass_time(5)
    decision = obeyed(room, command(room, 6, 6))
    assert decision.action == Refuse()
    assert "only 5 of its 7 members would stay" in decision.reason
    granted(room, 6, 5)
    assert room.names == seats(0, 2, 3, 4, 5)
    moved(room)
    observe(room, JobSize(replicas=6, min_available=5))
    room.kill("trainer-6.1", "trainer-7.1")
    room.start(member(1, life=2))
    room.pass_time(5)
    assert room.names == [*seats(0, 2, 3, 4, 5), "trainer-1.2"]


def test_a_suspended_job_is_rescaled_in_its_sleep() -> None:
    room = job_of()
    obeyed(room, SuspendJob(job=JOB, generation=1, reason="night"))
    moved(room)
    granted(room, 6)
    assert (room.record.verdict, len(room.names)) == (Suspend(by="operator"), 6)
    moved(room)
    observe(room, wish(room).size)
    room.pass_time(2)
    obeyed(room, ResumeJob(job=JOB, generation=room.view.generation, reason="morning"))
    assert (room.state(), room.names) == ("run", seats(0, 1, 2, 3, 4, 5))


def test_a_smaller_floor_lets_a_job_go_on_that_held_for_lack_of_members() -> None:
    room = running(8, min_member=8)
    observe(room, JobSize(replicas=8, min_available=8))
    room.lose(member(7))
    moved(room)
    assert room.state() == "hold"
    granted(room, 7, 7)
    room.pass_time(2)
    assert (room.state(), room.names) == ("run", seats(0, 1, 2, 3, 4, 5, 6))


def test_a_second_wish_is_refused_while_one_is_open() -> None:
    room = job_of()
    obeyed(room, command(room, 6))
    decision = obeyed(room, command(room, 5))
    assert decision.action == Refuse()
    assert "a rescale to replicas 6, minAvailable 4 is under way" in decision.reason
    answer(room, "refused", detail="no")
    obeyed(room, command(room, 5))
    assert (wish(room).stage, wish(room).size.replicas) == ("asked", 5)


def test_answers_to_an_earlier_wish_count_for_nothing() -> None:
    room = job_of()
    obeyed(room, command(room, 6))
    answer(room, "refused", detail="no")
    late = room.view.rescale_answer
    assert late is not None
    obeyed(room, command(room, 5))
    room.hear(late)
    assert wish(room).stage == "asked"


def test_what_cannot_be_is_refused_with_the_reason() -> None:
    room = job_of()
    reasons = [
        obeyed(room, asked).reason
        for asked in (
            command(room, 8, 4),
            command(room, 6, 7),
            command(room, 3, 3),
            command(room, 2).model_copy(update={"generation": 0}),
        )
    ]
    assert reasons[0] == "the job has replicas 8, minAvailable 4 already"
    assert reasons[1] == "minAvailable 7 is more than replicas 6"
    assert reasons[3] == "the job is at generation 1 by now"
    assert wish(room).size == JobSize(replicas=3, min_available=3)  # the third one is possible


def test_r6_a_new_adjudicator_goes_on_with_a_granted_wish() -> None:
    room = job_of()
    granted(room, 6)
    moved(room)
    record = room.record
    room.view = JobView(job=JOB, lease_revision=9)
    room.hear(Recorded(record, 20))
    room.pass_time(room.policy.readmit_seconds + 5)
    assert (room.view.generation, len(room.names)) == (2, 6)
    answer(room, "done", JobSize(replicas=6, min_available=4))
    assert wish(room).stage == "done"
    room.pass_time(5)
    assert len(room.names) == 6


def test_a_scale_down_by_hand_is_followed_and_spends_nothing() -> None:
    room = job_of()
    observe(room, JobSize(replicas=6, min_available=4))
    for index in (7, 6):
        room.kill(f"trainer-{index}.1")
        room.hear(room.departure(member(index)))
    moved(room)
    room.pass_time(5)
    assert room.names == seats(0, 1, 2, 3, 4, 5)
    assert room.record.failures_without_progress == 0
    room.start(*all_of(0))
    room.pass_time(20)
    assert len(room.names) == 6


def test_a_size_that_was_raised_by_hand_is_known_to_the_next_adjudicator_too() -> None:
    room = job_of(6)
    observe(room, JobSize(replicas=9, min_available=4))
    record = room.record
    assert record.gang.max_member == 9
    room.view = JobView(job=JOB, lease_revision=9)
    room.hear(Recorded(record, 20))
    room.start(member(6), member(7), member(8))
    room.pass_time(room.policy.grow_quiet_seconds + 1)
    assert len(room.names) == 9


def test_a_job_made_anew_knows_nothing_of_the_old_ones_wish() -> None:
    room = job_of()
    granted(room, 6)
    moved(room)
    room.kill(*room.agents)
    room.hear(
        JobObserved(
            at=room.now.at,
            job=JOB,
            job_uid="uid-1",
            gang=room.gang,
            annotated_generation=2,
            deleted=True,
            resource_version="9",
        )
    )
    room.start(*(member(index, 5, "uid-2") for index in range(8)))
    assert (len(room.names), room.record.rescale) == (8, None)
