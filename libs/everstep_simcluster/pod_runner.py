"""One pod's life on its node: start, run, restart, end, and go when it is told to."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from everstep_simcluster.api_errors import ApiError
from everstep_simcluster.clock import timestamp
from everstep_simcluster.errors import LaunchError, UnsupportedPodError
from everstep_simcluster.launcher import Launcher, PodProcess
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.node_machine import Machine
from everstep_simcluster.objects import Objects
from everstep_simcluster.pod_environment import pod_command
from everstep_simcluster.pod_status import Ending, lost, not_started, of_exit, pod_status
from everstep_simcluster.probes import Probes
from everstep_simcluster.processes import kill_all
from everstep_simcluster.resources import PODS, Object
from everstep_simcluster.store import ref_of

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Starts a task that its owner waits for; an error in it ends the cluster."""


class SessionWatch(Protocol):
    """Whoever is to end the sessions of pods when the cluster dies."""

    def watch(self, session: int) -> None:
        """A session has begun."""

    def forget(self, session: int) -> None:
        """It has ended."""


@dataclass(frozen=True)
class NodeRuntime:
    """What the kubelets of a cluster have in common.

    ``heartbeat_seconds`` between two renewals of a node's lease (the real kubelet: 10);
    ``restart_delay_seconds`` before a container is started again (the real one: 10, growing);
    ``start_seconds`` and ``stop_seconds`` that pass before a pod's process starts and after it
    has ended.
    """

    objects: Objects
    launcher: Launcher
    sessions: SessionWatch
    spawn: Spawn
    folder: Path
    heartbeat_seconds: float
    restart_delay_seconds: float
    start_seconds: float = 0.0
    stop_seconds: float = 0.0


class PodRunner:
    """Runs one pod (this very uid) until it has ended or is gone from the API.

    What it writes waits until the machine is online. Cancelled, it leaves its process alone.
    """

    def __init__(self, runtime: NodeRuntime, machine: Machine, pod: Object) -> None:
        self._runtime = runtime
        self._objects = runtime.objects
        self._machine = machine
        self._spec: Object = pod["spec"]
        self._uid: str = pod["metadata"]["uid"]
        self._lost_before = bool(pod["status"].get("containerStatuses"))
        self._restarts = 0
        self._state: Object = {}
        self._last_state: Object = {}
        self._probes: Probes | None = None
        self._grace_seconds: float | None = None
        self._vanished = False
        self._told = asyncio.Event()
        self.ref = ref_of(pod)
        self.folder = folder_of(runtime.folder, pod)

    def terminate(self, grace_seconds: float) -> None:
        """Have it go within that time, or sooner if it was told a shorter one."""
        if self._grace_seconds is None or grace_seconds < self._grace_seconds:
            self._grace_seconds = grace_seconds
            self._told.set()

    def vanish(self) -> None:
        """The API knows it no more: kill it and write nothing."""
        self._vanished = True
        self._grace_seconds = 0.0
        self._told.set()

    def report_again(self) -> None:
        """Say once more that it is running, after its node was thought lost or a probe turned."""
        if "running" in self._state:
            self._write("Running")

    async def run(self) -> None:
        """Live the pod's life; returns when nothing is left to do for it."""
        ending = await self._run_container()
        while ending is not None and self._starts_again(ending):
            self._last_state = ending.state()
            self._restarts += 1
            await self._wait_told(self._runtime.restart_delay_seconds)
            ending = await self._run_container()
        await self._machine.wait_online()
        if ending is not None:
            self._state = ending.state()
            self._write("Succeeded" if ending.exit_code == 0 else "Failed")
        if self._grace_seconds is not None and not self._vanished:
            await asyncio.sleep(self._runtime.stop_seconds)
            with suppress(ApiError):  # forced or replaced meanwhile: gone is gone
                options = DeleteOptions(grace_seconds=0, uid=self._uid)
                self._objects.delete(PODS, self.ref, options)

    async def _run_container(self) -> Ending | None:
        """One run of the container; None when the pod was told to go before it began."""
        await self._machine.wait_online()
        if self._grace_seconds is not None:
            return None
        if self._lost_before:
            self._lost_before = False
            return lost()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._state = {"waiting": {"reason": "ContainerCreating"}}
        pod = self._write("Pending")
        if pod is None:
            return None
        if self._runtime.start_seconds:
            await self._wait_told(self._runtime.start_seconds)
        try:
            command = pod_command(pod, self.folder, self._machine.netns)
            self._probes = self._make_probes()
            process = await self._runtime.launcher.start(command)
        except (LaunchError, UnsupportedPodError) as error:
            return not_started(str(error))
        self._machine.leaders.add(process.pid)
        self._runtime.sessions.watch(process.pid)
        probing = asyncio.ensure_future(self._probes.run())
        try:
            return await self._until_end(process, probing, timestamp())
        finally:
            probing.cancel()

    def _make_probes(self) -> Probes:
        container, address = self._spec["containers"][0], self._machine.address
        return Probes(container, address, self._machine.wait_online, self.report_again)

    async def _until_end(
        self, process: PodProcess, probing: "asyncio.Future[None]", started_at: str
    ) -> Ending:
        ended = asyncio.ensure_future(process.wait())
        await self._machine.wait_online()
        self._state = {"running": {"startedAt": started_at}}
        self._write("Running")
        await self._wait_told(None, ended, probing)
        if not ended.done():
            await self._machine.wait_online()
            process.send_signal(signal.SIGTERM)
            await self._wait_grace(ended)
            await self._machine.wait_online()
        kill_all([process.pid])  # a container's other processes never outlive its first
        exit_status = await ended
        self._machine.leaders.discard(process.pid)
        self._runtime.sessions.forget(process.pid)
        return of_exit(exit_status, started_at)

    async def _wait_grace(self, ended: asyncio.Future[int]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not ended.done():
            self._told.clear()
            remaining = began + self._grace() - loop.time()
            if remaining <= 0:
                return
            await self._wait_told(remaining, ended)

    def _grace(self) -> float:
        """How long its process may take to end: what it was told, or what its manifest says."""
        if self._grace_seconds is not None:
            return self._grace_seconds
        return float(self._spec.get("terminationGracePeriodSeconds", 0.0))

    async def _wait_told(
        self, timeout_seconds: float | None, *others: "asyncio.Future[Any]"
    ) -> None:
        """Wait until the pod is told to go (sooner), one of the others is or the time is over."""
        told = asyncio.ensure_future(self._told.wait())
        try:
            await asyncio.wait(
                {told, *others}, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            told.cancel()

    def _starts_again(self, ending: Ending) -> bool:
        if self._grace_seconds is not None or ending.never_started:
            return False
        policy = self._spec.get("restartPolicy", "Always")
        return policy == "Always" or (policy == "OnFailure" and ending.exit_code != 0)

    def _write(self, phase: str) -> Object | None:
        """Write the pod's status; None when the pod (this uid) is not there any more."""
        pod = self._objects.find(PODS, self.ref)
        if pod is None or pod["metadata"]["uid"] != self._uid or self._vanished:
            return None
        container = {
            "state": self._state,
            "lastState": self._last_state,
            "restartCount": self._restarts,
            "started": self._probes is not None and self._probes.started,
            "ready": self._probes is not None and self._probes.ready,
        }
        status = pod_status(pod, phase, self._machine.address, container)
        return self._objects.set_status(PODS, self.ref, status)


def folder_of(root: Path, pod: Object) -> Path:
    """Where the files of a pod lie, its log among them."""
    metadata = pod["metadata"]
    return root.joinpath(metadata["namespace"], metadata["name"], metadata["uid"])
