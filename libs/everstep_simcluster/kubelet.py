"""A node's kubelet: registers the node, sends heartbeats, and gives each bound pod a runner."""

import asyncio

from everstep_simcluster.clock import micro_timestamp, timestamp
from everstep_simcluster.node_controller import LEASE_NAMESPACE
from everstep_simcluster.node_machine import Machine
from everstep_simcluster.objects import condition_of, with_condition
from everstep_simcluster.pod_runner import NodeRuntime, PodRunner
from everstep_simcluster.resources import LEASES, NODES, PODS, Object
from everstep_simcluster.store import Change, Ref

KUBELET_VERSION = "v1.36.2"
_LEASE_SECONDS = 40


class Kubelet:
    """One node's. It hears nothing and writes nothing while its machine is not online."""

    def __init__(self, runtime: NodeRuntime, machine: Machine) -> None:
        self._runtime = runtime
        self._objects = runtime.objects
        self.machine = machine
        self._runners: dict[str, PodRunner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stop_listening = self._objects.listen(self._hear)
        self._heart: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Join the cluster, or come back after the power was off."""
        self._register()
        self._heart = self._runtime.spawn(self._beat())
        self.catch_up()

    async def stop(self) -> None:
        """Stop at once and forget everything, as when the power goes. Kills nothing."""
        tasks = [*self._tasks.values(), *([self._heart] if self._heart else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._runners.clear()
        self._heart = None

    async def close(self) -> None:
        """Stop for good."""
        self._stop_listening()
        await self.stop()

    def catch_up(self) -> None:
        """Compare the pods of this node with what runs; after any time of not hearing."""
        for pod in self._objects.every(PODS):
            if pod["spec"].get("nodeName") == self.machine.name:
                self._attend(pod)
        for uid, runner in tuple(self._runners.items()):
            pod_now = self._objects.find(PODS, runner.ref)
            if pod_now is None or pod_now["metadata"]["uid"] != uid:
                runner.vanish()

    def _hear(self, change: Change) -> None:
        if change.resource is not PODS or not self.machine.online or self._heart is None:
            return
        if change.object["spec"].get("nodeName") != self.machine.name:
            return
        if change.type != "DELETED":
            self._attend(change.object)
        elif runner := self._runners.get(change.object["metadata"]["uid"]):
            runner.vanish()  # force-deleted: nobody asks for its status any more

    def _attend(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        runner = self._runners.get(uid)
        if runner is not None:
            if "deletionTimestamp" in pod["metadata"]:
                runner.terminate(pod["metadata"]["deletionGracePeriodSeconds"])
        elif pod["status"].get("phase") in ("Succeeded", "Failed"):
            return
        else:
            self._run(pod)

    def _run(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        runner = PodRunner(self._runtime, self.machine, pod)
        self._runners[uid] = runner
        task = self._runtime.spawn(runner.run())
        self._tasks[uid] = task
        task.add_done_callback(lambda ended: self._forget(uid, ended))
        if "deletionTimestamp" in pod["metadata"]:
            runner.terminate(pod["metadata"]["deletionGracePeriodSeconds"])

    def _forget(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(uid) is task:
            del self._tasks[uid], self._runners[uid]

    def _register(self) -> None:
        machine = self.machine
        amounts = {
            "cpu": "96",
            "memory": "1024Gi",
            "pods": "110",
            "nvidia.com/gpu": machine.gpus,
            "rdma/hca": machine.gpus,  # an adapter a GPU
        }
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "Hostname", "address": machine.name},
            ],
            "nodeInfo": {
                "bootID": machine.boot_id,
                "machineID": machine.name,
                "kubeletVersion": KUBELET_VERSION,
                "operatingSystem": "linux",
                "architecture": "amd64",
                "containerRuntimeVersion": "process://everstep-simcluster",
            },
        }
        labels = {"kubernetes.io/hostname": machine.name, **machine.labels}
        body = {"metadata": {"name": machine.name, "labels": labels}, "status": status}
        known = self._objects.find(NODES, self._ref)
        if known is None:
            self._objects.create(NODES, "", body)
        else:
            info = {**known["status"]["nodeInfo"], "bootID": machine.boot_id}
            self._objects.set_status(NODES, self._ref, {**known["status"], "nodeInfo": info})

    @property
    def _ref(self) -> Ref:
        return Ref("", self.machine.name)

    async def _beat(self) -> None:
        while True:
            await self.machine.wait_online()
            self._renew_lease()
            self._report_ready()
            await asyncio.sleep(self._runtime.heartbeat_seconds)

    def _renew_lease(self) -> None:
        ref = Ref(LEASE_NAMESPACE, self.machine.name)
        spec = {
            "holderIdentity": self.machine.name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": micro_timestamp(),
        }
        known = self._objects.find(LEASES, ref)
        if known is None:
            body = {"metadata": {"name": ref.name}, "spec": spec}
            self._objects.create(LEASES, LEASE_NAMESPACE, body)
        else:
            self._objects.update(LEASES, ref, {**known, "spec": spec})

    def _report_ready(self) -> None:
        node = self._objects.find(NODES, self._ref)
        if node is None:
            self._register()  # deleted by somebody; a living kubelet brings it back
            node = self._objects.get(NODES, self._ref)
        ready = condition_of(node, "Ready")
        if ready is not None and ready["status"] == "True":
            return
        condition = {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": timestamp(),
            "lastTransitionTime": timestamp(),
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
        }
        self._objects.set_status(NODES, self._ref, with_condition(node, condition)["status"])
        for runner in self._runners.values():
            runner.report_again()
