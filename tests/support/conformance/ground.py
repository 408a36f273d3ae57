"""What a module of the suite stands on: a namespace of its own, and pods that it makes there."""

import secrets
from typing import Any

from support.conformance.api import Api, Json, eventually
from support.conformance.fake_nodes import GPU, GPUS, MARK

PREFIX = "everstep-conformance-"
NAMESPACES = "/api/v1/namespaces"
_CLEANUP_SECONDS = 60.0


class TakenError(Exception):
    """Another run of the suite is going on in that cluster, or one was killed."""


def new_run(api: Api) -> str:
    """A name for this run.

    Raises:
        TakenError: The cluster has namespaces or nodes of another run.
    """
    for path in (NAMESPACES, "/api/v1/nodes"):
        found = [one["metadata"]["name"] for one in api.get(path).expect(200)["items"]]
        names = [name for name in found if name.startswith(PREFIX)]
        if names:
            raise TakenError(
                f"{', '.join(names)}: another run is going on, or one was killed; then delete what "
                f"it left: kubectl delete namespaces,nodes -l {MARK}"
            )
    return secrets.token_hex(4)


class Ground:
    """One namespace, deleted with all it holds when the module is through."""

    def __init__(self, api: Api, run: str) -> None:
        self.api = api
        self.run = run
        self.namespace = f"{PREFIX}{run}-{secrets.token_hex(2)}"
        labels = {MARK: run, "pod-security.kubernetes.io/enforce": "privileged"}
        body = {"metadata": {"name": self.namespace, "labels": labels}}
        api.post(NAMESPACES, body).expect(201)
        self._wait_for_service_account()

    @property
    def pods(self) -> str:
        """The path of its pods."""
        return self.path("pods")

    def path(self, plural: str, group: str = "") -> str:
        """The path of a kind in this namespace; ``group`` with its version."""
        root = f"/apis/{group}" if group else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}"

    def pod(self, name: str) -> Json:
        """The pod as it is."""
        return self.api.get(f"{self.pods}/{name}").expect(200)

    def make_pod(self, name: str, node: str = "", **spec: Any) -> Json:
        """Create a pod and bind it to a fake node, if one is named."""
        self.api.post(self.pods, pod_manifest(name, **spec)).expect(201)
        if node:
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
            self.api.post(f"{self.pods}/{name}/binding", binding).expect(201)
        return self.pod(name)

    def make_running_pod(self, name: str, node: str, **spec: Any) -> Json:
        """Create one and wait until the suite's kubelet says that it runs."""
        self.make_pod(name, node, **spec)
        eventually(lambda: self.pod(name)["status"]["phase"] == "Running", f"{name} runs")
        return self.pod(name)

    def force_delete(self, name: str) -> None:
        """Have the pod gone at once."""
        self.api.delete(f"{self.pods}/{name}", gracePeriodSeconds="0").expect(200, 404)

    def clear(self) -> None:
        """Delete every pod there is, at once."""
        for pod in self.api.get(self.pods).expect(200)["items"]:
            self.force_delete(pod["metadata"]["name"])

    def close(self) -> None:
        """Have the namespace deleted; `wait_until_gone` waits for all of a run."""
        self.clear()
        self.api.delete(f"{NAMESPACES}/{self.namespace}").expect(200, 202, 404)

    def _wait_for_service_account(self) -> None:
        """Without one no pod is let in; where no controller makes it, the suite does."""
        accounts = self.path("serviceaccounts")
        try:
            eventually(
                lambda: self.api.get(f"{accounts}/default").status == 200,
                "the namespace has its default ServiceAccount",
                within_seconds=5,
            )
        except AssertionError:
            self.api.post(accounts, {"metadata": {"name": "default"}}).expect(201, 409)


def wait_until_gone(api: Api, run: str) -> bool:
    """Whether the namespaces of the run went in time; where no controller runs they never do."""

    def gone() -> bool:
        left = api.get(NAMESPACES, labelSelector=f"{MARK}={run}").expect(200)["items"]
        for namespace in left:
            pods = f"{NAMESPACES}/{namespace['metadata']['name']}/pods"
            for pod in api.get(pods).expect(200)["items"]:  # no kubelet lets them go any more
                api.delete(f"{pods}/{pod['metadata']['name']}", gracePeriodSeconds="0")
        return not left

    try:
        eventually(gone, "the namespaces are gone", within_seconds=_CLEANUP_SECONDS)
    except AssertionError:
        return False
    return True


def pod_manifest(name: str, **spec: Any) -> Json:
    """A pod that no scheduler minds and that only a fake node may have."""
    container = {
        "name": "main",
        "image": "registry.invalid/main:1",
        "resources": {"limits": {GPU: str(GPUS)}},
    }
    metadata = {"name": name, "labels": {"app": spec.pop("app", "train")}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "schedulerName": "everstep-conformance",
            "restartPolicy": "Never",
            "tolerations": [{"key": MARK, "operator": "Exists"}],
            "containers": [container],
            **spec,
        },
    }
