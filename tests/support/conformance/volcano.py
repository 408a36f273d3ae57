"""Volcano Jobs on the fake nodes, and ways to see what became of them."""

from typing import Any

from support.conformance.api import Api, Json, eventually
from support.conformance.fake_nodes import GPU, GPUS, MARK
from support.conformance.ground import Ground

JOBS_API = "batch.volcano.sh/v1alpha1"
POD_GROUPS_API = "scheduling.volcano.sh/v1beta1"
COMMANDS_API = "bus.volcano.sh/v1alpha1"

STARTED_SECONDS = 120.0
"""A real scheduler goes round once a second, beside whatever else it has to do."""


def job_manifest(
    name: str, run: str, *, replicas: int = 3, min_available: int = 2, **spec: Any
) -> Json:
    """A job of one task ``worker``; every pod takes a whole fake node of that run."""
    container = {
        "name": "main",
        "image": "registry.invalid/main:1",
        "resources": {"limits": {GPU: str(GPUS)}},
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "nodeSelector": {MARK: run},
        "tolerations": [{"key": MARK, "operator": "Exists"}],
        "containers": [container],
    }
    task = {
        "name": "worker",
        "replicas": replicas,
        "minAvailable": min_available,
        "template": {"spec": pod},
    }
    return {
        "apiVersion": JOBS_API,
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano",
            "queue": "default",
            "maxRetry": 3,
            "minAvailable": min_available,
            "tasks": [task],
            **spec,
        },
    }


class VolcanoJob:
    """One job of the suite. It is deleted, and its pods forced, when its test is through."""

    def __init__(self, ground: Ground, name: str = "train", **job: Any) -> None:
        self._ground = ground
        self.api: Api = ground.api
        self.name = name
        self.path = f"{ground.path('jobs', JOBS_API)}/{name}"
        self._groups = ground.path("podgroups", POD_GROUPS_API)
        self._commands = ground.path("commands", COMMANDS_API)
        body = job_manifest(name, ground.run, **job)
        made = self.api.post(ground.path("jobs", JOBS_API), body).expect(201)
        self.uid: str = made["metadata"]["uid"]
        self.replicas: int = made["spec"]["tasks"][0]["replicas"]

    def close(self) -> None:
        """Delete the job and wait until nothing of it is left."""
        self.api.delete(self.path, propagationPolicy="Background").expect(200, 404)

        def gone() -> bool:  # by hand, where no garbage collector runs
            for name in self.pods():
                self._ground.force_delete(name)
            for group in self.groups():
                self.api.delete(f"{self._groups}/{group['metadata']['name']}")
            return self.api.get(self.path).status == 404 and not self.pods() and not self.groups()

        eventually(gone, f"{self.name} is gone")

    def body(self) -> Json:
        """The Job object."""
        return self.api.get(self.path).expect(200)

    def status(self) -> Json:
        """Its status; empty before it has one."""
        status: Json = self.body().get("status") or {}
        return status

    def phase(self) -> str:
        """Its phase; empty before it has one."""
        return str(self.status().get("state", {}).get("phase", ""))

    def pods(self) -> dict[str, Json]:
        """Its pods by name."""
        items = self.api.get(self._ground.pods).expect(200)["items"]
        return {
            pod["metadata"]["name"]: pod
            for pod in items
            if any(o["uid"] == self.uid for o in pod["metadata"].get("ownerReferences") or ())
        }

    def uids(self) -> dict[str, str]:
        """The uids of its pods by name."""
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def node_of(self, index: int) -> str:
        """Where a pod of the job was bound."""
        return str(self.pods()[self.pod(index)]["spec"]["nodeName"])

    def pod(self, index: int) -> str:
        """The name of one."""
        return f"{self.name}-worker-{index}"

    def groups(self) -> list[Json]:
        """Its PodGroups: one, or none for a moment."""
        items = self.api.get(self._groups).expect(200)["items"]
        return [group for group in items if group["metadata"]["name"] == f"{self.name}-{self.uid}"]

    def group(self) -> Json:
        """Its PodGroup."""
        (group,) = self.groups()
        return group

    def group_phase(self) -> str:
        """Of its PodGroup; empty while there is none."""
        return str(next((g.get("status", {}).get("phase", "") for g in self.groups()), ""))

    def counts(self) -> Json:
        """How many of its pods its status says are what."""
        words = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
        status = self.status()
        return {word: status[word] for word in words if status.get(word)}

    def wait_running(self, count: int | None = None) -> None:
        """Wait until so many pods run (all of them) and the job says so."""
        wanted = {"running": self.replicas if count is None else count}
        eventually(
            lambda: self.phase() == "Running" and self.counts() == wanted,
            f"{wanted} of {self.name}",
            within_seconds=STARTED_SECONDS,
        )

    def wait_phase(self, phase: str) -> None:
        """Wait until the job says so."""
        eventually(lambda: self.phase() == phase, f"{self.name} is {phase}")

    def delete_pod(self, index: int, grace_seconds: int | None = None) -> None:
        """Delete one, with its own grace unless another is given."""
        grace = {} if grace_seconds is None else {"gracePeriodSeconds": str(grace_seconds)}
        self.api.delete(f"{self._ground.pods}/{self.pod(index)}", **grace).expect(200)

    def command(self, action: str, *, uid: str | None = None, name: str | None = None) -> str:
        """Create a Command for the job; the path of the Command."""
        target = {
            "apiVersion": JOBS_API,
            "kind": "Job",
            "name": name or self.name,
            "uid": uid or self.uid,
        }
        body = {
            "apiVersion": COMMANDS_API,
            "kind": "Command",
            "metadata": {"generateName": f"{self.name}-"},
            "action": action,
            "target": target,
        }
        made = self.api.post(self._commands, body).expect(201)
        return f"{self._commands}/{made['metadata']['name']}"

    def wait_consumed(self, command: str) -> None:
        """Wait until the controller has taken the Command."""
        eventually(lambda: self.api.get(command).status == 404, "the Command is taken")

    def events(self) -> set[str]:
        """The reasons of the Events about the job."""
        query = {"fieldSelector": f"involvedObject.name={self.name}"}
        items = self.api.get(self._ground.path("events"), **query).expect(200)["items"]
        return {event["reason"] for event in items}
