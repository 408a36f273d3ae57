"""What admission plugins of the real server put into a new Pod: its priority and tolerations."""

from everstep_simcluster.api_errors import ApiError, named_details
from everstep_simcluster.resources import PODS, PRIORITY_CLASSES, Object
from everstep_simcluster.store import Ref, Store

DEFAULT_TOLERATION_SECONDS = 300
"""How long a pod stays on a node that is not ready or unreachable, unless it says otherwise."""


def admit_pod(store: Store, body: Object, toleration_seconds: int) -> Object:
    """A new pod with the number of its priority class and the default tolerations.

    Raises:
        ApiError: 403 for a class that is not there or a number that is not that of its class.
    """
    spec = dict(body["spec"])
    spec["priority"] = _priority(store, body)
    spec["tolerations"] = _with_defaults(spec.get("tolerations") or [], toleration_seconds)
    return {**body, "spec": spec}


def _priority(store: Store, body: Object) -> int:
    spec = body["spec"]
    name = spec.get("priorityClassName", "")
    known = store.get(PRIORITY_CLASSES, Ref("", name)) if name else None
    if name and known is None:
        raise _forbidden(body, f"no PriorityClass with name {name} was found")
    value = int(known["value"]) if known else 0
    if spec.get("priority") not in (None, value):
        why = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec"
        raise _forbidden(body, f"{why}; priority admission controller computed {value} from the "
                               "given PriorityClass name")  # fmt: skip
    return value


def _forbidden(body: Object, why: str) -> ApiError:
    name = body["metadata"]["name"]
    return ApiError(
        403,
        f'pods "{name}" is forbidden: {why}',
        reason="Forbidden",
        details=named_details(PODS, name),
    )


def _with_defaults(given: list[Object], seconds: int) -> list[Object]:
    tolerated = {toleration.get("key") for toleration in given}
    added = [
        {
            "key": f"node.kubernetes.io/{trouble}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": seconds,
        }
        for trouble in ("not-ready", "unreachable")
        if f"node.kubernetes.io/{trouble}" not in tolerated and None not in tolerated
    ]
    return [*given, *added]
