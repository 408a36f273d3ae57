"""Volcano's Job controller: pods by index, the PodGroup, policies, retries and Commands."""

from collections import Counter, deque

from everstep_simcluster.api_errors import ApiError
from everstep_simcluster.clock import timestamp
from everstep_simcluster.event_recorder import record_event
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.objects import Objects
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import COMMANDS, JOBS, POD_GROUPS, PODS, Object
from everstep_simcluster.store import Change, Ref, ref_of
from everstep_simcluster.volcano_rules import (
    FINAL,
    JOB_VERSION,
    KILLING,
    OUT_OF_SYNC,
    PodEvent,
    action_for,
    count_pods,
    min_available,
    next_phase,
    owner_reference,
    pod_counts,
    pod_for,
    pod_group_name,
    pod_name,
    tasks_of,
    transition_for,
)
from everstep_simcluster.work_queue import WorkQueue


class JobController:
    """Makes what the Jobs ask for. Hears the store and works when its queue runs."""

    def __init__(self, objects: Objects, *, delay_seconds: float = 0.0) -> None:
        self._objects = objects
        self._events: dict[Ref, deque[PodEvent]] = {}
        self.queue: WorkQueue[Ref] = WorkQueue(self._reconcile, pause_seconds=delay_seconds)
        objects.listen(self._hear)

    def _hear(self, change: Change) -> None:
        if change.resource is JOBS:
            if _wants_attention(change):
                self.queue.add(change.ref)
        elif change.resource is POD_GROUPS and (owner := _owner(change.object)):
            self.queue.add(Ref(change.ref.namespace, owner["name"]))
        elif change.resource is COMMANDS and change.type == "ADDED":
            self.queue.add(Ref(change.ref.namespace, change.object["target"]["name"]))
        elif change.resource is PODS and (owner := _owner(change.object)):
            ref = Ref(change.ref.namespace, owner["name"])
            event = _pod_event(change, owner["uid"])
            if event is not None:
                self._events.setdefault(ref, deque()).append(event)
            self.queue.add(ref)

    def _reconcile(self, ref: Ref) -> None:
        commands = self._take_commands(ref)
        job = self._objects.find(JOBS, ref)
        if job is None:
            self._events.pop(ref, None)
            return
        if not job.get("status"):
            job = self._enter(job, "Pending", count_pods([]))
        for event in self._events.pop(ref, ()):
            if event.job_uid != job["metadata"]["uid"]:
                continue  # of an earlier job of that name
            job = self._execute(job, action_for(job, event), event)
        for command in commands:
            action = command.get("action", "")
            message = (
                f"Start to execute command {action}, and clean it up to make sure executed not "
                "more than once."
            )
            record_event(self._objects, job, "CommandIssued", message)
            job = self._execute(job, action, None)
        self._sync(job)

    def _take_commands(self, ref: Ref) -> list[Object]:
        """Commands for this job by name, whatever uid they name; deleted before they run."""
        taken = [
            command
            for command in self._objects.every(COMMANDS, ref.namespace)
            if command["target"]["kind"] == "Job" and command["target"]["name"] == ref.name
        ]
        for command in taken:
            self._objects.delete(COMMANDS, ref_of(command), DeleteOptions())
        return taken

    def _execute(self, job: Object, action: str, event: PodEvent | None) -> Object:
        if not action:
            return job
        message = f"Start to execute action {action} "
        record_event(self._objects, job, "ExecuteAction", message)
        status = job["status"]
        transition = transition_for(status["state"]["phase"], action)
        if transition is None:
            return job
        if transition.new_version:
            status = {**status, "version": status.get("version", 0) + 1}
        if transition.spends_retry:
            status = {**status, "retryCount": status.get("retryCount", 0) + 1}
        if transition.kill == "job":
            self._delete_group(job)
        for pod in self._pods(job):
            if _is_target(pod, transition.kill, event):
                self._kill(pod)
        job = {**job, "status": status}
        return self._enter(job, transition.phase, count_pods(self._pods(job)))

    def _sync(self, job: Object) -> None:
        phase = job["status"]["state"]["phase"]
        if phase in FINAL or phase in KILLING:
            job = self._kill_all(job)
        elif self._group_admitted(job):
            self._fit_pods(job)
        counted = count_pods(self._pods(job))
        self._enter(job, next_phase(job, counted), counted)

    def _kill_all(self, job: Object) -> Object:
        """Delete what still runs; every look at a job that is to have no pods counts a version."""
        self._delete_group(job)
        for pod in self._pods(job):
            if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                self._kill(pod)
        version = job["status"].get("version", 0) + 1
        return {**job, "status": {**job["status"], "version": version}}

    def _group_admitted(self, job: Object) -> bool:
        """Make or correct the PodGroup; whether the scheduler lets the job have pods."""
        ref = Ref(job["metadata"]["namespace"], pod_group_name(job))
        group = self._objects.find(POD_GROUPS, ref)
        wanted = min_available(job)
        if group is None:
            spec = {"minMember": wanted, "queue": job["spec"].get("queue", "default")}
            if "priorityClassName" in job["spec"]:
                spec["priorityClassName"] = job["spec"]["priorityClassName"]
            metadata = {"name": ref.name, "ownerReferences": [owner_reference(job)]}
            body = {"metadata": metadata, "spec": spec}
            group = self._objects.create(POD_GROUPS, ref.namespace, body)
        elif group["spec"].get("minMember") != wanted:
            patch = Patch(MERGE_PATCH, {"spec": {"minMember": wanted}})
            group = self._objects.patch(POD_GROUPS, ref, patch)
        return bool((group.get("status") or {}).get("phase", "Pending") != "Pending")

    def _fit_pods(self, job: Object) -> None:
        """Make the pods whose name is free, delete those beyond the replicas.

        A pod that is still being deleted keeps its name: its successor has to wait.
        """
        namespace = job["metadata"]["namespace"]
        wanted = {
            pod_name(job["metadata"]["name"], task.get("name", ""), index): (task, index)
            for task in tasks_of(job)
            for index in range(task.get("replicas", 0))
        }
        for pod in self._pods(job):
            beyond = pod["metadata"]["name"] not in wanted
            if beyond and "deletionTimestamp" not in pod["metadata"]:
                # without the mark of _kill: to policies it is a pod that was evicted
                self._objects.delete(PODS, ref_of(pod), DeleteOptions())
        for name, (task, index) in wanted.items():
            if self._objects.find(PODS, Ref(namespace, name)) is None:
                self._make(job, pod_for(job, task, index))

    def _make(self, job: Object, pod: Object) -> None:
        try:
            self._objects.create(PODS, job["metadata"]["namespace"], pod)
        except ApiError as error:  # without the webhook a template may be no pod at all
            record_event(self._objects, job, "FailedCreate", str(error), kind="Warning")

    def _enter(self, job: Object, phase: str, pods: Counter[str]) -> Object:
        """Write the status that goes with ``phase`` and these pods."""
        before = job.get("status") or {}
        status = {
            "state": before.get("state", {}),
            "conditions": before.get("conditions", []),
            "minAvailable": min_available(job),
            **{key: before[key] for key in ("version", "retryCount") if key in before},
            **pod_counts(pods),
        }
        if status["state"].get("phase") != phase:
            now = timestamp()
            status["state"] = {"phase": phase, "lastTransitionTime": now}
            condition = {"status": phase, "lastTransitionTime": now}
            status["conditions"] = [*status["conditions"], condition]
        written = self._objects.set_status(JOBS, ref_of(job), status)
        return written or {**job, "status": status}

    def _pods(self, job: Object) -> list[Object]:
        uid = job["metadata"]["uid"]
        return [
            pod
            for pod in self._objects.every(PODS, job["metadata"]["namespace"])
            if any(o.get("uid") == uid for o in pod["metadata"].get("ownerReferences") or ())
        ]

    def _kill(self, pod: Object) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            return
        mark = Patch(MERGE_PATCH, {"metadata": {"annotations": {OUT_OF_SYNC: "true"}}})
        self._objects.patch(PODS, ref_of(pod), mark)
        self._objects.delete(PODS, ref_of(pod), DeleteOptions())

    def _delete_group(self, job: Object) -> None:
        ref = Ref(job["metadata"]["namespace"], pod_group_name(job))
        if self._objects.find(POD_GROUPS, ref) is not None:
            self._objects.delete(POD_GROUPS, ref, DeleteOptions())


