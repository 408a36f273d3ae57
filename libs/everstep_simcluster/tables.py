"""Objects as the tables that ``kubectl get`` asks for."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from everstep_simcluster.clock import parse_timestamp
from everstep_simcluster.objects import condition_of
from everstep_simcluster.resources import NODES, PODS, Column, Object, Resource, value_at

_NAME = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def as_table(resource: Resource, bodies: list[Object], metadata: Object) -> Object:
    """A meta.k8s.io/v1 Table of ``bodies``; each row carries its object's metadata."""
    titles, cells = _LAYOUTS.get(resource, (None, None))
    if titles is None or cells is None:
        columns = [(column.name, column.type) for column in resource.columns]
        rows = [[_cell(column, body) for column in resource.columns] for body in bodies]
    else:
        columns, rows = titles, [cells(body) for body in bodies]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_NAME, *(_definition(name, kind) for name, kind in columns)],
        "rows": [
            {"cells": [body["metadata"]["name"], *row], "object": _partial(body)}
            for body, row in zip(bodies, rows, strict=True)
        ],
    }


def _definition(name: str, kind: str) -> Object:
    wide_only = name.startswith("+")
    return {
        "name": name.removeprefix("+"),
        "type": "string" if kind == "date" else kind,
        "format": "",
        "description": "",
        "priority": 1 if wide_only else 0,
    }


def _partial(body: Object) -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": body["metadata"],
    }


def _cell(column: Column, body: Object) -> Any:
    value = value_at(body, column.path)
    if column.type == "date":
        return _age(value)
    return value if value is not None or column.type != "string" else ""


def _age(moment: str | None) -> str:
    if not moment:
        return "<unknown>"
    seconds = int((datetime.now(UTC) - parse_timestamp(moment)).total_seconds())
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 2 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    return f"{seconds // _DAY}d"


def _node_cells(node: Object) -> list[Any]:
    ready = condition_of(node, "Ready")
    state = "Ready" if ready and ready["status"] == "True" else "NotReady"
    if node["spec"].get("unschedulable"):
        state += ",SchedulingDisabled"
    taints = ",".join(f"{t['key']}:{t['effect']}" for t in node["spec"].get("taints") or ())
    addresses = {a["type"]: a["address"] for a in node["status"].get("addresses") or ()}
    return [
        state,
        "<none>",
        _age(node["metadata"]["creationTimestamp"]),
        node["status"]["nodeInfo"].get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        node["status"].get("allocatable", {}).get("nvidia.com/gpu", "0"),
        taints or "<none>",
    ]


def _pod_cells(pod: Object) -> list[Any]:
    statuses = pod["status"].get("containerStatuses") or []
    ready = sum(bool(status.get("ready")) for status in statuses)
    return [
        f"{ready}/{len(pod['spec']['containers'])}",
        _pod_state(pod, statuses),
        sum(status.get("restartCount", 0) for status in statuses),
        _age(pod["metadata"]["creationTimestamp"]),
        pod["status"].get("podIP") or "<none>",
        pod["spec"].get("nodeName") or "<none>",
    ]


def _pod_state(pod: Object, statuses: list[Object]) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for status in statuses:
        ended = (status.get("state") or {}).get("terminated")
        if ended:
            return str(ended.get("reason") or f"ExitCode:{ended.get('exitCode')}")
    return str(pod["status"].get("phase", "Unknown"))


_Layout = tuple[list[tuple[str, str]], Callable[[Object], list[Any]]]
_LAYOUTS: dict[Resource, _Layout] = {
    NODES: (
        [("Status", "string"), ("Roles", "string"), ("Age", "date"), ("Version", "string"),
         ("+Internal-IP", "string"), ("+GPUs", "string"), ("+Taints", "string")],
        _node_cells,
    ),
    PODS: (
        [("Ready", "string"), ("Status", "string"), ("Restarts", "integer"), ("Age", "date"),
         ("+IP", "string"), ("+Node", "string")],
        _pod_cells,
    ),
}  # fmt: skip
