"""Volcano's rules for a Job, pure: which action an event calls for, which phase comes next.

They follow what the real controller-manager was seen to do, its traps included: a Failed pod stays
until somebody deletes it, and every restart of a pod spends one of the whole job's retries.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from everstep_simcluster.resources import Object

OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"
"""Annotation the controller puts on a pod before it deletes it: no policy applies then."""

JOB_VERSION = "volcano.sh/job-version"
GROUP_NAME = "scheduling.k8s.io/group-name"

KILLING = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}
"""Phases that wait for the pods to go, and what they turn into then."""

FINAL = frozenset({"Failed", "Completed", "Terminated", "Aborted"})

_RESTARTS = ("RestartJob", "RestartTask", "RestartPod", "RestartPartition")
_KILLS = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}
_COUNTED = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


@dataclass(frozen=True)
class PodEvent:
    """Something happened to a pod of a job; ``kind`` is a word of Volcano's policies."""

    kind: str
    job_uid: str
    pod: str
    task: str
    exit_code: int | None
    job_version: int


@dataclass(frozen=True)
class Transition:
    """What an action does to a job.

    ``kill`` says whose pods are deleted: everybody's, one task's, one pod's or nobody's.
    """

    phase: str
    kill: str = ""
    spends_retry: bool = False
    new_version: bool = False


def action_for(job: Object, event: PodEvent) -> str:
    """The action that the job's policies name for ``event``; empty where they name none.

    The task's own policies come first. An event of a pod from before the last restart is stale
    and calls for nothing.
    """
    if event.job_version < (job.get("status") or {}).get("version", 0):
        return ""
    tasks = [task for task in tasks_of(job) if task.get("name", "") == event.task]
    for owner in (*tasks, job["spec"]):
        for policy in owner.get("policies") or ():
            if _policy_fits(policy, event):
                return str(policy.get("action", ""))
    return ""


def _policy_fits(policy: Object, event: PodEvent) -> bool:
    if "exitCode" in policy:
        return event.exit_code is not None and policy["exitCode"] == event.exit_code
    named = policy.get("events") or [policy.get("event")]
    return "*" in named or event.kind in named


def transition_for(phase: str, action: str) -> Transition | None:
    """What ``action`` does to a job in ``phase``; None for nothing.

    Failed, Completed and Terminated are for ever; an aborted job can only be resumed.
    """
    if phase in ("Aborted", "Aborting"):
        resumed = action == "ResumeJob"
        return Transition("Restarting", spends_retry=True) if resumed else None
    if phase in FINAL or phase in KILLING:
        return None
    if action in _KILLS:
        return Transition(_KILLS[action], kill="job", new_version=True)
    if action == "RestartJob":
        return Transition("Restarting", kill="job", spends_retry=True, new_version=True)
    if action in _RESTARTS:
        target = "task" if action == "RestartTask" else "pod"
        return Transition("Restarting", kill=target, spends_retry=True)
    return None


def tasks_of(job: Object) -> list[Object]:
    """The tasks of a job."""
    return job["spec"].get("tasks") or []


def min_available(job: Object) -> int:
    """How many members the gang needs; none where nobody said."""
    return int(job["spec"].get("minAvailable", 0))


def count_pods(pods: Iterable[Object]) -> Counter[str]:
    """Pods by what Volcano counts them as; one that is being deleted is only ``Terminating``."""
    counted: Counter[str] = Counter()
    for pod in pods:
        phase = pod["status"].get("phase", "Pending")
        leaving = "deletionTimestamp" in pod["metadata"]
        counted["Terminating" if leaving else phase if phase in _COUNTED else "Unknown"] += 1
    return counted


def next_phase(job: Object, pods: Counter[str]) -> str:
    """The phase that follows from the pods there are, where no action has a say."""
    status, spec = job["status"], job["spec"]
    phase: str = status["state"]["phase"]
    total = sum(task.get("replicas", 0) for task in tasks_of(job))
    needed = min_available(job)
    started = pods["Running"] + pods["Succeeded"] + pods["Failed"]
    if phase == "Restarting":
        if status.get("retryCount", 0) >= spec.get("maxRetry", 0):
            return "Failed"
        enough = total - pods["Terminating"] >= needed
        return "Pending" if enough else phase
    if phase == "Pending":
        return "Running" if started >= needed else phase
    if phase == "Running":
        ended = pods["Succeeded"] + pods["Failed"]
        if total and ended == total:
            return "Completed" if pods["Succeeded"] >= needed else "Failed"
        return phase if started >= needed else "Pending"
    if phase in KILLING:
        alive = pods["Pending"] + pods["Running"] + pods["Terminating"]
        return phase if alive else KILLING[phase]
    return phase


def pod_counts(pods: Counter[str]) -> Object:
    """The counts as a Job's status has them: zeros are left out."""
    return {name.lower(): pods[name] for name in (*_COUNTED, "Terminating") if pods[name]}


def pod_name(job: str, task: str, index: int) -> str:
    """The name of a task's pod; a replacement gets it again."""
    return f"{job}-{task}-{index}"


def pod_for(job: Object, task: Object, index: int) -> Object:
    """The pod that the controller makes for one index of a task."""
    metadata, status = job["metadata"], job.get("status") or {}
    template, group = task.get("template") or {}, pod_group_name(job)
    marks = {
        "volcano.sh/job-name": metadata["name"],
        "volcano.sh/job-namespace": metadata["namespace"],
        "volcano.sh/queue-name": job["spec"].get("queue", "default"),
        "volcano.sh/task-spec": task.get("name", ""),
        "volcano.sh/task-index": str(index),
    }
    given = template.get("metadata") or {}
    annotations = {
        **(given.get("annotations") or {}),
        **{name: value for name, value in marks.items() if name != "volcano.sh/job-namespace"},
        GROUP_NAME: group,
        JOB_VERSION: str(status.get("version", 0)),
        "volcano.sh/job-retry-count": str(status.get("retryCount", 0)),
    }
    return {
        "metadata": {
            "name": pod_name(metadata["name"], task.get("name", ""), index),
            "labels": {**(given.get("labels") or {}), **marks},
            "annotations": annotations,
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {"schedulerName": "volcano", **(template.get("spec") or {})},
    }


def pod_group_name(job: Object) -> str:
    """The PodGroup of a job has the job's name and uid."""
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def owner_reference(job: Object) -> Object:
    """What makes an object go when the job goes."""
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