def _wants_attention(change: Change) -> bool:
    """Of its own writes to a Job's counts the controller takes no notice."""
    if change.previous is None or change.type != "MODIFIED":
        return True
    return _asked_and_phase(change.previous) != _asked_and_phase(change.object)


def _asked_and_phase(job: Object) -> tuple[Object, str | None]:
    state = (job.get("status") or {}).get("state") or {}
    return job["spec"], state.get("phase")


def _owner(body: Object) -> Object | None:
    """What ``body`` says of the Volcano Job that made it, if one did."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if (owner.get("apiVersion"), owner.get("kind")) == (JOBS.api_version, JOBS.kind):
            return dict(owner)
    return None


def _pod_event(change: Change, job_uid: str) -> PodEvent | None:
    """What the policies call that change of a pod; None for nothing they know.

    Every deletion is a PodEvicted, except of pods that the controller itself deletes.
    """
    annotations = change.object["metadata"].get("annotations") or {}
    phase = change.object["status"].get("phase")
    if change.type == "DELETED" and OUT_OF_SYNC not in annotations:
        kind = "PodEvicted"
    elif (
        change.type == "MODIFIED"
        and phase == "Failed"
        and change.previous is not None
        and change.previous["status"].get("phase") != "Failed"
    ):
        kind = "PodFailed"
    else:
        return None
    return PodEvent(
        kind=kind,
        job_uid=job_uid,
        pod=change.ref.name,
        task=annotations.get("volcano.sh/task-spec", ""),
        exit_code=_exit_code(change.object),
        job_version=int(annotations.get(JOB_VERSION) or 0),
    )


def _exit_code(pod: Object) -> int | None:
    for status in pod["status"].get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated")
        if ended:
            return int(ended.get("exitCode", 0))
    return None


def _is_target(pod: Object, kill: str, event: PodEvent | None) -> bool:
    if kill == "job":
        return True
    if event is None:
        return False
    if kill == "task":
        return bool(pod["metadata"]["annotations"].get("volcano.sh/task-spec") == event.task)
    return kill == "pod" and event.kind != "PodEvicted" and pod["metadata"]["name"] == event.pod
