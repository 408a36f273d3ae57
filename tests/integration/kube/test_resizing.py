"""The rescaler changes a Job's size on the simulated API server: EC-09, EC-19, EC-05."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
from everstep_bus.background import background
from everstep_bus.memory import CALM, MemoryBroker, MemoryBus
from everstep_contract.envelope import decode
from everstep_contract.facts.job import ClusterWritten, RescaleAnswered
from everstep_contract.identity import JobKey
from everstep_contract.layout import EVENTS, JOBS
from everstep_contract.record import JobRecord
from everstep_contract.rescaling import JobSize, Rescale
from everstep_kube.client import connect
from everstep_kube.errors import ConflictError
from everstep_kube.resizing import Resizing
from everstep_kube.writing import ClusterApi
from everstep_rescaler.cluster_policy import ClusterPolicy
from everstep_rescaler.cluster_service import serve_cluster
from everstep_runtime.clock import SystemClock
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Drop, Refuse, Rule
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import JOBS as VOLCANO_JOBS
from everstep_simcluster.resources import POD_GROUPS
from everstep_simcluster.store import Ref
from support.jobs import NOW, member, record
from support.polling import eventually
from support.simcluster import NAMESPACE, job_manifest, phases, running, uids

JOB = JobKey(namespace=NAMESPACE, name="train")
OURS = "everstep-rescaler"
THREE, TWO = JobSize(replicas=3, min_available=2), JobSize(replicas=2, min_available=2)


class Scene:
    """A job of three pods, a bus, and a rescaler at work."""

    def __init__(self, cluster: Cluster, broker: MemoryBroker, uid: str) -> None:
        self.cluster = cluster
        self.broker = broker
        self.bus = MemoryBus(broker, "everstep.adjudicator.1")
        self.uid = uid

    async def put(
        self, size: JobSize, *, stage: str = "granted", seats: int = 2, generation: int = 4
    ) -> JobRecord:
        """The adjudicator's record: a wish, and who is seated."""
        wish = Rescale.model_validate(
            {"id": "w", "size": size, "stage": stage, "reason": "r", "asked_at": NOW,
             "size_before": THREE}
        )  # fmt: skip
        pods = self.cluster.pods(NAMESPACE)
        members = tuple(
            member(i).model_copy(
                update={"name": pod["metadata"]["name"], "pod_uid": pod["metadata"]["uid"]}
            )
            for i, pod in enumerate(pods[:seats])
        )
        ruled = record(
            generation, members, job=JOB, job_uid=self.uid, phase="resumed", rescale=wish
        )
        entry = await self.bus.kv(JOBS).get(JOB.token)
        await self.bus.kv(JOBS).put(JOB.token, ruled, expected=entry.revision if entry else 0)
        return ruled

    async def looked_again(self) -> None:
        """The rescaler has looked at the whole job at least once more."""
        entry = await self.bus.kv(JOBS).get(JOB.token)
        assert entry is not None
        assert entry.value is not None
        assert entry.value.rescale is not None
        for generation in (5, 6):
            await self.put(entry.value.rescale.size, generation=generation)
            await eventually(partial(self.is_annotated, str(generation)))

    def is_annotated(self, generation: str) -> bool:
        return self.annotation() == generation

    def annotation(self) -> str:
        return str((self.job()["metadata"].get("annotations") or {}).get("everstep.dev/generation"))

    def facts(self) -> list[Any]:
        stored = self.broker.stream(EVENTS).after(0)
        return [decode(dict(one.headers), one.payload) for one in stored]

    def answers(self) -> list[str]:
        """What the rescaler said of the wish."""
        return [fact.answer for fact in self.facts() if isinstance(fact, RescaleAnswered)]

    def told(self) -> list[str]:
        """Outcomes of changes of the size, as the audit on the bus has them."""
        return [
            fact.outcome
            for fact in self.facts()
            if isinstance(fact, ClusterWritten) and fact.verb == "rescale"
        ]

    def patches(self) -> list[Any]:
        """Bodies of changes of the Job that are no annotation."""
        writes = self.cluster.audit.matching(method="PATCH", path="/jobs/train", user_agent=OURS)
        return [write.body for write in writes if isinstance(write.body, list)]

    def job(self) -> Any:
        return self.cluster.objects.get(VOLCANO_JOBS, Ref(NAMESPACE, "train"))


@pytest.fixture
async def scene(cluster: Cluster) -> AsyncIterator[Scene]:
    uid = cluster.create_job(job_manifest())["metadata"]["uid"]
    await cluster.wait_for(running(cluster, 3))
    broker = MemoryBroker(CALM)
    async with AsyncExitStack() as stack:
        opened = connect(cluster.kubeconfig_path, user_agent=f"{OURS}/1")
        api = ClusterApi(await stack.enter_async_context(opened))
        bus = MemoryBus(broker, "everstep.rescaler.one")
        policy = ClusterPolicy(act=True, look_seconds=0.05)
        work = serve_cluster(bus, api, policy, SystemClock(), holder="one")
        await stack.enter_async_context(background(work))
        yield Scene(cluster, broker, uid)


