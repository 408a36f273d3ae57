"""What a worker may track."""

from collections.abc import Iterator

import pytest
import torch
from everstep_checkpoint.slots import SlotPair
from everstep_trainer.library.cadence import Pacer, Wish
from everstep_trainer.library.copying import CpuCopier
from everstep_trainer.library.errors import UnstorableStateError
from everstep_trainer.library.snapshots import Snapshots
from everstep_trainer.library.state import JobState, Saving
from everstep_trainer.page import Page
from torch import nn

ODD_TYPES = (torch.complex64, torch.complex128, torch.float8_e4m3fnuz)


@pytest.fixture
def pairs() -> Iterator[tuple[SlotPair, SlotPair]]:
    pairs = SlotPair.create("state"), SlotPair.create("rank")
    yield pairs
    for pair in pairs:
        pair.close()


def job_state(pairs: tuple[SlotPair, SlotPair], wish: Wish) -> JobState:
    return JobState(Page.create("test"), Saving(Snapshots(*pairs, CpuCopier()), Pacer(wish)))


def model(dtype: torch.dtype) -> nn.Module:
    made = nn.Linear(2, 2)
    made.register_buffer("phases", torch.zeros(3, dtype=dtype))
    return made


@pytest.mark.parametrize("dtype", ODD_TYPES)
def test_a_tensor_that_no_shard_has_a_type_for_is_refused_when_it_is_tracked(
    pairs: tuple[SlotPair, SlotPair], dtype: torch.dtype
) -> None:
    state = job_state(pairs, Wish(snapshot_every=10))
    with pytest.raises(UnstorableStateError, match=rf"'model\.phases' is of type {dtype}"):
        state.adopt({"model": model(dtype)})


@pytest.mark.parametrize("dtype", ODD_TYPES)
def test_where_nothing_is_ever_kept_any_type_may_be_trained(
    pairs: tuple[SlotPair, SlotPair], dtype: torch.dtype
) -> None:
    job_state(pairs, Wish()).adopt({"model": model(dtype)})
