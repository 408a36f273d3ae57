"""An operator rescales a job of real agents in the simulated cluster: EC-09, EC-19 as a whole."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from everstep_bus.nats import connect
from everstep_bus.nats.config import ServerSettings
from everstep_bus.nats.credentials import agent_seed_path, role_seed_path
from everstep_bus.nats.server import NatsServer
from everstep_cli.drill.manifest import JOB, Gang, job_manifest
from everstep_contract.clients import Role, service_client_name
from everstep_contract.facts.incident import IncidentOpened
from everstep_contract.facts.job import ClusterWritten
from everstep_contract.facts.member import MemberFormed
from everstep_contract.facts.node import NodeQuarantined
from everstep_contract.subjects import EVENTS
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Refuse, Rule
from everstep_simcluster.patch import JSON_PATCH, Patch
from everstep_simcluster.resources import JOBS as VOLCANO_JOBS
from everstep_simcluster.settings import ClusterSettings
from everstep_simcluster.store import Ref
from support.agent_home import FAKE_WORKER
from support.operators import Operator
from support.polling import collected, eventually
from support.service_processes import service_process, settings_of
from support.simcluster import phases

OURS = "everstep-rescaler"
NAME = str(JOB)
REF = Ref(JOB.namespace, JOB.name)
ROLES: tuple[Role, ...] = ("adjudicator", "rescaler", "node_watcher")


@dataclass
class Site:
    """Five members of a job that needs three, their cluster, and an operator."""

    cluster: Cluster
    operator: Operator
    facts: list[Any]

    def events(self, kind: type[Any]) -> list[Any]:
        found = [fact.message for fact in self.facts]
        return [fact for fact in found if isinstance(fact, kind)]

    def patches(self) -> list[Any]:
        """Changes of the Job's size that were asked for, with their status."""
        path = f"/jobs/{JOB.name}"
        writes = self.cluster.audit.matching(method="PATCH", path=path, user_agent=OURS)
        return [write for write in writes if isinstance(write.body, list)]

    async def names(self) -> set[str]:
        return {seat.member.name for seat in (await self.operator.record()).seats}

    def lost(self) -> int:
        """Steps that any member lost, as it formed a group."""
        return sum(fact.steps_lost for fact in self.events(MemberFormed))


def pods(*indices: int) -> set[str]:
    return {f"{JOB.name}-worker-{index}" for index in indices}


@pytest.fixture
async def site(tmp_path: Path, template_socket: Path) -> AsyncIterator[Site]:
    credentials = tmp_path / "credentials"
    server = NatsServer(ServerSettings(tmp_path / "nats", credentials, jobs=(JOB,)))
    settings = ClusterSettings(
        nodes=5, networks="none", namespaces=(JOB.namespace,), template_socket=template_socket
    )
    async with AsyncExitStack() as stack:
        server.start()
        stack.callback(server.kill)
        cluster = await stack.enter_async_context(Cluster(settings))
        there = {
            "EVERSTEP_CLUSTER": "kubernetes",
            "EVERSTEP_KUBECONFIG_PATH": str(cluster.kubeconfig_path),
        }
        for role in ROLES:
            own = {**settings_of(role, server.url, credentials)}
            own |= there if role != "adjudicator" else {}
            own |= {"EVERSTEP_MODE": "act"} if role == "rescaler" else {}
            service = service_process(role, own, tmp_path / role)
            await eventually((await stack.enter_async_context(service)).is_ready)
        seed = role_seed_path(credentials, "adjudicator")
        name = service_client_name("adjudicator", "test")
        bus = await stack.enter_async_context(connect((server.url,), name, seed_path=seed))
        facts = await stack.enter_async_context(collected(bus.facts((f"{EVENTS}.>",))))
        gang = Gang(5, 3, 1, training=(str(FAKE_WORKER), "steps", str(tmp_path)))
        variables = {
            "EVERSTEP_NATS_URL": server.url,
            "EVERSTEP_NATS_SEED_PATH": str(agent_seed_path(credentials, JOB)),
        }
        cluster.create_job(job_manifest(gang, variables))
        operator = Operator(server.url, credentials, bus, JOB)
        await operator.resumed(5)
        yield Site(cluster, operator, facts)


async def test_ec09_a_job_gets_smaller_and_larger_without_a_step_or_a_healthy_member_lost(
    site: Site,
) -> None:
    line = await site.operator.said("rescale", NAME, "3", "--reason", "two nodes for others")
    assert line.startswith("rescaled to replicas 3, minAvailable 3; 3 members, generation ")
    (patch,) = site.patches()
    assert patch.status == 200
    assert [one["op"] for one in patch.body] == ["test", "test", "replace", "replace", "replace"]
    await eventually(lambda: phases(site.cluster) == dict.fromkeys(pods(0, 1, 2), "Running"))
    assert await site.names() == pods(0, 1, 2)
    smaller = await site.operator.record()
    await site.operator.said("rescale", NAME, "4", "--min-available", "3")
    larger = await site.operator.resumed(4)
    assert larger.generation == smaller.generation + 1
    assert [seat.member for seat in larger.seats[:3]] == [seat.member for seat in smaller.seats]
    assert site.lost() == 0
    assert (larger.failures_without_progress, larger.excluded) == (0, ())
    assert site.events(IncidentOpened) + site.events(NodeQuarantined) == []
    deleted = [fact for fact in site.events(ClusterWritten) if "delete" in fact.verb]
    assert deleted == []


@pytest.mark.slow
async def test_ec19_a_refused_change_is_told_in_its_words_and_all_are_seated_again(
    site: Site,
) -> None:
    path = f"/jobs/{JOB.name}"
    site.cluster.api.misbehaviour.add(Rule(Refuse(403), method="PATCH", path=path, user_agent=OURS))
    line = await site.operator.complaint("rescale", NAME, "3")
    assert "refused: PATCH /apis/batch.volcano.sh/v1alpha1/namespaces/" in line
    assert "403" in line
    assert "refused: PATCH" in await site.operator.said("status", NAME)
    await site.operator.resumed(5)
    assert phases(site.cluster) == dict.fromkeys(pods(0, 1, 2, 3, 4), "Running")
    assert len(site.patches()) == 1
    assert site.lost() == 0


@pytest.mark.slow
async def test_a_scale_down_by_kubectl_is_followed_and_spends_nothing(site: Site) -> None:
    replicas = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 4}]
    site.cluster.objects.patch(VOLCANO_JOBS, REF, Patch(JSON_PATCH, replicas))
    record = await site.operator.resumed(4)
    assert await site.names() == pods(0, 1, 2, 3)
    assert record.failures_without_progress == 0
    assert site.lost() == 0
