"""Where a pod fits and why it does not."""

from collections import Counter

import pytest
from everstep_simcluster.resources import Object
from everstep_simcluster.scheduling_rules import (
    explain,
    free_devices,
    hindrance,
    needs_of,
    tolerates,
)

TAINT = {"key": "everstep.dev/quarantined", "value": "i-1", "effect": "NoSchedule"}
READY = {"type": "Ready", "status": "True"}


def node(**spec: object) -> Object:
    allocatable = {"cpu": "96", "pods": "110", "nvidia.com/gpu": "8"}
    status = {"allocatable": allocatable, "conditions": [READY]}
    return {
        "metadata": {"name": "node-0", "labels": {"rack": "r0"}},
        "spec": spec,
        "status": status,
    }


def pod(gpus: int = 8, *, phase: str = "Pending", **spec: object) -> Object:
    requests = {"nvidia.com/gpu": str(gpus), "cpu": "500m"}
    container = {"name": "c", "resources": {"requests": requests}}
    return {"spec": {"containers": [container], **spec}, "status": {"phase": phase}}


def test_only_countable_devices_are_counted() -> None:
    assert needs_of(pod(4)) == {"nvidia.com/gpu": 4}


@pytest.mark.parametrize(("phase", "free"), [("Running", 2), ("Failed", 8), ("Succeeded", 8)])
def test_a_bound_pod_holds_its_devices_until_it_has_ended(phase: str, free: int) -> None:
    bound = pod(6, phase=phase, nodeName="node-0")
    elsewhere = pod(6, phase="Running", nodeName="node-1")
    assert free_devices(node(), [bound, elsewhere])["nvidia.com/gpu"] == free


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, None),
        ({"unschedulable": True}, "node(s) were unschedulable"),
        ({"taints": [TAINT]}, "node(s) had untolerated taint(s)"),
        ({"taints": [{**TAINT, "effect": "PreferNoSchedule"}]}, None),
    ],
)
def test_cordons_and_taints_keep_pods_away(spec: Object, why: str | None) -> None:
    free = free_devices(node(**spec), [])
    assert hindrance(node(**spec), pod(), free) == why


def test_a_node_that_is_not_ready_takes_nothing() -> None:
    silent = node()
    silent["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    assert hindrance(silent, pod(), free_devices(silent, [])) == "node(s) were not ready"


def test_too_few_devices_are_named() -> None:
    assert hindrance(node(), pod(9), free_devices(node(), [])) == "Insufficient nvidia.com/gpu"


def test_a_node_selector_is_obeyed() -> None:
    picky = pod(nodeSelector={"rack": "r9"})
    assert "affinity/selector" in (hindrance(node(), picky, free_devices(node(), [])) or "")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "everstep.dev/quarantined", "operator": "Exists"}, True),
        ({"key": "everstep.dev/quarantined", "value": "i-1"}, True),
        ({"key": "everstep.dev/quarantined", "value": "i-2"}, False),
        ({"key": "everstep.dev/quarantined", "value": "i-1", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_covers_by_key_value_and_effect(toleration: Object, covered: bool) -> None:
    assert tolerates(pod(tolerations=[toleration]), TAINT) is covered


def test_the_sentence_is_the_schedulers() -> None:
    reasons = Counter({"Insufficient nvidia.com/gpu": 7, "node(s) were unschedulable": 1})
    assert explain(8, reasons) == (
        "0/8 nodes are unavailable: 1 node(s) were unschedulable, 7 Insufficient nvidia.com/gpu."
    )
