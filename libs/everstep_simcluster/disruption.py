"""Disruption budgets: how many pods may be evicted, and evictions that obey it."""

import math
from typing import Any

from everstep_simcluster.api_errors import ApiError
from everstep_simcluster.clock import timestamp
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.objects import Objects, condition_of, with_condition
from everstep_simcluster.resources import BUDGETS, PODS, Object
from everstep_simcluster.selectors import matches_label_selector
from everstep_simcluster.store import Change, Ref, ref_of
from everstep_simcluster.work_queue import WorkQueue

_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
_UNPROCESSED_RETRY_SECONDS = 10


def evict(objects: Objects, ref: Ref, options: DeleteOptions) -> None:
    """Delete a pod if every budget that covers it allows one disruption more.

    Raises:
        ApiError: 404, or 429 with the budget's reason; Retry-After only for a budget that has
            not been processed yet.
    """
    pod = objects.get(PODS, ref)
    for budget in () if _nobody_misses(pod) else _budgets_over(objects, pod):
        _spend(objects, budget, pod, dry_run=options.dry_run)
    if options.dry_run:
        return
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    objects.set_status(PODS, ref, with_condition(pod, target)["status"])
    objects.delete(PODS, ref, options)


class BudgetController:
    """Keeps the status of every budget in step with the pods it covers."""

    def __init__(self, objects: Objects, *, delay_seconds: float = 0.0) -> None:
        self._objects = objects
        self.queue: WorkQueue[Ref] = WorkQueue(self._reconcile, pause_seconds=delay_seconds)
        objects.listen(self._hear)

    def _hear(self, change: Change) -> None:
        if change.resource is BUDGETS and change.type != "DELETED":
            self.queue.add(change.ref)
        elif change.resource is PODS:
            for budget in _budgets_over(self._objects, change.object):
                self.queue.add(ref_of(budget))

    def _reconcile(self, ref: Ref) -> None:
        budget = self._objects.find(BUDGETS, ref)
        if budget is None:
            return
        pods = [pod for pod in self._objects.every(PODS, ref.namespace) if _covers(budget, pod)]
        healthy = sum(_is_healthy(pod) for pod in pods)
        desired = _desired_healthy(budget["spec"], len(pods))
        allowed = max(healthy - desired, 0)
        status: Object = {
            "observedGeneration": budget["metadata"]["generation"],
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": len(pods),
            "conditions": [_allowed_condition(budget, allowed)],
        }
        self._objects.set_status(BUDGETS, ref, status)


def _budgets_over(objects: Objects, pod: Object) -> list[Object]:
    budgets = objects.every(BUDGETS, pod["metadata"]["namespace"])
    return [budget for budget in budgets if _covers(budget, pod)]


def _covers(budget: Object, pod: Object) -> bool:
    selector = budget["spec"].get("selector") or {}
    return matches_label_selector(selector, pod["metadata"].get("labels") or {})


def _nobody_misses(pod: Object) -> bool:
    """No budget speaks of a pod that does not run."""
    return pod["status"].get("phase") != "Running" or "deletionTimestamp" in pod["metadata"]


def _is_healthy(pod: Object) -> bool:
    ready = condition_of(pod, "Ready")
    return (
        ready is not None
        and ready["status"] == "True"
        and "deletionTimestamp" not in pod["metadata"]
    )


def _desired_healthy(spec: Object, expected: int) -> int:
    if "maxUnavailable" in spec:
        return max(expected - _amount(spec["maxUnavailable"], expected), 0)
    return _amount(spec.get("minAvailable", 1), expected)


def _amount(value: Any, total: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(total * int(value[:-1]) / 100)
    return int(value)


def _allowed_condition(budget: Object, allowed: int) -> Object:
    status = "True" if allowed else "False"
    before = condition_of(budget, "DisruptionAllowed")
    since = before["lastTransitionTime"] if before and before["status"] == status else timestamp()
    return {
        "type": "DisruptionAllowed",
        "status": status,
        "observedGeneration": budget["metadata"]["generation"],
        "lastTransitionTime": since,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
    }


def _spend(objects: Objects, budget: Object, pod: Object, *, dry_run: bool) -> None:
    name, status = budget["metadata"]["name"], budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
        raise _too_many(
            f"The disruption budget {name} is still being processed by the server.",
            retry_after_seconds=_UNPROCESSED_RETRY_SECONDS,
        )
    if status["disruptionsAllowed"] < 1:
        healthy, desired = status["currentHealthy"], status["desiredHealthy"]
        if healthy > desired:
            raise _too_many(f"The disruption budget {name} does not allow evicting pods currently")
        raise _too_many(
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    if dry_run:
        return
    disrupted = (status.get("disruptedPods") or {}) | {pod["metadata"]["name"]: timestamp()}
    allowed = status["disruptionsAllowed"] - 1
    spent = {**status, "disruptedPods": disrupted, "disruptionsAllowed": allowed,
             "conditions": [_allowed_condition(budget, allowed)]}  # fmt: skip
    objects.set_status(BUDGETS, ref_of(budget), spent)


def _too_many(message: str, *, retry_after_seconds: int | None = None) -> ApiError:
    causes = [{"reason": "DisruptionBudget", "message": message}]
    return ApiError(
        429,
        _REFUSED,
        reason="TooManyRequests",
        details={"causes": causes},
        retry_after_seconds=retry_after_seconds,
    )
