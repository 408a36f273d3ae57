"""What a worker keeps in memory, and that what is to be durable stays until its agent has it."""

from functools import partial

import pytest
import torch
from everstep_checkpoint.errors import NoRoomError
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


def of_elements(count: int) -> Packed:
    """A state of so many; they take memory for one only."""
    return pack({"weight": torch.full((1,), float(count)).expand(count)}, "state")


def test_a_state_that_needs_more_room_leaves_the_snapshot_before_it_whole() -> None:
    state, own = SlotPair.create("state"), SlotPair.create("rank")
    snapshots, place = Snapshots(state, own, CpuCopier()), Place(0, 1, 0, CPU)
    sizes = {1: 10, 2: 20, 3: 100_000, 4: 100_001, 5: 10_000_000}
    for step, count in sizes.items():
        assert snapshots.take(Version(1, step), place, partial(of_elements, count), f'"{step}"')
        for version in [Version(1, step), Version(1, max(1, step - 1))]:
            packed = snapshots.read_state(version)
            assert packed is not None
            assert packed.equals(of_elements(sizes[version.step]))
            assert snapshots.read_own(version, place) == f'"{version.step}"'
    state.close()
    own.close()


def test_a_state_that_needs_more_room_waits_for_who_reads_the_one_before_last() -> None:
    state, own = SlotPair.create("state"), SlotPair.create("rank")
    snapshots, place = Snapshots(state, own, CpuCopier()), Place(0, 1, 0, CPU)
    for step in (1, 2):
        snapshots.take(Version(1, step), place, partial(of_elements, step), "{}")
    snapshots.hold(Version(1, 1), place)
    assert not snapshots.take(Version(1, 3), place, partial(of_elements, 10_000), "{}")
    assert [word.step for _, word in state.ready()] == [2, 1]
    assert [word.step for _, word in own.ready()] == [2, 1]
    state.close()
    own.close()


def test_a_state_that_there_is_no_room_for_costs_no_snapshot_that_there_is() -> None:
    state, own = SlotPair.create("state"), SlotPair.create("rank")
    snapshots, place = Snapshots(state, own, CpuCopier()), Place(0, 1, 0, CPU)
    for step in (1, 2):
        snapshots.take(Version(1, step), place, partial(of_elements, step), "{}")
    with pytest.raises(NoRoomError):
        snapshots.take(Version(1, 3), place, partial(of_elements, 1 << 50), "{}")
    assert [word.step for _, word in state.ready()] == [2, 1]
    assert snapshots.newest() == Version(1, 2)
    assert snapshots.read_own(Version(1, 2), place) == "{}"
    assert snapshots.take(Version(1, 4), place, partial(of_elements, 4), "{}")
    state.close()
    own.close()


class Pinning(CpuCopier):
    """Knows what is pinned."""

    def __init__(self) -> None:
        self.pinned = set[int]()

    def prepare(self, memory: torch.Tensor) -> None:
        assert memory.data_ptr() not in self.pinned
        self.pinned.add(memory.data_ptr())

    def release(self, memory: torch.Tensor) -> None:
        self.pinned.remove(memory.data_ptr())


def test_no_memory_stays_pinned_but_that_of_two_slots_a_shard() -> None:
    state, own, copier = SlotPair.create("state"), SlotPair.create("rank"), Pinning()
    snapshots, place = Snapshots(state, own, copier), Place(0, 1, 0, CPU)
    for step in range(1, 5):
        snapshots.take(Version(1, step), place, partial(of_elements, 10_000 * step), "{}")
        assert len(copier.pinned) == 4
    state.close()
    own.close()


def test_a_state_whose_text_grows_and_grows_is_seldom_given_new_memory() -> None:
    """To lay out and map memory takes longer than to copy into it."""
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
