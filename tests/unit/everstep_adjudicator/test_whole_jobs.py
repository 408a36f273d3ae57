"""Losses that leave nobody: what a job whose members are all gone, or not heard, does."""

from support.courtroom import Courtroom, running
from support.gang import member


def whole_job_dead(returned: int) -> Courtroom:
    """Four members died at once, of whom the first so many have a successor that reports."""
    room = running(4, min_member=3)
    for index in range(4):
        room.kill(f"trainer-{index}.1")
    for index in range(4):
        room.hear(room.suspicion(member(index)))
    room.start(*(member(index, life=2) for index in range(returned)))
    return room


def test_nobody_shrinks_to_members_of_whom_none_is_heard() -> None:
    room = whole_job_dead(returned=1)
    room.pass_time(3)
    assert room.verdicts == ["form", "await_replacement"]
    assert room.names == []


def test_a_newcomer_that_is_not_ready_can_look_for_the_dead() -> None:
    room = whole_job_dead(returned=2)
    room.agents["trainer-0.2"].phase = room.agents["trainer-1.2"].phase = "starting"
    room.pass_time(3)
    assert {"trainer-0.2", "trainer-1.2"} <= {probe.witness for probe in room.probes}


def test_held_members_that_die_together_are_left_out_together() -> None:
    room = running(5, min_member=4)
    room.lose(member(0), member(1))
    room.obey(until="holding")
    for index in (2, 3, 4):
        room.kill(f"trainer-{index}.1")
        room.hear(room.suspicion(member(index)))
    room.start(member(0, life=2))
    for index in (2, 3, 4):
        room.answer(member(index), "refused", witnesses=1)
        room.pass_time(0.2)
    assert room.verdicts == ["form", "await_replacement", "await_replacement"]
    assert room.names == []


def test_a_whole_job_that_is_dead_begins_anew_and_waits_a_while_for_the_rest() -> None:
    room = whole_job_dead(returned=3)
    room.pass_time(4)
    assert room.verdicts == ["form", "await_replacement"]
    room.start(member(3, life=2))
    assert room.verdicts == ["form", "await_replacement", "form"]
    assert room.names == [f"trainer-{index}.2" for index in range(4)]
