"""When the API server does not prove that it still tells us, its word counts as unknown.

Each outage is one that leaves connections, caches or answers that look like life.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial

import pytest
from everstep_kube import client as tuning
from everstep_kube.client import KubeClient, connect
from everstep_kube.followed import WatchTiming
from everstep_kube.sightings import Absent
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Act, Drop, Hang, Refuse, Rule
from prometheus_client import REGISTRY
from support.following import TIMING, Count, Seen, change, create, delete, following
from support.polling import eventually

ALL = "/pods"
QUORUM_READS = r"^(?!.*(watch=true|resourceVersion=)).*/pods"
OUTAGES: dict[str, tuple[Act, str]] = {
    "all-hangs": (Hang(60.0), ALL),
    "all-breaks-off": (Drop(), ALL),
    "all-fails": (Refuse(500), ALL),
    "all-throttled": (Refuse(429, retry_after_seconds=1), ALL),
    "unknown-to-it": (Refuse(401), ALL),
    "forbidden": (Refuse(403), ALL),
    "the-store-hangs-behind-a-cache": (Hang(60.0), QUORUM_READS),
}
LISTS = "everstep_kube_lists_total"


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "CONNECT_SECONDS", 0.2)
    monkeypatch.setattr(tuning, "REQUEST_SECONDS", 0.3)


@pytest.fixture
async def seen(cluster: Cluster, client: KubeClient) -> AsyncIterator[Seen]:
    create(cluster, "one")
    async with following(client) as seen:
        await eventually(lambda: seen.present == {"one"} and not seen.follower.is_stale)
        yield seen


async def goes_stale_and_recovers(cluster: Cluster, seen: Seen) -> None:
    """The outage is noticed; once it is over, a list comes before any trust."""
    heard, lists = seen.heard, Count(LISTS, plural="pods")
    await eventually(lambda: seen.follower.is_stale)
    assert silent_seconds() > TIMING.stale_seconds
    change(cluster, "one", "changed meanwhile")
    create(cluster, "two")
    cluster.api.misbehaviour.clear()
    if not cluster.api.is_serving:
        await cluster.api.start()
    await eventually(lambda: not seen.follower.is_stale, within_seconds=recovery_bound())
    assert lists.moved >= 1
    assert seen.heard > heard
    assert seen.present == {"one", "two"}
    assert "changed meanwhile" in {pod.value for pod in seen.states}


def recovery_bound() -> float:
    """A pause and the try that was under way, then a list; and as much again for a busy machine."""
    return 4 * (TIMING.longest_pause_seconds + tuning.REQUEST_SECONDS + tuning.CONNECT_SECONDS)


def silent_seconds() -> float:
    sample = REGISTRY.get_sample_value("everstep_kube_silent_seconds", {"plural": "pods"})
    assert sample is not None
    return sample


async def test_a_quiet_cluster_is_not_stale(seen: Seen) -> None:
    heard = seen.heard
    await eventually(lambda: seen.heard >= heard + 3)
    assert not seen.follower.is_stale
    assert silent_seconds() < TIMING.stale_seconds


async def test_before_the_first_list_everything_is_unknown(
    cluster: Cluster, client: KubeClient
) -> None:
    cluster.api.misbehaviour.add(Rule(Refuse(503), path="/pods"))
    async with following(client) as seen:
        await asyncio.sleep(0)
        assert seen.follower.is_stale


async def test_ec01_a_server_that_answers_no_question_is_stale_although_watches_may_be_open(
    cluster: Cluster,
) -> None:
    create(cluster, "one")
    async with AsyncExitStack() as stack:
        every: list[Seen] = []
        for agent in OUTAGES:
            opened = connect(cluster.kubeconfig_path, user_agent=agent)
            client = await stack.enter_async_context(opened)
            every.append(await stack.enter_async_context(following(client)))
        await eventually(lambda: not any(seen.follower.is_stale for seen in every))
        for agent, (act, path) in OUTAGES.items():
            cluster.api.misbehaviour.add(Rule(act, path=path, user_agent=f"^{agent}$"))
        await eventually(lambda: all(seen.follower.is_stale for seen in every))
        change(cluster, "one", "changed meanwhile")
        cluster.api.misbehaviour.clear()
        recovered = [
            eventually(partial(is_recovered, seen), within_seconds=recovery_bound())
            for seen in every
        ]
        await asyncio.gather(*recovered)


def is_recovered(seen: Seen) -> bool:
    values = {pod.value for pod in seen.states}
    return not seen.follower.is_stale and values == {"changed meanwhile"}


async def test_ec01_a_server_that_is_down_is_stale(cluster: Cluster, seen: Seen) -> None:
    await cluster.api.kill()
    await goes_stale_and_recovers(cluster, seen)


async def test_ec01_a_server_that_ends_and_keeps_its_watches_open_and_quiet_is_stale(
    cluster: Cluster, seen: Seen
) -> None:
    await cluster.api.terminate(linger_seconds=TIMING.stale_seconds)
    await goes_stale_and_recovers(cluster, seen)


async def test_a_watch_that_ends_cleanly_before_its_time_costs_nothing(
    cluster: Cluster, seen: Seen
) -> None:
    lists = Count(LISTS, plural="pods")
    for watch in cluster.api.open_watches:
        watch.end()
    create(cluster, "two")
    await eventually(lambda: seen.present == {"one", "two"})
    assert lists.moved == 0


async def test_a_restored_store_is_told_as_it_is_now(cluster: Cluster, seen: Seen) -> None:
    went_back = Count("everstep_kube_store_went_back_total", plural="pods")
    create(cluster, "saved")
    await eventually(lambda: "saved" in seen.present)
    store = cluster.objects.store
    backup = store.backup()
    delete(cluster, "saved")
    for index in range(20):
        change(cluster, "one", f"lost-{index}")
    create(cluster, "lost")
    await eventually(lambda: seen.present == {"one", "lost"})
    await cluster.api.kill()
    store.restore(backup)
    await cluster.api.start()
    seen.dead_may_return = True
    await eventually(lambda: seen.present == {"one", "saved"})
    assert seen.told("lost", Absent) == 1
    assert {pod.value for pod in seen.states} == {""}
    assert went_back.moved == 1


def test_a_timing_under_which_a_quiet_cluster_looks_dead_is_refused() -> None:
    with pytest.raises(ValueError, match="quiet"):
        WatchTiming(server_seconds=10, silence_seconds=9.0)
