"""The roles allow what the services ask the API server for while a node is lost, and no more."""

from pathlib import Path

import pytest
from everstep_bus.interface import Bus
from everstep_bus.nats import connect
from everstep_bus.nats.credentials import role_seed_path
from everstep_contract.clients import service_client_name
from everstep_contract.identity import GangSpec, JobKey, Member
from everstep_contract.layout import JOBS
from everstep_contract.node_queries import DrainNode, NodeStanding
from everstep_contract.record import Exclusion
from everstep_contract.verdicts import Evidence
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.resources import PODS
from everstep_simcluster.store import Ref
from support.deployment import Deployment
from support.jobs import NOW, member, record
from support.manifests import OVERLAYS, overlay
from support.polling import eventually
from support.rights import Right, calls_of, rights_of
from support.simcluster import NAMESPACE, job_manifest, node_of, phases, running, uids

ACCOUNTS = ("everstep-node-watcher", "everstep-rescaler")
JOB = JobKey(namespace=NAMESPACE, name="train")
LOST, EVICTED = "train-worker-1", "train-worker-2"


@pytest.mark.parametrize("name", OVERLAYS)
async def test_roles_allow_all_that_a_node_loss_asks_for_and_nothing_that_it_does_not(
    name: str, cluster: Cluster, tmp_path: Path
) -> None:
    deployed = Deployment(cluster, name, tmp_path, str(JOB))
    await deployed.start(*ACCOUNTS)
    await lose_a_node(cluster, deployed, acting=name == "act")
    for account in ACCOUNTS:
        rights = rights_of(account, overlay(name))
        await all_are_used(rights, cluster, account)
        asked = calls_of(account, cluster.audit.calls)
        assert not [call for call in asked if not any(right.covers(call) for right in rights)]


async def lose_a_node(cluster: Cluster, deployed: Deployment, *, acting: bool) -> None:
    """A member's node fails by its hardware, the adjudicator leaves it out, and its pod goes."""
    job_uid = cluster.create_job(job_manifest())["metadata"]["uid"]
    await cluster.wait_for(running(cluster, 3))
    found = {"job_uid": job_uid, "name": LOST, "pod_uid": uids(cluster)[LOST]}
    lost = member(1).model_copy(update={**found, "node": node_of(cluster, LOST)})
    cluster.faults.crash(lost.node)
    await eventually(lambda: phases(cluster)[LOST] == "Failed")
    seed = role_seed_path(deployed.credentials, "adjudicator")
    client = service_client_name("adjudicator", "test")
    async with connect(deployed.bus_urls, client, seed_path=seed) as bus:
        await leave_out(bus, lost)
        if not acting:  # then somebody else deletes it
            told = f'"verb": "delete_pod", "target": "{LOST}"'
            await eventually(lambda: any(told in deployed.log(pod) for pod in deployed.pods()))
            cluster.objects.delete(PODS, Ref(NAMESPACE, LOST), DeleteOptions(grace_seconds=0))
        await eventually(lambda: uids(cluster).get(LOST, lost.pod_uid) != lost.pod_uid)
        if acting:
            await seat(bus, cluster, EVICTED, job_uid)
    if acting:
        await drain(deployed, node_of(cluster, EVICTED))


async def seat(bus: Bus, cluster: Cluster, name: str, job_uid: str) -> None:
    """Rule that a pod is a member of a job that could go on without it."""
    found = {"job_uid": job_uid, "name": name, "pod_uid": uids(cluster)[name]}
    one = member(2).model_copy(update={**found, "node": node_of(cluster, name)})
    gang = GangSpec(min_member=1, max_member=3, nproc_per_node=1)
    seated = (one, member(3))
    ruled = record(5, seated, job=JOB, job_uid=job_uid, phase="resumed", gang=gang)
    entry = await bus.kv(JOBS).get(JOB.token)
    assert entry is not None
    await bus.kv(JOBS).put(JOB.token, ruled, expected=entry.revision)


async def drain(deployed: Deployment, node: str) -> None:
    """Ask for a node's drain, as an operator does."""
    seed = role_seed_path(deployed.credentials, "operator")
    client = service_client_name("operator", "test")
    wish = DrainNode(node=node, reason="new DIMMs", by="test", timeout_seconds=60.0)
    async with connect(deployed.bus_urls, client, seed_path=seed) as bus:
        standing = await bus.ask(wish, NodeStanding, timeout_seconds=10.0)
        assert standing.members == (f"{JOB} {EVICTED}",)


async def leave_out(bus: Bus, lost: Member) -> None:
    """Rule that the job goes on without a member, as the adjudicator does."""
    evidence = Evidence(kind="hardware_fault", incarnation=lost.incarnation, witness="w")
    ruled = record(
        4,
        (),
        job=JOB,
        job_uid=lost.job_uid,
        phase="resumed",
        incident="incident-4",
        excluded=(Exclusion(member=lost, evidence=(evidence,), since=NOW),),
    )
    await bus.kv(JOBS).put(JOB.token, ruled, expected=0)


async def all_are_used(rights: set[Right], cluster: Cluster, account: str) -> None:
    """Wait until each right was needed by some request of the account."""

    def unused() -> set[Right]:
        asked = calls_of(account, cluster.audit.calls)
        return {right for right in rights if not any(right.covers(call) for call in asked)}

    try:
        await eventually(lambda: not unused())
    except AssertionError:
        pytest.fail(f"{account} never needs {sorted(unused())}")
