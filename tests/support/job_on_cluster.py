"""The job that users copy, run by real agents on a simulated cluster that is another process.

Services are told of the cluster by ``KUBECONFIG`` alone. The job's command is replaced, because
simulated kubelets have no images, and so is where its agents find the bus.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everstep_bus.nats import connect
from everstep_bus.nats.config import ServerSettings
from everstep_bus.nats.credentials import agent_seed_path, role_seed_path
from everstep_bus.nats.server import NatsServer
from everstep_contract.clients import Role, service_client_name
from everstep_contract.facts.member import MemberFormed
from everstep_contract.identity import JobKey
from everstep_contract.subjects import EVENTS
from support.agent_home import FAKE_WORKER
from support.cluster_process import ClusterProcess, cluster_process
from support.manifests import ROOT, loaded
from support.operators import Operator
from support.polling import collected, eventually
from support.service_processes import ServiceProcess, service_process, settings_of

JOB = JobKey(namespace="training", name="llama")
VOLCANO = ROOT / "deploy" / "volcano"
QUEUES = "apis/scheduling.volcano.sh/v1beta1/queues"
JOBS = f"apis/batch.volcano.sh/v1alpha1/namespaces/{JOB.namespace}/jobs"
PODS = f"api/v1/namespaces/{JOB.namespace}/pods"
NODES = "api/v1/nodes"
OURS = "everstep-"
ROLES: tuple[Role, ...] = ("adjudicator", "rescaler", "node_watcher")


@dataclass(frozen=True)
class Plan:
    """How large cluster and job are, and what services are told beside the usual."""

    nodes: int
    members: int = 8
    floor: int = 6
    settings: Mapping[Role, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Deletion:
    """A pod that Everstep asked to be deleted, and the answer."""

    pod: str
    by_force: bool
    status: int


@dataclass
class Site:
    """A cluster, the services, and a job whose members all step."""

    cluster: ClusterProcess
    operator: Operator
    services: Mapping[Role, ServiceProcess]
    facts: list[Any]

    async def pods(self) -> dict[str, dict[str, Any]]:
        found = (await self.cluster.get(PODS))["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    async def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in (await self.pods()).items()}

    async def retries(self) -> int:
        job = await self.cluster.get(f"{JOBS}/{JOB.name}")
        return int(job["status"].get("retryCount", 0))

    async def deletions(self) -> list[Deletion]:
        """Every one that was asked for, whatever came of it."""
        found = await self.cluster.written(OURS, method="DELETE", path="/pods/")
        return [
            Deletion(
                write["path"].rpartition("/")[2],
                write["body"].get("gracePeriodSeconds") == 0,
                write["status"],
            )
            for write in found
        ]

    def steps_lost(self) -> int:
        found = [fact.message for fact in self.facts]
        return sum(fact.steps_lost for fact in found if isinstance(fact, MemberFormed))


def job_to_run(plan: Plan, variables: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """The job that users copy, of the planned size, as a simulated kubelet can run it."""
    (job,) = loaded(VOLCANO / "job.yaml")
    (task,) = job["spec"]["tasks"]
    job["spec"]["minAvailable"] = task["minAvailable"] = plan.floor
    task["replicas"] = plan.members
    (container,) = task["template"]["spec"]["containers"]
    sizes = [f"--nnodes={plan.floor}:{plan.members}", "--nproc-per-node=1"]
    container["command"] = ["everstep", "run", *sizes, str(FAKE_WORKER), "steps", str(folder)]
    kept = [one for one in container["env"] if "valueFrom" in one]
    ours = [{"name": name, "value": value} for name, value in variables.items()]
    container["env"] = [*kept, *ours]
    return job


@asynccontextmanager
async def stepping(plan: Plan, folder: Path, template_socket: Path) -> AsyncIterator[Site]:
    """Everything up, and all members stepping."""
    async with AsyncExitStack() as stack:
        flags = ("--nodes", str(plan.nodes), "--namespaces", JOB.namespace)
        opened = cluster_process(*flags, "--template-socket", str(template_socket))
        cluster = await stack.enter_async_context(opened)
        credentials, host = folder / "credentials", cluster.ready["bus_address"]
        server = NatsServer(ServerSettings(folder / "nats", credentials, host=host, jobs=(JOB,)))
        server.start()
        stack.callback(server.kill)
        services = {}
        for role in ROLES:
            settings = _settings(role, settings_of(role, server.url, credentials), cluster)
            settings |= plan.settings.get(role, {})
            opening = service_process(role, settings, folder / role)
            services[role] = await stack.enter_async_context(opening)
        for service in services.values():
            await eventually(service.is_ready)
        seed = role_seed_path(credentials, "adjudicator")
        name = service_client_name("adjudicator", "test")
        bus = await stack.enter_async_context(connect((server.url,), name, seed_path=seed))
        facts = await stack.enter_async_context(collected(bus.facts((f"{EVENTS}.>",))))
        (queue,) = loaded(VOLCANO / "queue.yaml")
        await cluster.create(QUEUES, queue)
        agents_seed = str(agent_seed_path(credentials, JOB))
        variables = {"EVERSTEP_NATS_URL": server.url, "EVERSTEP_NATS_SEED_PATH": agents_seed}
        await cluster.create(JOBS, job_to_run(plan, variables, folder))
        operator = Operator(server.url, credentials, bus, JOB)
        await operator.resumed(plan.members)
        yield Site(cluster, operator, services, facts)


def _settings(role: Role, bus: dict[str, str], cluster: ClusterProcess) -> dict[str, str]:
    """What a service has to be told: its bus and, where it has to do with it, the cluster."""
    if role == "adjudicator":
        return bus
    there = {"EVERSTEP_CLUSTER": "kubernetes", "KUBECONFIG": cluster.ready["kubeconfig"]}
    return bus | there | ({"EVERSTEP_MODE": "act"} if role == "rescaler" else {})
