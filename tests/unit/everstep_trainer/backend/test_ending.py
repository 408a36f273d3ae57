"""The flag of a generation: raised once, heard everywhere."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch
from everstep_trainer.backend import CollectiveFailedError, Ending, GenerationEnded

LONG = timedelta(seconds=60)


@pytest.fixture
def ending() -> Ending:
    return Ending(generation=4)


def test_check_passes_while_the_generation_lasts(ending: Ending) -> None:
    ending.check()
    assert ending.reason is None


def test_check_raises_what_no_handler_of_exceptions_catches(ending: Ending) -> None:
    ending.end("member 3 is excluded")
    with pytest.raises(GenerationEnded, match="generation 4 ended: member 3 is excluded") as raised:
        ending.check()
    assert not isinstance(raised.value, Exception)


def test_only_the_first_end_has_an_effect(ending: Ending) -> None:
    done: list[str] = []
    ending.on_end(lambda: done.append("cut"))
    assert [ending.end("first"), ending.end("second")] == [True, False]
    assert (ending.reason, done) == ("first", ["cut"])


def test_of_many_threads_exactly_one_ends_it(ending: Ending) -> None:
    together = threading.Barrier(8)

    def end(number: int) -> bool:
        together.wait()
        return ending.end(f"thread {number}")

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(end, range(8))) == 1


def test_an_action_that_comes_late_is_done_at_once(ending: Ending) -> None:
    done: list[str] = []
    ending.end("over")
    ending.on_end(lambda: done.append("cut"))
    assert done == ["cut"]


def test_one_action_that_fails_keeps_no_other_from_running(ending: Ending) -> None:
    done: list[str] = []

    def fail() -> None:
        raise OSError("no")

    for action in (lambda: done.append("a"), fail, lambda: done.append("b")):
        ending.on_end(action)
    with pytest.raises(OSError, match="no"):
        ending.end("over")
    assert sorted(done) == ["a", "b"]


def test_a_call_gives_its_result(ending: Ending) -> None:
    assert ending.run(lambda: 42, "answer", LONG) == 42


def test_a_call_that_fails_fails_here(ending: Ending) -> None:
    def fail() -> None:
        raise OSError("refused")

    with pytest.raises(OSError, match="refused"):
        ending.run(fail, "connection", LONG)


def blocked(ending: Ending, release: threading.Event, begun: threading.Event) -> Callable[[], None]:
    def call() -> None:
        begun.set()
        release.wait(LONG.total_seconds())

    return call


def test_a_call_that_blocks_is_left_behind_when_the_generation_ends(ending: Ending) -> None:
    release, begun = threading.Event(), threading.Event()
    ending.on_abandon(release.set)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(ending.run, blocked(ending, release, begun), "connection", LONG)
        begun.wait(LONG.total_seconds())
        ending.end("over")
        assert isinstance(running.exception(LONG.total_seconds()), GenerationEnded)
    assert release.is_set()


def test_a_call_that_blocks_for_too_long_is_given_up(ending: Ending) -> None:
    release, begun = threading.Event(), threading.Event()
    with pytest.raises(TimeoutError, match=r"connection took longer than 0\.05 s"):
        ending.run(blocked(ending, release, begun), "connection", timedelta(milliseconds=50))
    assert not ending.settled()
    release.set()


def test_nothing_is_begun_once_the_generation_is_over(ending: Ending) -> None:
    ending.end("over")
    called: list[int] = []
    with pytest.raises(GenerationEnded):
        ending.run(lambda: called.append(1), "connection", LONG)
    assert called == []


def test_a_promised_future_is_completed_by_its_claimant_or_by_the_end(ending: Ending) -> None:
    claimed: torch.futures.Future[object] = torch.futures.Future()
    left: torch.futures.Future[object] = torch.futures.Future()
    for future in (claimed, left):
        ending.promise(future)
    assert [ending.claim(claimed), ending.claim(claimed)] == [True, False]
    ending.end("over")
    assert (claimed.done(), left.done()) == (False, True)
    assert not ending.claim(left)


def test_only_the_first_failure_before_the_end_is_remembered(ending: Ending) -> None:
    first = ending.note(CollectiveFailedError("allreduce", "reset by peer"))
    ending.note(CollectiveFailedError("barrier", "reset by peer"))
    assert ending.failure is first


def test_a_failure_after_the_end_is_the_ends_own_doing(ending: Ending) -> None:
    ending.end("over")
    ending.note(CollectiveFailedError("allreduce", "reset by peer"))
    assert ending.failure is None
