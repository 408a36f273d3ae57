"""Random states: taken, put back, written down."""

import random

import torch
from everstep_trainer.library.rng import capture_rng, from_json, restore_rng, to_json


def test_random_numbers_go_on_as_they_would_have() -> None:
    state = capture_rng()
    expected = (torch.randn(3), random.random())
    torch.randn(5)
    restore_rng(state)
    assert torch.equal(torch.randn(3), expected[0])
    assert random.random() == expected[1]


def test_random_states_may_lie_anywhere_in_a_larger_tensor() -> None:
    state = capture_rng()
    larger = torch.zeros(10_000, dtype=torch.uint8)
    larger[16 : 16 + 5056] = state["torch"]
    state["torch"] = larger[16 : 16 + 5056]
    expected = torch.randn(3)
    restore_rng(state)
    assert torch.equal(torch.randn(3), expected)


def test_ec55_random_states_come_back_from_text_to_the_bit() -> None:
    import numpy as np

    random.gauss(0, 1)  # leaves half a pair behind
    np.random.standard_normal()
    text = to_json(capture_rng())
    expected = (torch.randn(3), random.gauss(0, 1), np.random.standard_normal())
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    restore_rng(from_json(text))
    assert torch.equal(torch.randn(3), expected[0])
    assert (random.gauss(0, 1), np.random.standard_normal()) == expected[1:]
