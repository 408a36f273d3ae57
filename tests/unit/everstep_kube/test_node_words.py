"""EC-53: node objects as they really are, and what their conditions and taints mean."""

from typing import Any

import pytest
from everstep_kube.node_words import conditions_of, machines_of, meaning_of, taint_meaning
from everstep_kube.objects import node_state

BROKEN_STATUSES: tuple[Any, ...] = (
    None,
    [],
    "gone",
    {"conditions": None},
    {"conditions": {"Ready": "True"}},
    {"conditions": [None, "Ready", 7, {}]},
    {"conditions": [{"type": "Ready"}, {"status": "True"}]},
    {"conditions": [{"type": None, "status": None}], "nodeInfo": None},
    {"nodeInfo": {"bootID": None}},
)


@pytest.mark.parametrize("status", BROKEN_STATUSES)
def test_ec53_a_broken_status_is_read_as_unknown(status: Any) -> None:
    state = node_state({"metadata": {"name": "n"}, "status": status})
    assert (state.ready, state.boot_id, state.conditions) == ("Unknown", "", ())


@pytest.mark.parametrize("spec", [None, {"taints": None}, {"taints": [None, 1]}, {"taints": {}}])
def test_ec53_a_broken_spec_has_no_taints_and_no_cordon(spec: Any) -> None:
    state = node_state({"metadata": {"name": "n", "annotations": None}, "spec": spec})
    assert (state.taints, state.unschedulable, state.quarantined_by) == ((), False, None)


def test_ec53_each_type_of_condition_has_its_own_bad_status() -> None:
    conditions = [
        {"type": "IBLinkFlapping", "status": "True"},
        {"type": "DiskPressure", "status": "Unknown", "reason": "NodeStatusUnknown"},
        {"type": "MemoryPressure", "status": "False"},
        {"type": "Ready", "status": "True"},
        {"type": "KernelDeadlock", "status": "True", "reason": "DockerHung"},
    ]
    found = [(one.type, one.meaning) for one in conditions_of(conditions)]
    assert found == [("IBLinkFlapping", "hardware"), ("KernelDeadlock", "system")]


def test_ec53_conditions_come_in_any_order_and_are_the_same() -> None:
    conditions = [{"type": name, "status": "True"} for name in ("B", "GPUMissing", "A")]
    assert conditions_of(conditions) == conditions_of(conditions[::-1])


def test_ec53_a_type_that_no_rule_names_is_told_and_not_judged() -> None:
    assert meaning_of("VendorDiskHappy") == "unjudged"
    assert meaning_of("GpuNvlinkWatch") == "hardware"
    assert meaning_of("SysLogsXIDError") == "hardware"


def test_ec53_a_healthy_node_keeps_nothing_but_its_identity() -> None:
    types = ("MemoryPressure", "DiskPressure", "PIDPressure", "KernelDeadlock", "GpuMemWatch")
    conditions = [{"type": name, "status": "False", "reason": "Fine"} for name in types]
    conditions.append({"type": "Ready", "status": "True", "reason": "KubeletReady"})
    state = node_state({"metadata": {"name": "n"}, "status": {"conditions": conditions}})
    assert (state.ready, state.ready_reason, state.conditions) == ("True", "", ())


def test_ec53_huge_texts_and_lists_are_cut() -> None:
    conditions = [
        {"type": f"Type{index}", "status": "True", "message": "x" * 100_000} for index in range(500)
    ]
    found = conditions_of(conditions)
    assert len(found) == 32
    assert max(len(one.message) for one in found) == 500


@pytest.mark.parametrize(
    ("taint", "meaning"),
    [
        ({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}, "proof"),
        ({"key": "everstep.dev/quarantined", "effect": "NoSchedule"}, "ours"),
        ({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}, "evidence"),
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, "evidence"),
        ({"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}, "evidence"),
        ({"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}, "planned"),
        ({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}, "planned"),
        ({"key": "maintenance", "effect": "NoExecute"}, "planned"),
        ({"key": "nvidia.com/gpu", "effect": "NoSchedule"}, "scheduling"),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, "scheduling"),
        ({"key": None}, "scheduling"),
    ],
)
def test_a_taint_is_proof_or_evidence_or_a_plan_or_no_concern_of_ours(
    taint: dict[str, Any], meaning: str
) -> None:
    assert taint_meaning(taint) == meaning


@pytest.mark.parametrize(
    ("board", "known"),
    [
        ("4C4C4544-0051-3510-8052-B6C04F423333", ("board:4c4c4544-0051-3510-8052-b6c04f423333",)),
        ("00000000-0000-0000-0000-000000000000", ()),
        ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", ()),
        ("03000200-0400-0500-0006-000700080009", ()),
        ("Not Settable", ()),
        ("", ()),
        (None, ()),
        (7, ()),
    ],
)
def test_ec22_a_machine_is_known_by_its_board_unless_the_board_has_no_id_of_its_own(
    board: object, known: tuple[str, ...]
) -> None:
    assert machines_of({}, {"systemUUID": board}) == known


def test_ec22_a_machine_is_known_by_its_providers_id() -> None:
    assert machines_of({"providerID": "aws:///a/i-1"}, {}) == ("provider:aws:///a/i-1",)
