"""What ``deploy/k8s`` says, run by simulated kubelets: its commands, environment and probes.

There are no containers, no names and no volumes here. So in each text of a pod the path of a mount
becomes a folder, the name of a server of the bus becomes the address of its node, and the program
becomes the one of this checkout.
"""

import asyncio
import copy
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml
from everstep_bus.nats.server import executable
from everstep_simcluster.cluster import Cluster, is_ready
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import NODES, PODS
from everstep_simcluster.store import Ref
from support.manifests import KUSTOMIZATIONS, Object, of_kind, overlay, workloads

NAMESPACE = "everstep"
SCRIPT_SECONDS = 30
READY_SECONDS = 60.0
BUS = "everstep-nats"


class Deployment:
    """An overlay in a cluster: a node for each of its pods, which nothing else is put on."""

    def __init__(self, cluster: Cluster, name: str, folder: Path, *jobs: str) -> None:
        self._cluster = cluster
        self._folder = folder
        self._jobs = jobs
        self._objects = overlay(name)
        self._nodes: Iterator[str] = iter(cluster.machines)
        self._homes: dict[str, str] = {}
        self.credentials = folder / "credentials"

    async def start(self, *names: str) -> None:
        """Run the bus and these workloads, all if none is named; wait until all pods are ready."""
        chosen = {
            name: one
            for name, one in workloads(self._objects).items()
            if not names or name in (BUS, *names)
        }
        for name, one in chosen.items():
            for index in range(one["spec"]["replicas"]):
                self._homes[f"{name}-{index}"] = self._take_node()
        await self._make_credentials()
        for name, one in chosen.items():
            for index in range(one["spec"]["replicas"]):
                pod = self._pod(one, f"{name}-{index}")
                self._cluster.objects.create(PODS, NAMESPACE, pod)
        await self.wait_ready()

    async def wait_ready(self, *but: str) -> None:
        """Wait until each pod, ``but`` some, is ready by its probes; else fails with their logs."""
        try:
            await self._cluster.wait_for(lambda: self._all_ready(but), READY_SECONDS)
        except TimeoutError:
            pods = self.pods().items()
            logs = [f"{name}: {self.log(name)[-2000:]}" for name, pod in pods if not is_ready(pod)]
            raise AssertionError("\n".join(logs)) from None

    def here(self, text: str, homes: dict[str, str]) -> str:
        """A manifest's text with folders in place of ``homes``' paths, and servers' addresses."""
        for path, home in homes.items():
            text = text.replace(path, home)
        for pod in self._homes:
            text = text.replace(f"{pod}.{BUS}-peers.{NAMESPACE}.svc", self._address(pod))
        return text.replace(f"tls://{BUS}.{NAMESPACE}.svc:4222", ",".join(self.bus_urls))

    def secret(self, name: str) -> Path:
        """A folder with the files of a Secret that ``credentials.sh`` has made."""
        home = self._folder / "secrets" / name
        home.mkdir(parents=True, exist_ok=True)
        made = yaml.safe_load((self.credentials / "kustomization.yaml").read_text())
        (found,) = [one for one in made["secretGenerator"] if one["name"] == name]
        for file in found["files"]:
            key, _, origin = file.rpartition("=")
            shutil.copy(self.credentials / origin, home / (key or origin))
        return home

    def claim(self, name: str) -> Path:
        """The folder in the place of a shared volume."""
        home = self._folder / "claims" / name
        home.mkdir(parents=True, exist_ok=True)
        return home

    def pods(self) -> dict[str, Object]:
        """The pods by name."""
        return {pod["metadata"]["name"]: pod for pod in self._cluster.pods(NAMESPACE)}

    def _all_ready(self, but: tuple[str, ...]) -> bool:
        return all(is_ready(pod) for name, pod in self.pods().items() if name not in but)

    def all_have_reconnected(self) -> bool:
        """Whether each service has lost its server of the bus and found another."""
        services = [pod for pod in self.pods() if not pod.startswith(BUS)]
        logs = map(self.log, services)
        return all(
            log.count("bus connected") > log.count("bus connection lost") > 0 for log in logs
        )

    def node_of(self, pod: str) -> str:
        """Where that pod runs."""
        return self._homes[pod]

    def log(self, pod: str) -> str:
        """What it has said."""
        path = self._cluster.log_path(Ref(NAMESPACE, pod))
        return path.read_text() if path is not None and path.exists() else ""

    @property
    def bus_urls(self) -> tuple[str, ...]:
        """The servers of the bus, as services are told them."""
        return tuple(
            f"tls://{self._address(name)}:4222" for name in self._homes if name.startswith(BUS)
        )

    def _take_node(self) -> str:
        node = next(self._nodes)
        cordon = Patch(MERGE_PATCH, {"spec": {"unschedulable": True}})
        self._cluster.objects.patch(NODES, Ref("", node), cordon)
        return node

    def _address(self, pod: str) -> str:
        return self._cluster.machines[self._homes[pod]].address

    async def _make_credentials(self) -> None:
        """As an operator does, for servers that have addresses in place of names."""
        names = ",".join(f"IP:{self._address(pod)}" for pod in self._homes if pod.startswith(BUS))
        process = await asyncio.create_subprocess_exec(
            str(KUSTOMIZATIONS / "credentials.sh"), str(self.credentials), *self._jobs,
            env={**os.environ, "PYTHON": sys.executable, "EVERSTEP_EXTRA_NAMES": names},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(SCRIPT_SECONDS):
            said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()

    def _pod(self, workload: Object, name: str) -> Object:
        spec = copy.deepcopy(workload["spec"]["template"]["spec"])
        (container,) = spec["containers"]
        homes = {
            mount["mountPath"]: str(self._volume(workload, name, mount["name"]))
            for mount in container["volumeMounts"]
        }
        self._fill(workload, homes)
        env = container["env"]
        for entry in env:
            if "value" in entry:
                entry["value"] = self.here(entry["value"], homes)
        if spec["automountServiceAccountToken"]:
            config = str(self._cluster.kubeconfig_path)
            env.append({"name": "EVERSTEP_KUBECONFIG_PATH", "value": config})
        container["command"] = [self.here(word, homes) for word in container["command"]]
        programs = {"python": sys.executable, "nats-server": executable()}
        container["command"][0] = programs[container["command"][0]]
        labels = workload["spec"]["template"]["metadata"]["labels"]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
            "spec": {**spec, "nodeName": self._homes[name]},
        }

    def _volume(self, workload: Object, pod: str, name: str) -> Path:
        volumes = workload["spec"]["template"]["spec"]["volumes"]
        (volume,) = [one for one in volumes if one["name"] == name] or [{}]
        claim = volume.get("persistentVolumeClaim")
        if claim:
            return self.claim(claim["claimName"])
        home = self._folder / pod / name
        home.mkdir(parents=True, exist_ok=True)
        for source in volume.get("projected", {}).get("sources", [volume]):
            if "secret" in source:
                named = source["secret"].get("secretName") or source["secret"]["name"]
                shutil.copytree(self.secret(named), home, dirs_exist_ok=True)
            if "configMap" in source:
                config = of_kind(self._objects, "ConfigMap")[source["configMap"]["name"]]
                for file, text in config["data"].items():
                    (home / file).write_text(text)
        return home

    def _fill(self, workload: Object, homes: dict[str, str]) -> None:
        """Have the configuration in a volume name the folders and addresses of this machine."""
        for home in homes.values():
            for file in Path(home).glob("*.conf"):
                file.write_text(self.here(file.read_text(), homes))
