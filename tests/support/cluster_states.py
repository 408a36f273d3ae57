"""States of made-up pods, nodes and Jobs, as `everstep_kube` reads them."""

from typing import Any

from everstep_contract.identity import Member
from everstep_kube.objects import JobState, NodeState, PodState
from support.jobs import GANG, JOB, JOB_UID


def pod(of: Member, **changes: Any) -> PodState:
    """The pod that a member lives in, Running."""
    fields: dict[str, Any] = {
        "job": JOB,
        "job_uid": JOB_UID,
        "name": of.name,
        "uid": of.pod_uid,
        "node": of.node,
        "phase": "Running",
        "terminating": False,
        "terminated": False,
        "reason": "",
        "resource_version": "1",
    }
    return PodState(**{**fields, **changes})


def node(name: str, **changes: Any) -> NodeState:
    """A node, Ready and free."""
    fields: dict[str, Any] = {
        "name": name,
        "ready": "True",
        "boot_id": "boot-1",
        "unschedulable": False,
        "taints": (),
        "quarantined_by": None,
        "cordoned_by": None,
        "resource_version": "1",
    }
    return NodeState(**{**fields, **changes})


def job(**changes: Any) -> JobState:
    """The Volcano Job, not annotated yet."""
    fields: dict[str, Any] = {
        "job": JOB,
        "uid": JOB_UID,
        "gang": GANG,
        "generation": 0,
        "restarts_on_deletion": "",
        "resource_version": "1",
    }
    return JobState(**{**fields, **changes})
