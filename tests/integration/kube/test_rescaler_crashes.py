"""A rescaler that dies between a write and its record: what its successor finds, and repeats."""

import signal
from functools import partial
from pathlib import Path

from everstep_contract.envelope import decode
from everstep_contract.facts.node import NodeQuarantined
from everstep_contract.layout import EVENTS, JOBS, NODES
from everstep_contract.names import encode_name
from everstep_contract.record import Exclusion, JobRecord
from everstep_contract.verdicts import Evidence
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Drop, Rule
from support.jobs import NOW, record
from support.nats_world import NatsWorld
from support.polling import eventually
from support.rescaling_scene import DURATIONS, JOB, OURS, Scene
from support.service_processes import service_process, settings_of
from support.simcluster import phases, uids


def acting(world: NatsWorld, cluster: Cluster) -> dict[str, str]:
    return {
        **settings_of("rescaler", world.server.url, world.credentials),
        "EVERSTEP_CLUSTER": "kubernetes",
        "EVERSTEP_KUBECONFIG_PATH": str(cluster.kubeconfig_path),
        "EVERSTEP_MODE": "act",
    }


def used(rule: Rule) -> bool:
    return rule.times == 0


def ruled(scene: Scene, generation: int = 4) -> JobRecord:
    """The second member is left out, for its hardware."""
    lost = scene.members[1]
    evidence = Evidence(kind="hardware_fault", incarnation=lost.incarnation, witness="w")
    excluded = (Exclusion(member=lost, evidence=(evidence,), since=NOW),)
    return record(
        generation,
        (scene.members[0], scene.members[2]),
        job=JOB,
        job_uid=lost.job_uid,
        phase="resumed",
        incident="incident-4",
        durations=DURATIONS,
        excluded=excluded,
    )


async def test_r25_a_rescaler_killed_between_write_and_record_is_finished_by_the_next_and_once(
    scene: Scene, tmp_path: Path
) -> None:
    cluster, lost = scene.cluster, scene.members[1]
    world = NatsWorld(tmp_path)
    await world.start()
    cluster.faults.crash(lost.node)
    await eventually(lambda: phases(cluster).get(lost.name) == "Failed")
    adjudicator = await world.service("adjudicator")
    await adjudicator.kv(JOBS).put(JOB.token, ruled(scene), expected=0)
    unheard = [
        Rule(Drop(applied=True), method="PATCH", path=f"/nodes/{lost.node}", times=1),
        Rule(Drop(applied=True), method="DELETE", path=f"/pods/{lost.name}", times=1),
    ]
    for number, rule in enumerate(unheard):
        cluster.api.misbehaviour.add(rule)
        log = tmp_path / f"victim-{number}"
        async with service_process("rescaler", acting(world, cluster), log) as victim:
            await eventually(partial(used, rule))
            victim.signal(signal.SIGKILL)
            await victim.ended()
    assert (await adjudicator.kv(NODES).get(encode_name(lost.node))) is not None
    await eventually(lambda: uids(cluster).get(lost.name, lost.pod_uid) != lost.pod_uid)
    successor = uids(cluster)[lost.name]
    async with service_process("rescaler", acting(world, cluster), tmp_path / "heir") as heir:
        await eventually(heir.is_ready)
        entry = await adjudicator.kv(JOBS).get(JOB.token)
        assert entry is not None
        await adjudicator.kv(JOBS).put(JOB.token, ruled(scene, 5), expected=entry.revision)
        await eventually(lambda: scene.generation() == "5")
    marks = cluster.audit.matching(method="PATCH", path=f"/nodes/{lost.node}", user_agent=OURS)
    assert [write.status for write in marks] == [200]
    deletions = cluster.audit.matching(method="DELETE", path="/pods/", user_agent=OURS)
    assert {write.body["preconditions"]["uid"] for write in deletions} == {lost.pod_uid}
    assert uids(cluster)[lost.name] == successor
    stored = await world.stored(EVENTS.name)
    facts = [decode(headers, payload) for _, headers, payload in stored]
    told = [fact for fact in facts if isinstance(fact, NodeQuarantined)]
    assert [fact.incident for fact in told] == ["incident-4"]
    await world.close()
