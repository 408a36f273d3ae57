"""What a worker keeps in memory, and that what is to be durable stays until its agent has it."""

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
