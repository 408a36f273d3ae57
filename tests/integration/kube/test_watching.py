"""Following objects through everything that a watch can do: nothing is missed, nothing invented."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from everstep_kube.client import KubeClient, Request
from everstep_kube.watching import Absent, Followed, Follower, Present, Sighting, WatchTiming
from everstep_kube.writing import PODS_PATH
from everstep_runtime.clock import SystemClock
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Refuse, Rule
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import PODS
from everstep_simcluster.store import Ref
from prometheus_client import REGISTRY
from support.polling import collected, eventually
from support.simcluster import NAMESPACE, pod_manifest

TIMING = WatchTiming(server_seconds=1, silence_seconds=1.5, relist_seconds=300.0)
LABEL = "everstep.test/followed"


class Seen:
    """What a follower told, folded."""

    def __init__(self, sightings: list[Sighting]) -> None:
        self.sightings = sightings

    @property
    def present(self) -> set[str]:
        names: dict[str, str] = {}
        for sighting in self.sightings:
            if isinstance(sighting, Present):
                names[sighting.object["metadata"]["uid"]] = sighting.object["metadata"]["name"]
            elif isinstance(sighting, Absent):
                names.pop(sighting.object["metadata"]["uid"], None)
        return set(names.values())

    def told(self, name: str, kind: type[Present] | type[Absent]) -> int:
        return sum(
            isinstance(sighting, kind) and sighting.object["metadata"]["name"] == name
            for sighting in self.sightings
        )


@asynccontextmanager
async def following(
    client: KubeClient, timing: WatchTiming = TIMING, selector: str = LABEL
) -> AsyncIterator[Seen]:
    follower = Follower(client, Followed(PODS_PATH, selector), SystemClock(), timing)
    async with collected(follower.sightings()) as sightings:
        yield Seen(sightings)


def create(cluster: Cluster, name: str) -> None:
    manifest = pod_manifest(name, ["sleep", "1000"], nodeName="nowhere")
    manifest["metadata"]["labels"] = {LABEL: "yes"}
    cluster.objects.create(PODS, NAMESPACE, manifest)


def delete(cluster: Cluster, name: str) -> None:
    cluster.objects.store.remove(PODS, Ref(NAMESPACE, name))


async def test_what_is_there_and_what_changes_is_told_once(
    cluster: Cluster, client: KubeClient
) -> None:
    create(cluster, "one")
    async with following(client) as seen:
        await eventually(lambda: seen.present == {"one"})
        create(cluster, "two")
        delete(cluster, "one")
        await eventually(lambda: seen.present == {"two"})
        assert (seen.told("one", Present), seen.told("one", Absent)) == (1, 1)


async def test_ec01_a_watch_that_hangs_half_open_is_given_up_and_nothing_missed(
    cluster: Cluster, client: KubeClient
) -> None:
    before = reconnects("no_answer")
    async with following(client, replace(TIMING, server_seconds=60)) as seen:
        create(cluster, "one")
        await eventually(lambda: seen.present == {"one"})
        await eventually(lambda: cluster.api.blackhole_watches(plural="pods"))
        create(cluster, "two")
        await eventually(lambda: seen.present == {"one", "two"})
    assert reconnects("no_answer") == before + 1


async def test_ec02_an_expired_version_leads_to_one_list_and_the_missed_deletion(
    cluster: Cluster, client: KubeClient
) -> None:
    create(cluster, "one")
    create(cluster, "two")
    async with following(client) as seen:
        await eventually(lambda: seen.present == {"one", "two"})
        await eventually(lambda: cluster.api.blackhole_watches(plural="pods"))
        delete(cluster, "one")
        cluster.api.expire_history()
        await eventually(lambda: seen.present == {"two"})
        assert seen.told("two", Present) == 1


async def test_a_restarted_api_server_is_followed_on(cluster: Cluster, client: KubeClient) -> None:
    create(cluster, "one")
    async with following(client) as seen:
        await eventually(lambda: seen.present == {"one"})
        await cluster.api.restart()
        create(cluster, "two")
        await eventually(lambda: seen.present == {"one", "two"})


async def test_an_object_that_only_leaves_the_selector_is_not_told_as_gone(
    cluster: Cluster, client: KubeClient
) -> None:
    create(cluster, "one")
    async with following(client) as seen:
        await eventually(lambda: seen.present == {"one"})
        unlabel = Patch(MERGE_PATCH, {"metadata": {"labels": {LABEL: None}}})
        cluster.objects.patch(PODS, Ref(NAMESPACE, "one"), unlabel)
        create(cluster, "two")
        await eventually(lambda: "two" in seen.present)
        assert seen.told("one", Absent) == 0


async def test_after_the_store_went_back_the_silent_watch_is_caught_by_the_next_list(
    cluster: Cluster, client: KubeClient
) -> None:
    before, store = cluster.objects.store.revision, cluster.objects.store
    store.forget_history(jump=100_000)
    async with following(client, replace(TIMING, relist_seconds=2.0)) as seen:
        create(cluster, "one")
        await eventually(lambda: seen.present == {"one"})
        store.revision = before
        create(cluster, "two")
        await eventually(lambda: seen.present == {"one", "two"})


async def test_a_refused_watch_is_tried_again_until_it_is_allowed(
    cluster: Cluster, client: KubeClient
) -> None:
    cluster.api.misbehaviour.add(Rule(Refuse(403), path="watch=true", times=3))
    async with following(client) as seen:
        create(cluster, "one")
        await eventually(lambda: seen.present == {"one"})


async def test_a_long_list_is_read_page_by_page(
    cluster: Cluster, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everstep_kube.watching.PAGE_OBJECTS", "2")
    names = {f"pod-{index}" for index in range(7)}
    for name in names:
        create(cluster, name)
    async with following(client) as seen:
        await eventually(lambda: seen.present == names)


async def test_no_request_carries_a_version_that_is_none(
    cluster: Cluster, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions: list[str | None] = []
    get = Follower._get

    def spied(self: Follower, query: dict[str, str]) -> Request:
        request = get(self, query)
        versions.append(request.query.get("resourceVersion"))
        return request

    monkeypatch.setattr(Follower, "_get", spied)
    async with following(client) as seen:
        create(cluster, "one")
        await eventually(lambda: seen.present == {"one"})
        cluster.api.expire_history()
        create(cluster, "two")
        await eventually(lambda: seen.present == {"one", "two"})
    assert versions
    assert all(version is None or version.isdigit() for version in versions)


def reconnects(reason: str) -> float:
    labels = {"reason": reason}
    return REGISTRY.get_sample_value("everstep_kube_watch_reconnects_total", labels) or 0.0
