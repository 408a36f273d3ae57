"""Random states of torch."""

import torch
from everstep_trainer.library.rng import capture_rng, restore_rng


def test_a_state_that_begins_anywhere_in_memory_is_restored() -> None:
    states = capture_rng()
    wanted = torch.rand(3)
    size = states["torch"].numel()
    received = torch.empty(size + 16, dtype=torch.uint8)[16:]
    restore_rng(states | {"torch": received.copy_(states["torch"])})
    assert torch.equal(torch.rand(3), wanted)
