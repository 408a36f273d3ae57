"""Following objects through everything that a watch can do: nothing is missed, nothing invented."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from everstep_kube.client import MAX_TRIES, Json, KubeClient, Request
from everstep_kube.followed import WatchTiming
from everstep_kube.sightings import Absent, Present
from everstep_kube.writing import NODES_PATH, PODS_PATH, ClusterApi
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Drop, Refuse, Rule
from support.following import TIMING, Count, change, create, delete, following, label
from support.polling import eventually

RECONNECTS = "everstep_kube_watch_reconnects_total"


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
    timed_out = Count(RECONNECTS, reason="read_timeout")
    async with following(client) as seen:
        create(cluster, "one")
        await eventually(lambda: seen.present == {"one"})
        await eventually(lambda: cluster.api.blackhole_watches(plural="pods"))
        create(cluster, "two")
        await eventually(lambda: seen.present == {"one", "two"})
        assert timed_out.moved == 1


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
        label(cluster, "one", None)
        create(cluster, "two")
        await eventually(lambda: "two" in seen.present)
        assert seen.told("one", Absent) == 0
        label(cluster, "one", "again")
        change(cluster, "one", "changed")
        await eventually(lambda: "changed" in {pod.value for pod in seen.states})


async def test_the_end_of_an_object_that_had_left_the_selector_is_told_by_the_next_list(
    cluster: Cluster, client: KubeClient
) -> None:
    create(cluster, "one")
    async with following(client) as seen:
        await eventually(lambda: seen.present == {"one"})
        label(cluster, "one", None)
        create(cluster, "two")
        await eventually(lambda: "two" in seen.present)
        delete(cluster, "one")
        cluster.api.expire_history()
        await eventually(lambda: seen.present == {"two"})


async def test_an_end_that_could_not_be_checked_at_first_is_not_lost(
    cluster: Cluster, client: KubeClient
) -> None:
    create(cluster, "one")
    async with following(client) as seen:
        await eventually(lambda: seen.present == {"one"})
        cluster.api.misbehaviour.add(Rule(Refuse(403), path="/pods/one", times=2))
        delete(cluster, "one")
        await eventually(lambda: not seen.present)


async def test_an_object_made_anew_under_its_name_ends_before_it_begins(
    cluster: Cluster, client: KubeClient
) -> None:
    create(cluster, "one")
    async with following(client) as seen:
        await eventually(lambda: seen.present == {"one"})
        (first,) = seen.states
        cluster.api.blackhole_watches()
        delete(cluster, "one")
        create(cluster, "one")
        cluster.api.expire_history()
        await eventually(lambda: seen.states - {first})
        assert seen.told("one", Absent) == 1


async def test_after_the_store_went_back_its_next_question_leads_to_a_list(
    cluster: Cluster, client: KubeClient
) -> None:
    went_back = Count("everstep_kube_store_went_back_total", plural="pods")
    before, store = cluster.objects.store.revision, cluster.objects.store
    store.forget_history(jump=100_000)
    async with following(client) as seen:
        create(cluster, "one")
        await eventually(lambda: seen.present == {"one"})
        store.revision = before
        create(cluster, "two")
        await eventually(lambda: seen.present == {"one", "two"})
        assert went_back.moved == 1


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
    monkeypatch.setattr("everstep_kube.watching.PAGE_OBJECTS", 2)
    names = {f"pod-{index}" for index in range(7)}
    for name in names:
        create(cluster, name)
    async with following(client) as seen:
        await eventually(lambda: seen.present == names)


async def test_a_list_that_takes_longer_than_the_bound_of_staleness_is_followed_by_a_watch(
    cluster: Cluster, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = client.call

    async def slowly(request: Request) -> Json:
        await asyncio.sleep(0.5 if "continue" in request.query else 0.0)
        return await whole(request)

    monkeypatch.setattr("everstep_kube.watching.PAGE_OBJECTS", 1)
    monkeypatch.setattr(client, "call", slowly)
    for index in range(5):
        create(cluster, f"pod-{index}")
    lists = Count("everstep_kube_lists_total", plural="pods")
    timing = WatchTiming(server_seconds=1, silence_seconds=1.2, stale_seconds=1.5)
    async with following(client, timing) as seen:
        await eventually(lambda: len(seen.present) == 5)
        assert seen.follower.is_stale
        change(cluster, "pod-0", "later")
        await eventually(lambda: "later" in {pod.value for pod in seen.states})
        await eventually(lambda: not seen.follower.is_stale)
    assert lists.moved == 1


async def test_ec02_only_a_watch_names_a_version_and_only_one_that_was_told(
    cluster: Cluster, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that names a version may be answered from a cache, however old, without a word."""
    asked: list[Request] = []
    sent = KubeClient._sent

    def spied(self: KubeClient, request: Request, *rest: Any) -> Any:
        asked.append(request)
        return sent(self, request, *rest)

    monkeypatch.setattr(KubeClient, "_sent", spied)
    async with following(client) as seen:
        create(cluster, "one")
        await eventually(lambda: seen.present == {"one"})
        cluster.api.expire_history()
        create(cluster, "two")
        await eventually(lambda: seen.present == {"one", "two"})
        delete(cluster, "one")
        await eventually(lambda: seen.present == {"two"})
    assert await ClusterApi(client).node("node-1") is not None
    watches = [request for request in asked if "watch" in request.query]
    others = [request for request in asked if "watch" not in request.query]
    assert all(int(request.query["resourceVersion"]) > 0 for request in watches)
    assert {request.path for request in others} >= {NODES_PATH + "/node-1", PODS_PATH}
    assert not any("resourceVersion" in request.query for request in others)


