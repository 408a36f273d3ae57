"""What the real server fills into a Pod that does not say it."""

from everstep_simcluster.resources import Object

_COMPUTE = frozenset({"cpu", "memory"})
_SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
_CONTAINER = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}


def complete_pod(body: Object) -> Object:
    """A new pod with its defaults; whatever status it came with is dropped."""
    spec = _SPEC | (body.get("spec") or {})
    spec["containers"] = [_complete_container(container) for container in spec["containers"]]
    status = {"phase": "Pending", "qosClass": _quality_class(spec["containers"])}
    return {**body, "spec": spec, "status": status}


def with_text_quantities(amounts: Object) -> Object:
    """Resource amounts as the server stores them: always text."""
    return {name: str(amount) for name, amount in amounts.items()}


def _complete_container(container: Object) -> Object:
    completed: Object = _CONTAINER | container
    amounts = {kind: with_text_quantities(some) for kind, some in completed["resources"].items()}
    if "limits" in amounts:
        amounts["requests"] = amounts["limits"] | amounts.get("requests", {})
    return {**completed, "resources": amounts}


def _quality_class(containers: list[Object]) -> str:
    """Only processor time and memory count; devices do not."""
    amounts = [
        {kind: {n: v for n, v in some.items() if n in _COMPUTE} for kind, some in named.items()}
        for named in (container["resources"] for container in containers)
    ]
    if not any(some.get("limits") or some.get("requests") for some in amounts):
        return "BestEffort"
    guaranteed = all(
        some.get("limits", {}).keys() == _COMPUTE and some["limits"] == some["requests"]
        for some in amounts
    )
    return "Guaranteed" if guaranteed else "Burstable"
