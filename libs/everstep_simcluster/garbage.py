"""The garbage collector: what belongs to an object that is gone goes as well."""

from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.objects import Objects
from everstep_simcluster.resources import NAMESPACES, RESOURCES, SERVICE_ACCOUNTS, Object
from everstep_simcluster.store import Change, Ref, ref_of
from everstep_simcluster.work_queue import WorkQueue


class GarbageCollector:
    """Deletes the dependents of deleted objects and the contents of deleted namespaces.

    It also gives every new namespace its default ServiceAccount.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.queue: WorkQueue[str] = WorkQueue(self._collect)
        self._gone: dict[str, Object] = {}
        objects.listen(self._hear)

    def _hear(self, change: Change) -> None:
        if change.type == "DELETED":
            uid = change.object["metadata"]["uid"]
            self._gone[uid] = change.object
            self.queue.add(uid)
        elif change.resource is NAMESPACES and change.type == "ADDED":
            self.queue.add(change.ref.name)

    def _collect(self, key: str) -> None:
        gone = self._gone.pop(key, None)
        if gone is None:
            self._complete_namespace(key)
            return
        namespace = gone["metadata"]["name"] if gone["kind"] == NAMESPACES.kind else None
        for resource in RESOURCES:
            if not resource.namespaced:
                continue
            for body in self._objects.every(resource):
                inside = body["metadata"]["namespace"] == namespace
                if inside or _belongs_to(body, key):
                    self._objects.delete(resource, ref_of(body), DeleteOptions())

    def _complete_namespace(self, name: str) -> None:
        ref = Ref(name, "default")
        missing = self._objects.find(SERVICE_ACCOUNTS, ref) is None
        if missing and self._objects.find(NAMESPACES, Ref("", name)) is not None:
            self._objects.create(SERVICE_ACCOUNTS, name, {"metadata": {"name": "default"}})


def _belongs_to(body: Object, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in body["metadata"].get("ownerReferences") or ())
