"""Whatever an object holds, it can be told of, or it is passed over: it never ends the watcher."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from everstep_contract.envelope import encode
from everstep_kube.loose import UNREADABLE_ERRORS
from everstep_kube.objects import job_state, node_state, pod_state
from everstep_node_watcher.cluster_facts import fact
from everstep_runtime.clock import Moment, SystemClock

NOW = Moment.of(SystemClock())
POD = {
    "metadata": {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "deletionTimestamp": "soon",
        "deletionGracePeriodSeconds": 30,
        "labels": {"volcano.sh/job-name": "j"},
        "ownerReferences": [{"kind": "Job", "uid": "o", "name": "j"}],
    },
    "spec": {"nodeName": "x"},
    "status": {
        "phase": "Running",
        "reason": "r",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "r"}],
        "containerStatuses": [{"name": "c", "restartCount": 1, "state": {"waiting": {}}}],
    },
}
NODE = {
    "metadata": {"name": "x", "uid": "u", "resourceVersion": "1", "annotations": {}},
    "spec": {"taints": [{"key": "k", "effect": "NoExecute"}], "providerID": "p"},
    "status": {
        "conditions": [{"type": "Ready", "status": "False", "reason": "r"}],
        "nodeInfo": {"bootID": "b", "systemUUID": "s"},
    },
}
JOB = {
    "metadata": {"name": "j", "namespace": "n", "uid": "u", "annotations": {}},
    "spec": {"minAvailable": 3, "policies": [], "tasks": [{"replicas": 3, "policies": []}]},
}
ODD: tuple[Any, ...] = (
    *(None, -1, 10**30, 1.5, float("inf"), True, "", "x" * 300_000, "\ud800", "\x00\n\x1b[2J"),
    *([], [None], [[1]], {}, {"a": None}, "9" * 5000, [{"kind": "Job", "uid": 5, "name": 7}]),
    [{"key": "k" * 2000, "value": "v" * 9999, "effect": "NoExecute"}] * 500,
    [{"type": f"GpuX{index}", "status": "True", "message": "m" * 9999} for index in range(99)],
)
FACT_BYTES = 200_000


def places(found: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field and element, however deep."""
    inner: Any = ()
    if isinstance(found, dict | list):
        inner = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in inner:
        yield (*above, key)
        yield from places(value, (*above, key))


@pytest.mark.parametrize(("good", "read"), [(POD, pod_state), (NODE, node_state), (JOB, job_state)])
def test_any_value_anywhere_is_told_within_bounds_or_passed_over(
    good: dict[str, Any], read: Callable[[dict[str, Any]], Any]
) -> None:
    told = 0
    for *way, last in places(good):
        for odd in ODD:
            found = inner = json.loads(json.dumps(good))
            for key in way:
                inner = inner[key]
            inner[last] = odd
            try:
                state = read(found)
            except UNREADABLE_ERRORS:
                continue
            for deleted in (False, True) if state else ():
                _, body = encode(fact(state, NOW, deleted=deleted, planned=False), source="/x")
                assert len(body) < FACT_BYTES
                told += 1
    assert told > 100
