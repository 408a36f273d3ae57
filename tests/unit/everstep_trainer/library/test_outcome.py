"""What an exception means for a generation."""

import pytest
from everstep_trainer.backend import (
    CollectiveFailedError,
    Ending,
    FormingFailedError,
    GenerationEnded,
)
from everstep_trainer.library.errors import StaleGroupError
from everstep_trainer.library.outcome import Broken, Ended, judge


def ended() -> Ending:
    ending = Ending(4)
    ending.end("generation 5 is ordered")
    return ending


@pytest.mark.parametrize(
    "error", [GenerationEnded(4, "ordered"), RuntimeError("from a hook"), KeyError("disguised")]
)
def test_whatever_is_raised_while_the_flag_is_set_is_the_generations_end(
    error: BaseException,
) -> None:
    assert judge(error, ended()) == Ended(error)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_ends_a_process_is_never_swallowed(error: BaseException) -> None:
    assert judge(error, ended()) is None


def test_a_gpu_that_refuses_everything_ends_the_worker_and_not_only_the_generation() -> None:
    assert judge(RuntimeError("CUDA error: unspecified launch failure"), ended()) is None


def test_a_scripts_own_error_is_its_own() -> None:
    assert judge(ValueError("a mistake"), Ending(4)) is None


def test_a_broken_collective_is_found_beneath_what_the_script_made_of_it() -> None:
    ending = Ending(4)
    failure = ending.note(CollectiveFailedError("allreduce", "closed by peer", peer_ranks=[2]))
    outcome = judge(RuntimeError("in backward"), ending)
    assert isinstance(outcome, Broken)
    assert (outcome.cause, outcome.peer_ranks) == (failure, (2,))


def test_r18_a_forming_that_failed_names_who_is_missing() -> None:
    error = RuntimeError("no group")
    error.__cause__ = FormingFailedError("barrier", "2 did not come", missing=[1, 3])
    outcome = judge(error, Ending(4))
    assert isinstance(outcome, Broken)
    assert outcome.peer_ranks == (1, 3)


def test_a_group_of_another_generation_is_told() -> None:
    with pytest.raises(StaleGroupError, match="generation 3 was used in generation 4"):
        judge(GenerationEnded(3, "ordered"), Ending(4))
