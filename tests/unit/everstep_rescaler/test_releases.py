"""When a quarantine ends (R25), when it is the machine's (EC-22), and when a node is well."""

from dataclasses import replace
from typing import Any

import pytest
from everstep_contract.record import NodeRecord
from everstep_rescaler.cluster_decide import decide_release, is_well
from everstep_rescaler.cluster_model import Release, Renew
from everstep_rescaler.cluster_policy import ClusterPolicy
from support.cluster_states import node
from support.jobs import NOW, member

POLICY = ClusterPolicy(act=True)
GONE = member(7)
QUARANTINED = NodeRecord(
    node=GONE.node, boot_id="boot-1", quarantined_by="i-1", cause="silence",
    cordoned_by_us=True, tainted_by_us=True, at=NOW,
)  # fmt: skip
HELD = node(GONE.node, quarantined_by="i-1", unschedulable=True, cordoned_by="i-1")


def release(known: NodeRecord, of: Any, seconds: float = 0.0) -> str:
    found = decide_release(known, of, well_seconds=seconds, policy=POLICY)
    return found.reason if isinstance(found, Release) else ""


def test_r25_a_quarantine_by_silence_ends_when_the_node_has_been_well() -> None:
    assert release(QUARANTINED, HELD, POLICY.well_seconds - 1) == ""
    assert "well" in release(QUARANTINED, HELD, POLICY.well_seconds)


@pytest.mark.parametrize("cause", ["hardware", "repetition", "operator", "maintenance"])
def test_r25_other_quarantines_end_by_a_persons_hand_only(cause: str) -> None:
    known = QUARANTINED.model_copy(update={"cause": cause})
    assert release(known, HELD, 9999.0) == ""
    assert "by hand" in release(known, replace(HELD, quarantined_by=None))


def test_ec34_a_manual_uncordon_ends_the_quarantine() -> None:
    assert "by hand" in release(QUARANTINED, replace(HELD, unschedulable=False))


def test_a_cordon_that_was_there_before_does_not_count_as_ours() -> None:
    known = QUARANTINED.model_copy(update={"cordoned_by_us": False})
    assert release(known, replace(HELD, unschedulable=False, cordoned_by=None)) == ""


def test_a_quarantine_by_silence_ends_with_its_node() -> None:
    assert "deleted" in release(QUARANTINED.model_copy(update={"machines": ("board:1",)}), None)


@pytest.mark.parametrize("cause", ["hardware", "repetition", "operator", "maintenance"])
def test_ec22_other_quarantines_are_the_machines_and_outlive_its_node(cause: str) -> None:
    told = {"cause": cause, "machines": ("board:1",), "node_uid": "old"}
    known = QUARANTINED.model_copy(update=told)
    anew = node(GONE.node, uid="new", machines=("provider:2", "board:1"))
    assert decide_release(known, None, well_seconds=0.0, policy=POLICY) is None
    assert decide_release(known, anew, well_seconds=0.0, policy=POLICY) == Renew(GONE.node, "new")
    assert "another machine" in release(known, replace(anew, machines=("board:2",)))


def test_a_machine_without_ids_is_not_recognised_and_its_quarantine_ends_with_the_node() -> None:
    known = QUARANTINED.model_copy(update={"cause": "hardware", "node_uid": "old"})
    assert "deleted" in release(known, None)
    assert "made anew" in release(known, node(GONE.node, uid="new"))


def test_a_node_is_well_when_ready_and_either_rebooted_or_heard() -> None:
    assert is_well(QUARANTINED, HELD, heard=True)
    assert is_well(QUARANTINED, replace(HELD, boot_id="boot-2"), heard=False)
    assert not is_well(QUARANTINED, HELD, heard=False)
    assert not is_well(QUARANTINED, replace(HELD, ready="Unknown"), heard=True)
    assert not is_well(QUARANTINED, None, heard=True)
