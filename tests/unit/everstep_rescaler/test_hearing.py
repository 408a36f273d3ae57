"""Silences are counted on our own clock, from when we knew, and only while we could hear."""

from everstep_rescaler.hearing import Hearing
from everstep_runtime.clock import SystemClock
from support.jobs import member, report


class SteppedClock(SystemClock):
    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


GONE = member(7)


def listening(clock: SteppedClock) -> Hearing:
    hearing = Hearing(clock)
    hearing.know_excluded([GONE])
    return hearing


def test_r27_a_silence_begins_when_the_exclusion_becomes_known() -> None:
    clock = SteppedClock()
    hearing = Hearing(clock)
    clock.seconds += 100
    hearing.know_excluded([GONE])
    clock.seconds += 5
    hearing.know_excluded([GONE])
    assert hearing.pod_silence_seconds(GONE) == 5
    assert hearing.node_silence_seconds(GONE) == 5


def test_a_report_from_the_pod_or_from_the_node_ends_its_silence() -> None:
    clock = SteppedClock()
    hearing = listening(clock)
    clock.seconds += 50
    hearing.hear(report(member(6, node=GONE.node)))
    clock.seconds += 2
    assert hearing.pod_silence_seconds(GONE) == 52
    assert hearing.node_silence_seconds(GONE) == 2
    hearing.hear(report(member(7, life=2).model_copy(update={"pod_uid": GONE.pod_uid})))
    assert hearing.pod_silence_seconds(GONE) == 0


def test_who_is_deaf_takes_nobody_for_silent() -> None:
    clock = SteppedClock()
    hearing = listening(clock)
    clock.seconds += 500
    hearing.was_deaf()
    clock.seconds += 1
    assert hearing.node_silence_seconds(GONE) == 1


def test_a_node_is_heard_for_as_long_as_asked() -> None:
    clock = SteppedClock()
    hearing = listening(clock)
    assert not hearing.heard_on(GONE.node, within_seconds=3)
    hearing.hear(report(GONE))
    clock.seconds += 2
    assert hearing.heard_on(GONE.node, within_seconds=3)
    clock.seconds += 2
    assert not hearing.heard_on(GONE.node, within_seconds=3)


def test_a_member_excluded_anew_is_counted_anew() -> None:
    clock = SteppedClock()
    hearing = listening(clock)
    clock.seconds += 50
    hearing.know_excluded([])
    hearing.know_excluded([GONE])
    assert hearing.pod_silence_seconds(GONE) == 0
