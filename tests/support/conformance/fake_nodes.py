"""Nodes that are only objects: the suite makes them, reports for them and takes them away."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import urllib3
from support.conformance.api import MERGE, STRATEGIC, Api, Json, eventually

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
MARK = "everstep.dev/conformance"
"""Label and taint of every object of the suite; its value names the run."""

GPU = "everstep.dev/fake-gpu"
"""What pods ask for: no real node has it, and no real device plugin minds it."""

GPUS = 8
_HEARTBEAT_SECONDS = 1.0


def node_manifest(name: str, run: str) -> Json:
    """A node that nobody else's pods go to: its taint is one that only ours tolerate."""
    amounts = {"cpu": "96", "memory": "1000Gi", "pods": "110", GPU: str(GPUS)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {MARK: run, "kubernetes.io/hostname": name}},
        "spec": {"taints": [taint()]},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def taint(key: str = MARK, effect: str = "NoSchedule") -> Json:
    """A taint without a value."""
    return {"key": key, "effect": effect}


def ready_condition() -> Json:
    """As a kubelet reports it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the suite says so",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


class FakeNodes:
    """Some nodes and the heartbeats of those whose host is thought alive."""

    def __init__(self, api: Api, run: str, names: Sequence[str]) -> None:
        self.api = api
        self.run = run
        self.names = tuple(names)
        self._silent: set[str] = set()
        self._controlled = True
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def start(self) -> None:
        """Create them and wait until pods may go to them."""
        for name in self.names:
            self.api.post(NODES, node_manifest(name, self.run)).expect(201)
            self._renew(name)
            self.report_ready(name)
        self._thread.start()
        for name in self.names:
            self._settle(name)

    def close(self) -> None:
        """Stop reporting and delete them with their leases."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for name in self.names:
            self.api.delete(f"{NODES}/{name}")
            self.api.delete(f"{LEASES}/{name}")

    def get(self, name: str) -> Json:
        """The Node object."""
        return self.api.get(f"{NODES}/{name}").expect(200)

    def taints(self, name: str) -> set[tuple[str, str]]:
        """Its taints but the one all of ours have."""
        taints = self.get(name)["spec"].get("taints") or ()
        return {(t["key"], t["effect"]) for t in taints} - {(MARK, "NoSchedule")}

    def cordon(self, name: str) -> None:
        """Let no new pods go there."""
        self.api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": True}}).expect(200)

    def uncordon(self, name: str) -> None:
        """Let them go there again."""
        self.api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": None}}).expect(200)

    def add_taint(self, name: str, key: str, effect: str) -> None:
        """One taint more, whatever controllers add meanwhile."""

        def added(taints: list[Json]) -> list[Json]:
            known = any((one["key"], one["effect"]) == (key, effect) for one in taints)
            return taints if known else [*taints, taint(key, effect)]

        self._change_taints(name, added)

    def remove_taint(self, name: str, key: str) -> None:
        """All taints of that key."""
        self._change_taints(name, lambda taints: [t for t in taints if t["key"] != key])

    def silence(self, name: str) -> None:
        """Report no more, as a host does that has died."""
        self._silent.add(name)

    def revive(self, name: str) -> None:
        """Report again."""
        self._silent.discard(name)
        self._renew(name)
        self.report_ready(name)

    def restore(self) -> None:
        """As they were at first, for the next test."""
        for name in self.names:
            if name in self._silent:
                self.revive(name)
            node = self.get(name)
            if node["spec"].get("unschedulable"):
                self.uncordon(name)
            for key, _ in self.taints(name):
                if not key.startswith("node.kubernetes.io/"):
                    self.remove_taint(name, key)
        for name in self.names:
            self._settle(name)

    def report_ready(self, name: str) -> None:
        """Say that the node is ready."""
        status = {"status": {"conditions": [ready_condition()]}}
        self.api.patch(f"{NODES}/{name}/status", status, STRATEGIC).expect(200)

    def _change_taints(self, name: str, change: Callable[[list[Json]], list[Json]]) -> None:
        def written() -> bool:
            node = self.get(name)
            taints = change(node["spec"].get("taints") or [])
            version = node["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}}
            return self.api.patch(f"{NODES}/{name}", body).status == 200

        eventually(written, f"the taints of {name} are changed", within_seconds=10)

    def _settle(self, name: str) -> None:
        """Wait for the node controller to lift its taint; where there is none, lift it."""
        if self._controlled:
            try:
                eventually(lambda: not self.taints(name), f"{name} is free", within_seconds=10)
            except AssertionError:
                self._controlled = False
        for key, _ in () if self._controlled else self.taints(name):
            self.remove_taint(name, key)

    def _beat(self) -> None:
        while not self._stop.wait(_HEARTBEAT_SECONDS):
            for name in set(self.names) - self._silent:
                with suppress(urllib3.exceptions.HTTPError):  # the server is away for a moment
                    self._renew(name)

    def _renew(self, name: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
        answer = self.api.patch(f"{LEASES}/{name}", {"spec": spec}, MERGE)
        if answer.status == 404:
            self.api.post(LEASES, {"metadata": {"name": name}, "spec": spec})
