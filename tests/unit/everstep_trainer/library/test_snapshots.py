"""What a worker keeps in memory, and that what is to be durable stays until its agent has it."""

from functools import partial

import pytest
import torch
from everstep_checkpoint.slots import SlotPair
from everstep_trainer.library.agreement import Version
from everstep_trainer.library.copying import CpuCopier
from everstep_trainer.library.snapshots import Snapshots
from everstep_trainer.library.transfer import Place
from everstep_trainer.library.tree import Packed, pack

CPU = torch.device("cpu")


def packed() -> Packed:
    return pack({"weight": torch.ones(4)}, "state")


@pytest.mark.parametrize(("rank", "states"), [(0, [2, 1]), (1, [2])])
def test_a_snapshot_that_is_due_is_not_written_over_where_it_is_to_be_read(
    rank: int, states: list[int]
) -> None:
    state, own = SlotPair.create("state"), SlotPair.create("rank")
    snapshots, place = Snapshots(state, own, CpuCopier()), Place(rank, 2, 0, CPU)
    snapshots.take(Version(1, 1), place, packed, "{}")
    snapshots.hold(Version(1, 1), place)
    snapshots.take(Version(1, 2), place, packed, "{}")
    assert not snapshots.take(Version(1, 3), place, packed, "{}")
    state.begin()
    assert [word.step for _, word in own.ready()] == [2, 1]
    assert [word.step for _, word in state.ready()] == states
    state.close()
    own.close()


def test_what_a_rank_has_for_itself_stays_as_long_as_the_state_that_it_belongs_to() -> None:
    """While a state is slowly written, the other one is all that can be gone back to."""
    state, own = SlotPair.create("state"), SlotPair.create("rank")
    snapshots, place = Snapshots(state, own, CpuCopier()), Place(0, 1, 0, CPU)
    snapshots.take(Version(1, 1), place, packed, '"of step 1"')
    state.hold(0, until_ns=2**62)
    for step in range(2, 7):
        kept = snapshots.take(Version(1, step), place, packed, f'"of step {step}"')
        assert kept == (step == 2)
        assert snapshots.newest() == Version(1, 2)
        assert snapshots.read_own(Version(1, 2), place) == '"of step 2"'
    state.hold(0, until_ns=0)
    assert snapshots.take(Version(1, 7), place, packed, '"of step 7"')
    assert snapshots.read_own(snapshots.newest(), place) == '"of step 7"'
    state.close()
    own.close()


def test_a_state_whose_text_grows_and_grows_is_seldom_given_new_memory() -> None:
    """New memory holds no snapshot, and whoever was reading the old one is left with nothing."""
    state, own = SlotPair.create("state"), SlotPair.create("rank")
    snapshots, place = Snapshots(state, own, CpuCopier()), Place(0, 1, 0, CPU)
    sizes = set()
    for step in range(1, 101):
        grown = pack({"log": "x" * 4096 * step}, "state")
        snapshots.take(Version(1, step), place, partial(Packed, grown.text, {}), "{}")
        sizes.add(state.slot_bytes)
    assert len(sizes) < 10
    state.close()
    own.close()
