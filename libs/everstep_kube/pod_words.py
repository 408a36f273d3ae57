"""Why a pod ends or does not start: deletions, evictions, preemptions, container statuses.

An infrastructure that asks a pod to go is no failure (EC-54): so causes are told apart. A cause is
the strongest word that the pod's own object has; ``deleted`` alone says that somebody asked.
"""

from typing import Any, Final, Literal, NamedTuple

from everstep_contract.facts.job import PodCause

from everstep_kube.loose import Json, mapping, mappings, sentence, word

ASKED_TO_GO: Final[frozenset[PodCause]] = frozenset(
    {"deleted", "preempted", "evicted", "tainted", "shutdown"}
)
"""Somebody's plan, as long as the node was well when it was made."""

_DISRUPTIONS: Final[dict[str, PodCause]] = {
    "PreemptionByScheduler": "preempted",
    "EvictionByEvictionAPI": "evicted",
    "DeletionByTaintManager": "tainted",
    "DeletionByPodGC": "orphaned",
}
_REASONS: Final[dict[str, PodCause]] = {
    "Evicted": "pressure",
    "NodeLost": "node_lost",
    "Preempting": "preempted",
    "Shutdown": "shutdown",
    "NodeShutdown": "shutdown",
    "Terminated": "shutdown",
    "UnexpectedAdmissionError": "rejected",
    "NodeAffinity": "rejected",
    "NodeName": "rejected",
}
_VOLCANO_EVICTS: Final = "Evict"
LISTED: Final = 16
"""Containers of one pod that are told."""


class Container(NamedTuple):
    """A container that does not simply run: waiting, ended, or run again after an end."""

    name: str
    state: Literal["waiting", "running", "terminated"]
    reason: str
    message: str
    exit_code: int | None
    restarts: int


def cause_of(pod: Json) -> PodCause:
    """Why the pod ends; empty while nothing says so."""
    status = mapping(pod.get("status"))
    conditions = {word(one.get("type")): one for one in mappings(status.get("conditions"))}
    disruption = conditions.get("DisruptionTarget", {})
    if disruption.get("status") == "True":
        return _disrupted(word(disruption.get("reason")), status, word(disruption.get("message")))
    reason = word(status.get("reason"))
    if reason in _REASONS:
        return _REASONS[reason]
    if reason.startswith("OutOf"):
        return "rejected"
    ready = conditions.get("Ready", {})
    if ready.get("status") == "False" and ready.get("reason") == _VOLCANO_EVICTS:
        return "preempted"
    ended = status.get("phase") in ("Succeeded", "Failed")
    deleted = bool(mapping(pod.get("metadata")).get("deletionTimestamp"))
    return "deleted" if deleted and not ended else ""


def _disrupted(reason: str, status: Json, message: str) -> PodCause:
    if reason in _DISRUPTIONS:
        return _DISRUPTIONS[reason]
    said = _REASONS.get(word(status.get("reason")))  # TerminationByKubelet has several
    if said is not None:
        return said
    if "shutdown" in message:
        return "shutdown"
    return "preempted" if "reempt" in message else "pressure"


def containers_of(status: Json) -> tuple[Container, ...]:
    """What people need to see why a pod does not run; nothing of one that does."""
    found = (_container(one) for one in _statuses(status))
    told = [one for one in found if one.state != "running" or one.restarts or one.reason]
    return tuple(told[:LISTED])


def any_runs(status: Json) -> bool:
    """Whether the API has the word of a kubelet that some container runs."""
    return any(_container(one).state == "running" for one in _statuses(status))


def _statuses(status: Json) -> tuple[Json, ...]:
    """Of init containers those that matter, which are those that are not done."""
    initial = mappings(status.get("initContainerStatuses"))
    undone = (
        one
        for one in initial
        if mapping(mapping(one.get("state")).get("terminated")).get("exitCode") != 0
    )
    return (*undone, *mappings(status.get("containerStatuses")))


def _container(status: Json) -> Container:
    state, last = mapping(status.get("state")), mapping(status.get("lastState"))
    name, restarts = word(status.get("name")), _count(status.get("restartCount")) or 0
    ended = mapping(state.get("terminated"))
    if "running" in state:
        before = mapping(last.get("terminated"))
        return Container(name, "running", *_why(before), _count(before.get("exitCode")), restarts)
    if ended:
        code = _count(ended.get("exitCode"))
        return Container(name, "terminated", *_why(ended), code, restarts)
    waiting = mapping(state.get("waiting"))
    code = _count(mapping(last.get("terminated")).get("exitCode"))
    return Container(name, "waiting", *_why(waiting), code, restarts)


def _why(state: Json) -> tuple[str, str]:
    return word(state.get("reason")), sentence(state.get("message"))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**31 else None
