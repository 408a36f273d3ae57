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

    async def start(self, *names: str, **settings: str) -> None:
        """Run these workloads (all of them if none is named) and wait until all pods are ready.

        ``settings`` are variables given to all but the bus, in place of what an operator tunes.
        """
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
                pod = self._pod(one, f"{name}-{index}", {} if name == BUS else settings)
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

    def pods(self) -> dict[str, Object]:
        """The pods by name."""
        return {pod["metadata"]["name"]: pod for pod in self._cluster.pods(NAMESPACE)}

    def _all_ready(self, but: tuple[str, ...]) -> bool:
        return all(is_ready(pod) for name, pod in self.pods().items() if name not in but)

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
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        process = await asyncio.create_subprocess_exec(
            str(KUSTOMIZATIONS / "credentials.sh"), str(self.credentials), *self._jobs,
            env={**os.environ, "PATH": path, "EVERSTEP_EXTRA_NAMES": names},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(SCRIPT_SECONDS):
            said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()

    def _pod(self, workload: Object, name: str, settings: dict[str, str]) -> Object:
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
                entry["value"] = self._at_home(entry["value"], homes)
        env += [{"name": key, "value": value} for key, value in settings.items()]
        if spec["automountServiceAccountToken"]:
            config = str(self._cluster.kubeconfig_path)
            env.append({"name": "EVERSTEP_KUBECONFIG_PATH", "value": config})
        container["command"] = [self._at_home(word, homes) for word in container["command"]]
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
        home = self._folder / "claims" / claim["claimName"] if claim else self._folder / pod / name
        home.mkdir(parents=True, exist_ok=True)
        sources = volume.get("projected", {}).get("sources", [volume])
        for source in sources:
            for secret in [source.get("secret", {})]:
                named = secret.get("secretName") or secret.get("name")
                for file, origin in self._secret(named).items() if named else ():
                    shutil.copy(self.credentials / origin, home / file)
            if "configMap" in source:
                config = of_kind(self._objects, "ConfigMap")[source["configMap"]["name"]]
                for file, text in config["data"].items():
                    (home / file).write_text(text)
        return home

    def _fill(self, workload: Object, homes: dict[str, str]) -> None:
        """Have the configuration in a volume name the folders and addresses of this machine."""
        for home in homes.values():
            for file in Path(home).glob("*.conf"):
                file.write_text(self._at_home(file.read_text(), homes))

    def _secret(self, name: str) -> dict[str, str]:
        made = yaml.safe_load((self.credentials / "kustomization.yaml").read_text())
        (found,) = [one for one in made["secretGenerator"] if one["name"] == name]
        parts = [file.rpartition("=") for file in found["files"]]
        return {key or origin: origin for key, _, origin in parts}

    def _at_home(self, text: str, homes: dict[str, str]) -> str:
        for path, home in homes.items():
            text = text.replace(path, home)
        for pod in self._homes:
            text = text.replace(f"{pod}.{BUS}-peers.{NAMESPACE}.svc", self._address(pod))
        return text
