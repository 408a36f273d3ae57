"""What the API server's audit says Everstep has written, in the words of a drill."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from everstep_cli.drill.audit import cluster_writes

AT = datetime(2026, 1, 1, tzinfo=UTC)
JOB = "/apis/batch.volcano.sh/v1alpha1/namespaces/training/jobs/drill"
POD = "/api/v1/namespaces/training/pods/drill-worker-3"
NODE = "/api/v1/nodes/node-3"
OURS = {"key": "everstep.dev/quarantined", "value": "i", "effect": "NoSchedule"}
THEIRS = {"key": "maintenance", "effect": "NoSchedule"}


def entry(method: str, path: str, body: Any = None, **changes: Any) -> dict[str, Any]:
    said = {
        "user_agent": "everstep-rescaler/1",
        "method": method,
        "path": path,
        "body": body,
        "status": 200,
        "at": AT.isoformat(),
    }
    return said | changes


@pytest.mark.parametrize(
    ("method", "path", "body", "verbs"),
    [
        ("DELETE", POD, {"preconditions": {"uid": "u"}}, {"delete_pod"}),
        ("DELETE", POD, {"gracePeriodSeconds": 0}, {"force_delete_pod"}),
        ("POST", f"{POD}/eviction", {"kind": "Eviction"}, {"evict"}),
        ("PATCH", NODE, {"spec": {"taints": [THEIRS, OURS]}}, {"taint"}),
        ("PATCH", NODE, {"spec": {"taints": [OURS], "unschedulable": True}}, {"taint", "cordon"}),
        ("PATCH", NODE, {"spec": {"taints": [THEIRS], "unschedulable": None}}, {"release"}),
        ("PATCH", NODE, {"spec": {"taints": None}}, {"release"}),
        (
            "PATCH",
            NODE,
            [
                {"op": "test", "path": "/spec/taints", "value": [THEIRS]},
                {"op": "add", "path": "/spec/taints", "value": [THEIRS, OURS]},
                {"op": "add", "path": "/spec/unschedulable", "value": True},
            ],
            {"taint", "cordon"},
        ),
        ("PATCH", JOB, {"spec": {"minAvailable": 5}}, {f"PATCH {JOB}"}),
        ("POST", f"{POD}/binding", {}, {f"POST {POD}/binding"}),
    ],
)
def test_a_write_has_its_verbs_and_what_is_not_known_its_own_words(
    method: str, path: str, body: Any, verbs: set[str]
) -> None:
    (write,) = cluster_writes([entry(method, path, body)], AT)
    assert write.verbs == verbs


def test_a_note_of_a_generation_has_its_number() -> None:
    metadata = {"uid": "u", "annotations": {"everstep.dev/generation": "7"}}
    (write,) = cluster_writes([entry("PATCH", JOB, {"metadata": metadata})], AT)
    assert write.verbs == {"annotate"}
    assert write.detail == "7"


def test_others_writes_refused_ones_earlier_ones_and_events_are_no_writes_of_ours() -> None:
    audit = [
        entry("DELETE", POD, user_agent="kubectl/v1.36"),
        entry("DELETE", POD, status=409),
        entry("DELETE", POD, at=(AT - timedelta(seconds=1)).isoformat()),
        entry("POST", "/api/v1/namespaces/training/events", {}),
        entry("PATCH", "/api/v1/namespaces/training/events/e.1", {}),
    ]
    assert cluster_writes(audit, AT) == ()
