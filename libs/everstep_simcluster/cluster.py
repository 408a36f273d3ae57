"""The whole cluster: API server, controllers, nodes and faults, started and ended together."""

import asyncio
import json
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from everstep_simcluster import network
from everstep_simcluster.api_server import ApiServer
from everstep_simcluster.audit import Audit
from everstep_simcluster.control import control_pages, control_routes
from everstep_simcluster.disruption import BudgetController
from everstep_simcluster.errors import NetworkError
from everstep_simcluster.faults import Faults
from everstep_simcluster.gang_scheduler import GangScheduler
from everstep_simcluster.garbage import GarbageCollector
from everstep_simcluster.janitor_link import Janitor
from everstep_simcluster.kubelet import Kubelet
from everstep_simcluster.launcher import ExecLauncher, Launcher, PrefixLauncher, TemplateLauncher
from everstep_simcluster.node_controller import LEASE_NAMESPACE, NodeController
from everstep_simcluster.node_machine import Machine
from everstep_simcluster.objects import Objects, condition_of
from everstep_simcluster.pod_environment import log_file
from everstep_simcluster.pod_runner import NodeRuntime, folder_of
from everstep_simcluster.processes import kill_all
from everstep_simcluster.resources import (
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    Object,
)
from everstep_simcluster.settings import ClusterSettings
from everstep_simcluster.store import Ref, Store
from everstep_simcluster.taint_eviction import TaintEviction
from everstep_simcluster.task_home import TaskHome
from everstep_simcluster.volcano_jobs import JobController

WAIT_SECONDS = 30.0
"""How long :meth:`Cluster.wait_for` waits unless it is told otherwise."""

SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The priority classes that every cluster has."""

_LOOPBACK_NODES = 250


class Cluster:
    """A cluster on this machine; an asynchronous context manager.

    Everything in it belongs to the event loop that entered it. An error in one of its parts is
    raised when it is left.
    """

    def __init__(self, settings: ClusterSettings | None = None) -> None:
        self.settings = settings or ClusterSettings()
        store = Store()
        self.objects = Objects(
            store,
            volcano_webhook=self.settings.volcano_webhook,
            toleration_seconds=self.settings.toleration_seconds,
        )
        self.api = ApiServer(
            self.objects,
            log_path=self.log_path,
            bookmark_interval_seconds=self.settings.bookmark_seconds,
        )
        self.networks: network.NodeNetworks | None = None
        self.why_no_networks: str | None = None
        self.control_url: str
        self.folder: Path
        self.faults: Faults
        self._pods_folder: Path
        self._tasks = TaskHome()
        self._stack = AsyncExitStack()
        self._kubelets: dict[str, Kubelet] = {}

    @property
    def url(self) -> str:
        """Where the API server is reached."""
        return self.api.url

    @property
    def audit(self) -> Audit:
        """Every write request that came over HTTP."""
        return self.api.audit

    @property
    def kubeconfig_path(self) -> Path:
        """A kubeconfig that points at this cluster."""
        return self.folder / "kubeconfig"

    @property
    def bus_address(self) -> str:
        """Where a bus has to listen so that its traffic alone can be cut."""
        return self.networks.bus_address if self.networks else "127.0.0.1"

    @property
    def machines(self) -> dict[str, Machine]:
        """The nodes' machines by name."""
        return {name: kubelet.machine for name, kubelet in self._kubelets.items()}

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def create_job(self, manifest: Object) -> Object:
        """Create a Volcano Job in the namespace it names (else ``default``)."""
        namespace = manifest["metadata"].get("namespace", "default")
        return self.objects.create(JOBS, namespace, manifest)

    def pods(self, namespace: str = "") -> list[Object]:
        """The pods there are, by name."""
        return self.objects.every(PODS, namespace)

    def node(self, name: str) -> Object:
        """The Node object."""
        return self.objects.get(NODES, Ref("", name))

    def log_path(self, ref: Ref) -> Path | None:
        """Where the output of that pod goes, None when there is no such pod."""
        pod = self.objects.find(PODS, ref)
        return None if pod is None else log_file(folder_of(self._pods_folder, pod))

    async def wait_for(
        self, condition: Callable[[], bool], timeout_seconds: float = WAIT_SECONDS
    ) -> None:
        """Wait until ``condition()`` holds; it is asked after every change of an object.

        Raises:
            TimeoutError: It did not come true in time.
        """
        changed = asyncio.Event()
        stop = self.objects.listen(lambda change: changed.set())
        try:
            async with asyncio.timeout(timeout_seconds):
                while not condition():
                    changed.clear()
                    await changed.wait()
        finally:
            stop()

    def restart_api(self) -> None:
        """Have the API server break every connection and come back without its history."""
        self._tasks.spawn(self.api.restart())

    async def failed(self) -> None:
        """Wait for ever, or until a part of the cluster fails, and raise its error."""
        await self._tasks.failed()

    async def _start(self) -> None:
        self._make_folder()
        self._make_networks()
        claim = self.networks.claim if self.networks else None
        janitor = Janitor(claim, self.folder if self.settings.folder is None else None)
        self._stack.push_async_callback(janitor.close)
        await self._stack.enter_async_context(self._tasks)
        launcher = _launcher(self.settings)
        self._stack.push_async_callback(launcher.close)
        if self.settings.controllers:
            self._start_controllers()
        self._make_basics()
        runtime = NodeRuntime(
            objects=self.objects,
            launcher=launcher,
            sessions=janitor,
            spawn=self._tasks.spawn,
            folder=self._pods_folder,
            heartbeat_seconds=self.settings.heartbeat_seconds,
            restart_delay_seconds=self.settings.restart_delay_seconds,
            start_seconds=self.settings.pod_start_seconds,
            stop_seconds=self.settings.pod_stop_seconds,
        )
        self._stack.callback(self._kill_pods)
        for index in range(self.settings.nodes):
            machine = self._machine(index)
            self._kubelets[machine.name] = kubelet = Kubelet(runtime, machine)
            kubelet.start()
            self._stack.push_async_callback(kubelet.close)
        self.faults = Faults(self.objects, self._kubelets, self.networks, janitor)
        self.api.add_routes(control_routes(self))
        self.control_url = await self._stack.enter_async_context(control_pages(self))
        await self.api.start(self.settings.port)
        self._stack.push_async_callback(self.api.kill)
        self._write_kubeconfig()
        await self.wait_for(self._all_ready)

    def _make_folder(self) -> None:
        if self.settings.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="everstep-simcluster-"))
        else:
            self.folder = self.settings.folder
            self.folder.mkdir(parents=True, exist_ok=True)
        self._pods_folder = self.folder / "pods"

    def _make_networks(self) -> None:
        wanted = self.settings.networks
        if wanted == "none" or not self.settings.nodes:
            self.why_no_networks = "not asked for"
            return
        self.why_no_networks = network.why_not_allowed()
        if self.why_no_networks is None:
            self.networks = network.NodeNetworks(self.settings.nodes)
            self._stack.callback(self.networks.close)
        elif wanted == "namespaces":
            raise NetworkError("node networks", self.why_no_networks)

    def _start_controllers(self) -> None:
        objects = self.objects
        nodes = NodeController(objects, grace_seconds=self.settings.node_grace_seconds)
        evictions = TaintEviction(objects)
        controllers = (
            nodes, evictions,
            JobController(objects, delay_seconds=self.settings.job_delay_seconds),
            GangScheduler(objects, period_seconds=self.settings.scheduler_period_seconds),
            BudgetController(objects, delay_seconds=self.settings.budget_delay_seconds),
            GarbageCollector(objects),
        )  # fmt: skip
        for controller in controllers:
            self._tasks.spawn(controller.queue.run())
        self._stack.callback(nodes.timers.cancel_all)
        self._stack.callback(evictions.timers.cancel_all)

    def _make_basics(self) -> None:
        for name in ("default", "kube-system", LEASE_NAMESPACE, *self.settings.namespaces):
            if self.objects.find(NAMESPACES, Ref("", name)) is None:
                self.objects.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in SYSTEM_PRIORITIES.items():
            self.objects.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
        if self.settings.controllers:  # one of Volcano's makes it
            queue = {"metadata": {"name": "default"}, "spec": {"weight": 1}}
            self.objects.create(QUEUES, "", queue)

    def _machine(self, index: int) -> Machine:
        networks = self.networks
        return Machine(
            name=f"node-{index}",
            index=index,
            address=networks.address(index) if networks else self._loopback_address(index),
            gpus=self.settings.gpus_per_node,
            netns=networks.netns(index) if networks else None,
        )

    def _loopback_address(self, index: int) -> str:
        subnet, host = divmod(index, _LOOPBACK_NODES)
        return f"{self.settings.loopback}.{1 + subnet}.{1 + host}"

    def _kill_pods(self) -> None:
        for machine in self.machines.values():
            kill_all(machine.leaders, machine.netns)

    def _all_ready(self) -> bool:
        nodes = self.objects.every(NODES)
        return all(is_ready(node) and not node["spec"].get("taints") for node in nodes)

    def _write_kubeconfig(self) -> None:
        name = "everstep-simcluster"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        self.kubeconfig_path.write_text(json.dumps(config))


def is_ready(body: Object) -> bool:
    """Whether a node or a pod has the condition Ready."""
    ready = condition_of(body, "Ready")
    return ready is not None and ready["status"] == "True"


def _launcher(settings: ClusterSettings) -> Launcher:
    if settings.template_socket is None:
        return ExecLauncher()
    template = TemplateLauncher(settings.template_socket)
    return PrefixLauncher(settings.template_prefix, template, ExecLauncher())
