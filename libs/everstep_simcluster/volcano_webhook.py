"""Volcano's admission webhook for Jobs: the defaults it fills in and the changes it refuses."""

from typing import Any

from everstep_simcluster.api_errors import ApiError
from everstep_simcluster.resources import QUEUES, Object
from everstep_simcluster.store import Ref, Store

DEFAULT_MAX_RETRY = 3
"""Retries the webhook gives a Job, and each task, that names none."""

_EVENTS = (
    "* TaskCompleted JobUpdated PodFailed PodEvicted PodPending Unknown TaskFailed"  # as it says it
)
_ACTIONS = (
    "AbortJob RestartPartition TerminateJob CompleteJob ResumeJob RestartJob RestartTask RestartPod"
)
_FIXED = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` "
    "and `PriorityClassName`"
)


def admit_job(body: Object, store: Store) -> Object:
    """A new Job with what the mutating webhook fills in, checked as the validating one does.

    Raises:
        ApiError: 400 without a reason, as the webhook's refusals are.
    """
    given = body.get("spec") or {}
    if not given.get("tasks"):
        raise _denied("No task specified in job spec")
    tasks = [_complete_task(index, task) for index, task in enumerate(given.get("tasks") or ())]
    spec = {
        "maxRetry": DEFAULT_MAX_RETRY,
        "queue": "default",
        "schedulerName": "volcano",
        **given,
        "tasks": tasks,
    }
    spec.setdefault("minAvailable", sum(task["minAvailable"] for task in tasks))
    if store.get(QUEUES, Ref("", spec["queue"])) is None:
        raise _denied(
            f'unable to find job queue: queue.scheduling.volcano.sh "{spec["queue"]}" not found;'
        )
    for policies in (spec.get("policies") or (), *(task.get("policies") or () for task in tasks)):
        _check_policies(policies)
    _check_counts(spec)
    return {**body, "spec": spec}


def admit_job_update(old: Object, new: Object) -> None:
    """Check a changed Job.

    Raises:
        ApiError: 400 when something else than the counts or the priority class changes.
    """
    if _fixed_part(old["spec"]) != _fixed_part(new["spec"]):
        raise _denied(_FIXED)
    _check_counts(new["spec"])


def _complete_task(index: int, task: Object) -> Object:
    completed = {"name": f"default{index}", "maxRetry": DEFAULT_MAX_RETRY, "replicas": 1, **task}
    completed.setdefault("minAvailable", completed["replicas"])
    template = {"metadata": {}, **(completed.get("template") or {})}
    if not (template.get("spec") or {}).get("containers"):
        raise _denied(f"spec.task[{index}].template.spec.containers: Required value")
    return {**completed, "template": template}


def _check_counts(spec: Object) -> None:
    for task in spec["tasks"]:
        if task["minAvailable"] > task["replicas"]:
            raise _denied(f"'minAvailable' must be <= 'replicas' in task: {task['name']}")
    if spec["minAvailable"] > sum(task["replicas"] for task in spec["tasks"]):
        raise _denied("job 'minAvailable' must not be greater than total replicas")


def _check_policies(policies: Any) -> None:
    events = [
        event
        for policy in policies
        for event in (policy.get("events") or [policy.get("event")])
        if event is not None
    ]
    if "*" in events and len(policies) > 1:
        raise _denied(
            "1 error occurred:\n\t* if there's * here, no other policy should be here\n\n "
            f"valid events are [{_EVENTS}], valid actions are [{_ACTIONS}];"
        )


def _fixed_part(spec: Object) -> Object:
    changeable = {"minAvailable", "priorityClassName", "tasks"}
    fixed = {key: value for key, value in spec.items() if key not in changeable}
    fixed["tasks"] = [
        {key: value for key, value in task.items() if key not in ("replicas", "minAvailable")}
        for task in spec["tasks"]
    ]
    return fixed


def _denied(message: str) -> ApiError:
    return ApiError(
        400, f'admission webhook "xjobsvalidate.volcano.sh" denied the request: {message}'
    )
