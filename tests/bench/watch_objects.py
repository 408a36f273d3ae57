"""Nodes, pods and a Job as large clusters have them: a node is 16 kB, most of it the same."""

import json
from dataclasses import dataclass
from typing import Any, Final

from support.messages import JOB

NAMESPACE: Final = JOB.namespace
JOB_NAME: Final = JOB.name
JOB_UID: Final = "0b7a5a3f-7a64-4c1e-9a53-0e7b0a5a3f10"
Json = dict[str, Any]
_HEARTBEAT: Final = "2026-11-29T14:16:43Z"
_IMAGES: Final = 40
_LABELS: Final = 35
_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_WATCHES: Final = (
    *("KernelDeadlock", "ReadonlyFilesystem", "CorruptDockerOverlay2", "FrequentKubeletRestart"),
    *("GpuInforomWatch", "GpuMemWatch", "GpuNvlinkWatch", "GpuPcieWatch", "GpuPowerWatch"),
    *("GpuThermalWatch", "SysLogsXIDError", "SysLogsSXIDError", "IBLinkFlapping"),
)


def node_name(index: int) -> str:
    """The name of a node."""
    return f"gpu-{index // 64:04}-{index % 64:02}.cluster.example"


def pod_name(index: int) -> str:
    """The name of a pod of the job."""
    return f"{JOB_NAME}-worker-{index}"


def uid(kind: int, index: int) -> str:
    """A uid, as long as real ones."""
    return f"{kind:08x}-7a64-4c1e-9a53-{index:012x}"


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": "@HEARTBEAT@",
        "lastTransitionTime": _HEARTBEAT,
        "reason": reason,
        "message": message,
    }


def _node_status() -> Json:
    good = [
        _condition(kind, "False", f"{kind}IsFine", f"kubelet has no {kind} of any sort to tell of")
        for kind in (*_PRESSURES, *_WATCHES)
    ]
    amounts = {"cpu": "192", "memory": "2113507936Ki", "pods": "110", "nvidia.com/gpu": "8"}
    images = [
        {
            "names": [
                f"registry.example/team-{image}/image-{image}@sha256:{image:064x}",
                f"registry.example/team-{image}/image-{image}:v1.{image}.0",
            ],
            "sizeBytes": 1_000_000_007 + image,
        }
        for image in range(_IMAGES)
    ]
    return {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [
            *good,
            _condition("Ready", "@READY@", "@REASON@", "@REASON@ says the kubelet"),
        ],
        "addresses": [
            {"type": "InternalIP", "address": "@ADDRESS@"},
            {"type": "Hostname", "address": "@NAME@"},
        ],
        "nodeInfo": {
            **dict.fromkeys(("machineID", "systemUUID", "bootID"), "@UID@"),
            "kernelVersion": "6.8.0-1021-gcp",
            "osImage": "Ubuntu 24.04.1 LTS",
            "containerRuntimeVersion": "containerd://2.1.4",
            "kubeletVersion": "v1.36.2",
            "architecture": "amd64",
        },
        "images": images,
    }


def _node_template() -> bytes:
    labels = {f"topology.example/label-{number}": f"value-{number}" for number in range(_LABELS)}
    fields: Json = {f"f:label-{number}": {"f:value": {}} for number in range(60)}
    document = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": "@NAME@",
            "uid": "@UID@",
            "resourceVersion": "@VERSION@",
            "labels": {**labels, "kubernetes.io/hostname": "@NAME@"},
            "annotations": {f"node.example/note-{number}": "x" * 60 for number in range(12)},
            "managedFields": [{"manager": "kubelet", "fieldsV1": fields}],
        },
        "spec": {"podCIDR": "@ADDRESS@/24", "providerID": "example://@NAME@"},
        "status": _node_status(),
    }
    return _template(document)


def _pod_template() -> bytes:
    variables = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(40)]
    running = {"running": {"startedAt": _HEARTBEAT}}
    document = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "@NAME@",
            "namespace": NAMESPACE,
            "uid": "@UID@",
            "resourceVersion": "@VERSION@",
            "labels": {"volcano.sh/job-name": JOB_NAME, "volcano.sh/task-spec": "worker"},
            "ownerReferences": [{"kind": "Job", "name": JOB_NAME, "uid": JOB_UID}],
        },
        "spec": {"nodeName": "@NODE@", "containers": [{"name": "train", "env": variables}]},
        "status": {
            "phase": "Running",
            "conditions": [_condition("Ready", "True", "", "")],
            "containerStatuses": [
                {"name": "train", "ready": True, "restartCount": 0, "state": running}
            ],
        },
    }
    return _template(document)


def _template(document: Json) -> bytes:
    """JSON in which ``@NAME@`` is a place to fill in."""
    text = json.dumps(document, separators=(",", ":")).replace("%", "%%")
    for place in ("NAME", "UID", "VERSION", "HEARTBEAT", "READY", "REASON", "ADDRESS", "NODE"):
        text = text.replace(f"@{place}@", f"%({place})b")
    return text.encode()


_NODE: Final = _node_template()
_POD: Final = _pod_template()


@dataclass(slots=True)
class Node:
    """A node of the made-up cluster."""

    index: int
    version: int
    ready: bool = True

    def document(self) -> bytes:
        """Its JSON as of now."""
        high, low = divmod(self.index, 250)
        return _NODE % {
            b"NAME": node_name(self.index).encode(),
            b"UID": uid(1, self.index).encode(),
            b"VERSION": b"%d" % self.version,
            b"HEARTBEAT": b"2026-11-29T%02d:%02d:%02dZ" % _clock(self.version),
            b"READY": b"True" if self.ready else b"False",
            b"REASON": b"KubeletReady" if self.ready else b"KubeletNotReady",
            b"ADDRESS": b"10.%d.%d.%d" % (high // 250, high % 250, low + 1),
        }


@dataclass(slots=True)
class Pod:
    """A pod of the job, on the node of the same index."""

    index: int
    version: int

    def document(self) -> bytes:
        """Its JSON as of now."""
        return _POD % {
            b"NAME": pod_name(self.index).encode(),
            b"UID": uid(2, self.index).encode(),
            b"VERSION": b"%d" % self.version,
            b"HEARTBEAT": b"2026-11-29T%02d:%02d:%02dZ" % _clock(self.version),
            b"NODE": node_name(self.index).encode(),
        }


def job_document(version: int, pods: int = 8) -> bytes:
    """The Volcano Job."""
    document = {
        "metadata": {
            "name": JOB_NAME,
            "namespace": NAMESPACE,
            "uid": JOB_UID,
            "resourceVersion": str(version),
        },
        "spec": {"minAvailable": 1, "tasks": [{"name": "worker", "replicas": pods}]},
        "status": {"state": {"phase": "Running"}, "running": pods},
    }
    return json.dumps(document).encode()


def _clock(number: int) -> tuple[int, int, int]:
    return number // 3600 % 24, number // 60 % 60, number % 60
