"""The verbs of the API on the store: create, update, patch, delete, with every rule they obey.

HTTP requests and the controllers in this process come through here alike, so a controller can do
nothing that a real one could not.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from everstep_simcluster import admission
from everstep_simcluster.api_errors import (
    already_exists,
    conflict,
    invalid,
    not_found,
)
from everstep_simcluster.clock import timestamp
from everstep_simcluster.metadata import (
    DeleteOptions,
    asks_for_something_else,
    check_preconditions,
    grace_seconds,
    marked_for_deletion,
    new_metadata,
    settled,
)
from everstep_simcluster.patch import Patch, apply_patch
from everstep_simcluster.pod_admission import DEFAULT_TOLERATION_SECONDS, admit_pod
from everstep_simcluster.resources import JOBS, NAMESPACES, PODS, Object, Resource
from everstep_simcluster.selectors import Selection
from everstep_simcluster.store import Change, Ref, Store, ref_of
from everstep_simcluster.volcano_webhook import admit_job, admit_job_update


@dataclass(frozen=True)
class WriteOptions:
    """How an update is meant: of which part, and whether it is only to be tried."""

    subresource: str = ""
    dry_run: bool = False


WHOLE_OBJECT = WriteOptions()


class Objects:
    """Reads and writes of one cluster's objects.

    Args:
        store: Where they are kept.
        volcano_webhook: Whether Volcano's admission webhook is installed: it fills in a Job's
            defaults and refuses most changes of one.
        toleration_seconds: How long pods that say nothing tolerate a node in trouble.
    """

    def __init__(
        self,
        store: Store,
        *,
        volcano_webhook: bool = True,
        toleration_seconds: int = DEFAULT_TOLERATION_SECONDS,
    ) -> None:
        self.store = store
        self._volcano_webhook = volcano_webhook
        self._toleration_seconds = toleration_seconds

    def get(self, resource: Resource, ref: Ref) -> Object:
        """The object, not to be changed in place.

        Raises:
            ApiError: 404.
        """
        found = self.store.get(resource, ref)
        if found is None:
            raise not_found(resource, ref.name)
        return found

    def find(self, resource: Resource, ref: Ref) -> Object | None:
        """The object, or None."""
        return self.store.get(resource, ref)

    def every(self, resource: Resource, namespace: str = "") -> list[Object]:
        """Objects by namespace and name; the empty namespace means all."""
        return self.store.every(resource, namespace)

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Hear of every change from now on; returns how to stop."""
        return self.store.listen(listener)

    def create(
        self, resource: Resource, namespace: str, body: Object, *, dry_run: bool = False
    ) -> Object:
        """Add an object.

        Raises:
            ApiError: The namespace is absent, the name taken, the object against a rule.
        """
        if namespace and self.store.get(NAMESPACES, Ref("", namespace)) is None:
            raise not_found(NAMESPACES, namespace)
        body = deepcopy(body)
        metadata = new_metadata(resource, namespace, body)
        body |= {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if resource.counts_generations:
            metadata["generation"] = 1
        if resource.custom and resource.has_status:
            body.pop("status", None)
        body = admission.admit(resource, body)
        if resource is PODS:
            body = admit_pod(self.store, body, self._toleration_seconds)
        if resource is JOBS and self._volcano_webhook:
            body = admit_job(body, self.store)
        if self.store.get(resource, ref_of(body)) is not None:
            raise already_exists(resource, metadata["name"])
        return body if dry_run else self.store.insert(resource, body)

    def update(
        self, resource: Resource, ref: Ref, body: Object, options: WriteOptions = WHOLE_OBJECT
    ) -> Object:
        """Put ``body`` in place of what is there.

        Raises:
            ApiError: 404, 409 Conflict for a stale resourceVersion, 422 where one is needed.
        """
        old = self.get(resource, ref)
        version = (body.get("metadata") or {}).get("resourceVersion")
        if not version and resource.versioned_updates:
            message = 'Invalid value: "": must be specified for an update'
            cause = ("FieldValueInvalid", "metadata.resourceVersion", message)
            raise invalid(resource, ref.name, [cause])
        return self._commit(resource, old, deepcopy(body), options)

    def patch(
        self, resource: Resource, ref: Ref, patch: Patch, options: WriteOptions = WHOLE_OBJECT
    ) -> Object:
        """Change what is there; conditional only if the patch itself names a resourceVersion.

        Raises:
            ApiError: 404, 409, 415, 422 as the real server has them.
        """
        old = self.get(resource, ref)
        new = apply_patch(resource, old, patch)
        return self._commit(resource, old, new, options)

    def delete(self, resource: Resource, ref: Ref, options: DeleteOptions) -> Object:
        """Begin or finish a deletion; returns the object in its newest (or last) state.

        A bound pod stays, marked, until its kubelet deletes it with a grace of 0.

        Raises:
            ApiError: 404, or 409 Conflict for a precondition that does not hold.
        """
        old = self.get(resource, ref)
        check_preconditions(resource, old, options)
        grace = grace_seconds(resource, old, options)
        if grace == 0:
            return self._remove(resource, old, dry_run=options.dry_run)
        remaining = old["metadata"].get("deletionGracePeriodSeconds")
        if options.dry_run or (remaining is not None and grace >= remaining):
            return old
        return self.store.replace(resource, marked_for_deletion(old, grace))

    def delete_matching(
        self, resource: Resource, namespace: str, selection: Selection, options: DeleteOptions
    ) -> list[Object]:
        """Delete every selected object; returns them as they were."""
        found = [body for body in self.every(resource, namespace) if selection.matches(body)]
        for body in found:
            self.delete(resource, ref_of(body), options)
        return found

    def bind(self, ref: Ref, node: str, *, dry_run: bool = False) -> None:
        """Give a pod its node.

        Raises:
            ApiError: 404, or 409 Conflict when it has one or is being deleted.
        """
        pod = self.get(PODS, ref)
        taken = pod["spec"].get("nodeName")
        if taken:
            why = f'pod {ref.name} is already assigned to node "{taken}"'
            raise conflict(PODS, ref.name, why, kind="pods/binding")
        if "deletionTimestamp" in pod["metadata"]:
            why = f"pod {ref.name} is being deleted, cannot be assigned to a host"
            raise conflict(PODS, ref.name, why, kind="pods/binding")
        condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None,
                     "lastTransitionTime": timestamp()}  # fmt: skip
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        if not dry_run:
            self.store.replace(PODS, with_condition(bound, condition))

    def set_status(self, resource: Resource, ref: Ref, status: Object) -> Object | None:
        """Replace the status of an object that may have gone meanwhile (then None).

        For controllers in this process; works for kinds without a status path as well.
        """
        old = self.find(resource, ref)
        if old is None:
            return None
        new = {**old, "status": status}
        return old if new == old else self.store.replace(resource, new)

    def _commit(
        self, resource: Resource, old: Object, new: Object, options: WriteOptions
    ) -> Object:
        new = settled(resource, old, new, options.subresource)
        admission.admit_update(resource, old, new)
        if resource is JOBS and self._volcano_webhook and not options.subresource:
            admit_job_update(old, new)
        if new == old:
            return old
        if resource.counts_generations and asks_for_something_else(resource, old, new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        return new if options.dry_run else self.store.replace(resource, new)

    def _remove(self, resource: Resource, old: Object, *, dry_run: bool) -> Object:
        if dry_run:
            return old
        if resource is PODS:
            # the last grace period is written down first, as a change of its own
            old = self.store.replace(resource, marked_for_deletion(old, 0))
        return self.store.remove(resource, ref_of(old))


def with_condition(body: Object, condition: Object) -> Object:
    """A copy of ``body`` with that status condition in place of the one of the same type."""
    status = body.get("status") or {}
    others = [c for c in status.get("conditions") or () if c["type"] != condition["type"]]
    return {**body, "status": {**status, "conditions": [*others, condition]}}


def condition_of(body: Object, kind: str) -> Object | None:
    """The status condition of that type, if there is one."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), None)
