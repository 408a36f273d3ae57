"""The twin's streams behave as nats-server's."""

import pytest
from everstep_bus.errors import RevisionMismatchError
from everstep_bus.memory.stream import MemoryStream
from everstep_contract.layout import Stream
from hypothesis import given
from hypothesis import strategies as st

WINDOW_SECONDS = 120.0


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def stream(*, newest_only: bool = False, clock: Clock | None = None) -> MemoryStream:
    limit = 1 if newest_only else -1
    spec = Stream("S", (">",), "file", 0, 0, limit, duplicate_window_seconds=WINDOW_SECONDS)
    return MemoryStream(spec, clock or Clock())


def payloads(one: MemoryStream) -> list[bytes]:
    return [stored.payload for stored in one.after(0)]


def test_a_message_id_is_taken_once_within_the_window_and_again_after_it() -> None:
    clock = Clock()
    one = stream(clock=clock)
    assert one.append("a", {"Nats-Msg-Id": "x"}, b"1", expected=None) == 1
    assert one.append("a", {"Nats-Msg-Id": "x"}, b"1", expected=None) == 1
    clock.seconds = WINDOW_SECONDS
    assert one.append("a", {"Nats-Msg-Id": "x"}, b"1", expected=None) == 2


def test_a_condition_is_about_the_last_message_of_the_subject() -> None:
    one = stream()
    one.append("a", {}, b"1", expected=0)
    one.append("b", {}, b"2", expected=0)
    one.append("a", {}, b"3", expected=1)
    with pytest.raises(RevisionMismatchError):
        one.append("a", {}, b"4", expected=1)


def test_an_id_of_a_lost_message_is_free_again() -> None:
    one = stream()
    one.append("a", {"Nats-Msg-Id": "x"}, b"1", expected=None)
    one.lose_tail(1)
    assert one.append("a", {"Nats-Msg-Id": "x"}, b"1", expected=None) == 1


writes = st.lists(st.sampled_from("abc"), min_size=1, max_size=30)


@given(writes, st.integers(0, 30), st.booleans())
def test_losing_the_tail_leaves_what_was_there_before_it_was_written(
    subjects: list[str], lost: int, newest_only: bool
) -> None:
    kept = max(len(subjects) - lost, 0)
    whole, prefix = stream(newest_only=newest_only), stream(newest_only=newest_only)
    for number, subject in enumerate(subjects):
        whole.append(subject, {}, str(number).encode(), expected=None)
    for number, subject in enumerate(subjects[:kept]):
        prefix.append(subject, {}, str(number).encode(), expected=None)
    whole.lose_tail(lost)
    assert payloads(whole) == payloads(prefix)
    assert whole.newest_per_subject() == prefix.newest_per_subject()
    assert whole.last_sequence == prefix.last_sequence


@given(writes)
def test_a_stream_of_the_newest_keeps_one_message_a_subject(subjects: list[str]) -> None:
    one = stream(newest_only=True)
    for number, subject in enumerate(subjects):
        one.append(subject, {}, str(number).encode(), expected=None)
    newest = {subject: str(number).encode() for number, subject in enumerate(subjects)}
    assert {stored.subject: stored.payload for stored in one.after(0)} == newest