async def test_ec09_ec19_the_job_gets_smaller_by_one_patch_of_its_counts_with_tests_first(
    scene: Scene,
) -> None:
    job, before = scene.job(), uids(scene.cluster)
    await scene.put(TWO, stage="asked", seats=3)
    await eventually(lambda: scene.answers() == ["possible"])
    await scene.put(TWO, seats=3)
    await eventually(lambda: scene.annotation() == "4")
    assert scene.patches() == []  # the third is seated: its pod would go
    await scene.put(TWO, seats=2)
    await scene.cluster.wait_for(running(scene.cluster, 2))
    await eventually(lambda: scene.answers() == ["possible", "done"])
    (patch,) = scene.patches()
    assert [(one["op"], one["path"]) for one in patch] == [
        ("test", "/metadata/uid"),
        ("test", "/metadata/resourceVersion"),
        ("replace", "/spec/tasks/0/replicas"),
        ("replace", "/spec/tasks/0/minAvailable"),
        ("replace", "/spec/minAvailable"),
    ]
    assert [one["value"] for one in patch[2:]] == [2, 2, 2]
    assert patch[0]["value"] == job["metadata"]["uid"]
    assert scene.told() == ["done"]
    del before["train-worker-2"]
    assert uids(scene.cluster) == before


async def test_the_job_gets_larger_and_volcano_makes_the_pods(scene: Scene) -> None:
    four = JobSize(replicas=4, min_available=2)
    await scene.put(four, seats=3)
    await eventually(lambda: "train-worker-3" in phases(scene.cluster))
    await eventually(lambda: scene.answers() == ["done"])
    assert len(scene.patches()) == 1


async def test_ec19_a_denial_of_the_webhook_is_final_and_told_in_its_words(scene: Scene) -> None:
    await scene.put(JobSize(replicas=2, min_available=3), seats=2)
    await eventually(lambda: scene.answers() == ["refused"])
    await scene.looked_again()
    assert len(scene.patches()) == 1
    (answer,) = [fact for fact in scene.facts() if isinstance(fact, RescaleAnswered)]
    assert "'minAvailable' must be <= 'replicas' in task: worker" in answer.detail
    assert scene.told() == ["refused"]


async def test_ec19_a_missing_right_is_told_and_not_tried_again(scene: Scene) -> None:
    forbidden = Rule(Refuse(403), method="PATCH", path="/jobs/train", user_agent=OURS)
    scene.cluster.api.misbehaviour.add(forbidden)
    await scene.put(TWO)
    await eventually(lambda: scene.answers() == ["refused"])
    assert scene.told() == ["refused"]
    assert len(phases(scene.cluster)) == 3


async def test_ec05_an_answer_that_is_lost_changes_the_job_once(scene: Scene) -> None:
    unheard = Rule(Drop(applied=True), method="PATCH", path="/jobs/train", user_agent=OURS, times=1)
    scene.cluster.api.misbehaviour.add(unheard)
    await scene.put(TWO)
    await eventually(lambda: scene.answers() == ["done"])
    assert scene.job()["metadata"]["generation"] == 2  # a spec that was changed once
    assert len(phases(scene.cluster)) == 2


async def test_a_webhook_that_is_down_is_tried_again_until_it_is_back(scene: Scene) -> None:
    down = Rule(Refuse(500), method="PATCH", path="/jobs/train", user_agent=OURS, times=5)
    scene.cluster.api.misbehaviour.add(down)
    await scene.put(TWO)
    await eventually(lambda: scene.answers() == ["done"])


async def test_a_job_that_changed_since_it_was_read_is_a_conflict(
    cluster: Cluster, scene: Scene
) -> None:
    async with connect(cluster.kubeconfig_path, user_agent="test") as client:
        sizes = Resizing(client)
        read = await sizes.read(JOB)
        assert read is not None
        label = Patch(MERGE_PATCH, {"metadata": {"labels": {"team": "b"}}})
        cluster.objects.patch(VOLCANO_JOBS, Ref(NAMESPACE, "train"), label)
        with pytest.raises(ConflictError):
            await sizes.change(read, TWO)
    assert scene.job()["spec"]["tasks"][0]["replicas"] == 3


async def test_ec64_a_pod_group_that_contradicts_its_pods_changes_nothing(scene: Scene) -> None:
    (group,) = scene.cluster.objects.every(POD_GROUPS, NAMESPACE)
    lie = {"phase": "Inqueue", "conditions": [{"type": "Unschedulable", "status": "True"}]}
    ref = Ref(NAMESPACE, group["metadata"]["name"])
    scene.cluster.objects.patch(POD_GROUPS, ref, Patch(MERGE_PATCH, {"status": lie}))
    await scene.put(TWO, stage="asked", seats=3)
    await eventually(lambda: scene.answers() == ["possible"])
    ours = scene.cluster.audit.matching(user_agent=OURS)
    assert [write.path for write in ours if "podgroups" in write.path] == []
    read = {call.resource for call in scene.cluster.audit.calls if OURS in call.user_agent}
    assert "podgroups" not in read
