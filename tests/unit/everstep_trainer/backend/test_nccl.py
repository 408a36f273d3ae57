"""Which errors leave a device usable, and that nothing is aborted where there is no NCCL."""

import os

import pytest
from everstep_trainer.backend import nccl


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: an illegal memory access was encountered",
        "CUDA error: device-side assert triggered",
        "CUDA error: unspecified launch failure",
        "CUDA error: uncorrectable ECC error encountered",
        "CUDA error: the launch timed out and was terminated",
    ],
)
def test_a_sticky_error_needs_another_process(text: str) -> None:
    assert nccl.next_rung(RuntimeError(text)) == "restart_worker"


@pytest.mark.parametrize(
    "text",
    ["NCCL communicator was aborted on rank 3.", "CUDA error: out of memory", "loss is nan"],
)
def test_any_other_error_leaves_the_process_able_to_form_again(text: str) -> None:
    assert nccl.next_rung(RuntimeError(text)) == "reform"


def test_a_sticky_error_is_found_behind_the_one_that_it_caused() -> None:
    outer = RuntimeError("NCCL communicator was aborted on rank 3.")
    outer.__cause__ = RuntimeError("CUDA error: misaligned address")
    assert nccl.next_rung(outer) == "restart_worker"


def test_aborting_does_nothing_where_there_is_no_group() -> None:
    assert nccl.abort_groups() == 0


def test_torchs_watchdog_is_kept_from_ending_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3")
    nccl.prepare_environment()
    assert os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "0"
