"""What Everstep has written to the cluster, from the API server's own audit; pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from everstep_kube.node_words import QUARANTINE_TAINT
from everstep_kube.objects import GENERATION_ANNOTATION

OURS: Final = "everstep-"
"""What the user agents of Everstep's services begin with."""
EVICTION: Final = "/eviction"
EVENTS: Final = "/events"
"""Kubernetes Events are told, and change nothing."""


@dataclass(frozen=True)
class ClusterWrite:
    """One write that the API server took. ``verbs`` are those of `ClusterVerb`, or its own words.

    ``detail``: the generation that was noted, empty for other writes.
    """

    at: datetime
    verbs: frozenset[str]
    target: str
    detail: str = ""


def cluster_writes(audit: Iterable[Mapping[str, Any]], since: datetime) -> tuple[ClusterWrite, ...]:
    """Everstep's writes since an instant, as they were taken, oldest first."""
    taken = (_write(entry) for entry in audit if _is_ours(entry))
    return tuple(write for write in taken if write.at >= since)


def _is_ours(entry: Mapping[str, Any]) -> bool:
    path = str(entry["path"]).partition("?")[0]
    ours = str(entry["user_agent"]).startswith(OURS) and entry["status"] < 300
    return ours and not path.endswith(EVENTS) and f"{EVENTS}/" not in path


def _write(entry: Mapping[str, Any]) -> ClusterWrite:
    path = str(entry["path"]).partition("?")[0]
    *_, kind, target = path.removesuffix(EVICTION).rsplit("/", 2)
    at, changes = datetime.fromisoformat(entry["at"]), _changes(entry["body"])
    note = str(changes.get(f"metadata/annotations/{GENERATION_ANNOTATION}", ""))
    return ClusterWrite(at, _verbs(entry["method"], kind, path, changes), target, note)


def _verbs(method: str, kind: str, path: str, changes: Mapping[str, Any]) -> frozenset[str]:
    match method, kind:
        case "DELETE", "pods":
            forced = changes.get("gracePeriodSeconds") == 0
            return frozenset({"force_delete_pod" if forced else "delete_pod"})
        case "PATCH", "jobs" if _only_notes(changes):
            return frozenset({"annotate"})
        case "POST", "pods" if path.endswith(EVICTION):
            return frozenset({"evict"})
        case "PATCH", "nodes":
            return _node_verbs(changes)
        case _:
            return frozenset({f"{method} {path}"})


def _only_notes(changes: Mapping[str, Any]) -> bool:
    note = f"metadata/annotations/{GENERATION_ANNOTATION}"
    return note in changes and changes.keys() <= {note, "metadata/uid", "metadata/resourceVersion"}


def _node_verbs(changes: Mapping[str, Any]) -> frozenset[str]:
    """A release takes our taint away; whether it uncordons too is told from the node itself."""
    taints = [taint.get("key") for taint in changes.get("spec/taints") or ()]
    if QUARANTINE_TAINT not in taints:
        return frozenset({"release"})
    cordons = changes.get("spec/unschedulable") is True
    return frozenset({"taint", "cordon"} if cordons else {"taint"})


def _changes(body: Any) -> dict[str, Any]:
    """The values a body sets, by path; of a merge patch's objects and of a JSON patch alike."""
    if isinstance(body, list):
        operations = (one for one in body if one.get("op") != "test")
        return {_unescaped(one["path"]): one.get("value") for one in operations}
    if not isinstance(body, dict):
        return {}
    found: dict[str, Any] = {}
    for key, value in body.items():
        if isinstance(value, dict):
            found |= {f"{key}/{inner}": one for inner, one in _changes(value).items()}
        else:
            found[key] = value
    return found


def _unescaped(pointer: str) -> str:
    return pointer.removeprefix("/").replace("~1", "/").replace("~0", "~")