async def test_a_follower_outlives_any_number_of_failures(client: KubeClient) -> None:
    async with following(client) as seen:
        seen.follower._failures = 100_000
        assert seen.follower._pause_seconds() <= TIMING.longest_pause_seconds


@pytest.mark.parametrize("act", [Refuse(410), Refuse(500), Drop()])
async def test_ec02_a_list_that_fails_in_its_middle_deletes_nothing_and_is_begun_anew(
    cluster: Cluster, client: KubeClient, monkeypatch: pytest.MonkeyPatch, act: Refuse | Drop
) -> None:
    monkeypatch.setattr("everstep_kube.watching.PAGE_OBJECTS", 2)
    names = {f"pod-{index}" for index in range(5)}
    for name in names:
        create(cluster, name)
    async with following(client) as seen:
        await eventually(lambda: seen.present == names)
        cluster.api.misbehaviour.add(Rule(act, path="continue=", times=9))
        cluster.api.blackhole_watches()
        delete(cluster, "pod-0")
        cluster.api.expire_history()
        await eventually(lambda: seen.present == names - {"pod-0"})


async def test_ec02_when_the_past_is_forgotten_between_two_pages_the_list_is_begun_anew(
    cluster: Cluster, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everstep_kube.watching.PAGE_OBJECTS", 2)
    for index in range(5):
        create(cluster, f"pod-{index}")
    expired = Count(RECONNECTS, reason="gone")
    call, pages = KubeClient.call, 0

    async def spied(self: KubeClient, request: Request) -> dict[str, object]:
        nonlocal pages
        page = await call(self, request)
        if request.query.get("limit") == "2":
            pages += 1
            if pages == 1:
                delete(cluster, "pod-0")
                cluster.api.expire_history()
        return page

    monkeypatch.setattr(KubeClient, "call", spied)
    async with following(client) as seen:
        await eventually(lambda: seen.present == {f"pod-{index}" for index in range(1, 5)})
        assert expired.moved == 1
        assert seen.told("pod-0", Absent) == 1


async def test_ec02_after_half_a_list_nothing_older_is_told_than_what_it_told(
    cluster: Cluster, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everstep_kube.watching.PAGE_OBJECTS", 1)
    monkeypatch.setattr("everstep_kube.client.FIRST_BACKOFF_SECONDS", 0.01)
    for name in ("one", "two"):
        create(cluster, name)
    async with following(client, replace(TIMING, relist_seconds=1.0)) as seen:
        await eventually(lambda: seen.present == {"one", "two"} and cluster.api.open_watches)
        cluster.api.blackhole_watches()
        change(cluster, "one", "1")
        change(cluster, "one", "2")
        half = Rule(Refuse(500), path="continue=", times=MAX_TRIES)
        cluster.api.misbehaviour.add(half)
        await eventually(lambda: half.times == 0)
        heard = seen.heard
        await eventually(lambda: seen.heard >= heard + 2)
    told = [one.state.value for one in seen.sightings if isinstance(one, Present)]
    assert told == sorted(told)
    assert told[-1] == "2"
