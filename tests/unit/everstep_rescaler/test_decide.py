"""Which order a record asks for, and when none is due."""

from everstep_contract.verdicts import RestartWorkers
from everstep_rescaler.decide import contradicts, next_order, order_of
from support.jobs import member, record

MEMBERS = (member(0), member(1))


def test_r7_an_order_is_the_whole_desired_state_of_the_record() -> None:
    asked = record(3, MEMBERS, start_step=120, state="hold")
    order = order_of(asked)
    copied = {name: getattr(asked, name) for name in type(order).model_fields if name != "restart"}
    assert copied == {name: getattr(order, name) for name in copied}
    assert order.restart == ()


def test_r7_members_whose_workers_failed_are_told_to_start_them_anew() -> None:
    failed = (MEMBERS[1].incarnation,)
    assert order_of(record(3, MEMBERS, verdict=RestartWorkers(failed=failed))).restart == failed


def test_r7_a_job_that_has_ended_is_ordered_to_stop() -> None:
    assert order_of(record(3, MEMBERS, phase="ended", state="run")).state == "stop"


def test_a_record_without_a_generation_asks_for_nothing() -> None:
    assert next_order(record(0, ()), None) is None


def test_r8_the_first_generation_is_ordered_after_nothing() -> None:
    assert next_order(record(1, MEMBERS), None) == order_of(record(1, MEMBERS))


def test_r8_only_a_newer_generation_is_ordered() -> None:
    last = order_of(record(3, MEMBERS))
    assert next_order(record(2, MEMBERS), last) is None
    assert next_order(record(3, MEMBERS, phase="resumed"), last) is None
    assert next_order(record(4, MEMBERS), last) == order_of(record(4, MEMBERS))


def test_r8_a_job_made_anew_under_the_same_name_is_newer_whatever_its_generation() -> None:
    last = order_of(record(9, MEMBERS))
    anew = record(1, MEMBERS, job_uid="another")
    assert next_order(anew, last) == order_of(anew)


def test_r8_the_same_generation_under_another_verdict_is_never_ordered_but_noticed() -> None:
    last = order_of(record(3, MEMBERS))
    split = record(3, MEMBERS, verdict_id="another")
    assert next_order(split, last) is None
    assert contradicts(split, last)
    assert not contradicts(record(3, MEMBERS), last)
    assert not contradicts(record(4, MEMBERS), last)
