"""Where the batches of a step come from."""

from collections.abc import Iterable

import pytest
from everstep_trainer.library.errors import LoopError
from everstep_trainer.library.loaders import BatchSource


class Numbers:
    """A loader that knows the data of any step."""

    def batches(self, step: int, rank: int, world_size: int) -> Iterable[str]:
        return [f"{step}/{rank}/{world_size}/{n}" for n in range(2)]


def test_a_loader_is_asked_by_step_rank_and_world_size() -> None:
    assert BatchSource(Numbers()).batches(3, 1, 2) == ("3/1/2/0", "3/1/2/1")


def test_a_function_will_do() -> None:
    source = BatchSource(lambda step, rank, world_size: [step * 100 + rank * 10 + world_size])
    assert source.batches(3, 1, 2) == (312,)


def test_without_a_loader_there_are_no_micro_batches() -> None:
    assert BatchSource(None).batches(0, 0, 1) == ()


def test_an_iterable_gives_one_item_a_step_and_begins_again() -> None:
    source = BatchSource(["a", "b"])
    assert [source.batches(step, 0, 1) for step in range(3)] == [("a",), ("b",), ("a",)]


def test_a_step_that_is_done_again_gets_the_same_item() -> None:
    source = BatchSource(iter("abc"))
    source.batches(0, 0, 1)
    assert source.batches(1, 0, 1) == source.batches(1, 0, 1) == ("b",)


def test_a_step_that_others_completed_for_this_worker_is_skipped() -> None:
    source = BatchSource("abcd")
    source.batches(0, 0, 1)
    assert source.batches(2, 0, 1) == ("c",)


def test_a_newcomer_begins_an_iterable_at_its_first_item() -> None:
    assert BatchSource("abcd").batches(700, 0, 1) == ("a",)


@pytest.mark.parametrize("loader", [[], lambda *_: []])
def test_a_loader_without_data_is_told(loader: object) -> None:
    with pytest.raises(LoopError, match="the loader"):
        BatchSource(loader).batches(0, 0, 1)  # type: ignore[arg-type]
