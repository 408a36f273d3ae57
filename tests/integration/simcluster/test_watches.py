"""Watches behave, and misbehave, as those of a real API server."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from everstep_simcluster.api_server import ApiServer
from everstep_simcluster.objects import Objects
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import CONFIG_MAPS, NAMESPACES
from everstep_simcluster.store import Ref, Store
from support.polling import eventually

MAPS = "/api/v1/namespaces/default/configmaps"


class Follower:
    """A client's end of one watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self._response.content.readline(), 10)
        assert line, "the watch ended"
        event: dict[str, Any] = json.loads(line)
        return event

    async def rest(self) -> list[dict[str, Any]]:
        text = (await asyncio.wait_for(self._response.read(), 10)).decode()
        return [json.loads(line) for line in text.splitlines()]

    async def silent_for(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._response.content.readline(), seconds)
        except TimeoutError:
            return True
        return False


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    server = ApiServer(Objects(Store()), bookmark_interval_seconds=0.2)
    server.objects.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    await server.start()
    yield server
    await server.kill()


@pytest.fixture
async def session(server: ApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as session:
        yield session


def create(server: ApiServer, name: str, **labels: str) -> None:
    server.objects.create(CONFIG_MAPS, "default", {"metadata": {"name": name, "labels": labels}})


def relabel(server: ApiServer, name: str, **labels: str | None) -> None:
    patch = Patch(MERGE_PATCH, {"metadata": {"labels": labels}})
    server.objects.patch(CONFIG_MAPS, Ref("default", name), patch)


async def follow(session: aiohttp.ClientSession, **query: str) -> Follower:
    options = {"watch": "true", "timeoutSeconds": "20", **query}
    response = await session.get(MAPS, params=options)
    assert response.status == 200
    return Follower(response)


def revision(server: ApiServer) -> str:
    return str(server.objects.store.revision)


async def test_a_watch_resumes_after_the_revision_it_names(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    create(server, "one")
    since = revision(server)
    create(server, "two")
    watch = await follow(session, resourceVersion=since)
    create(server, "three")
    events = [await watch.next(), await watch.next()]
    assert [event["object"]["metadata"]["name"] for event in events] == ["two", "three"]


async def test_a_watch_without_a_revision_first_tells_what_is_there(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    create(server, "one")
    watch = await follow(session)
    first = await watch.next()
    create(server, "two")
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "one")
    assert (await watch.next())["object"]["metadata"]["name"] == "two"


async def test_an_object_that_leaves_the_selection_shows_as_deleted_and_comes_back_as_added(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    create(server, "one", app="train")
    watch = await follow(session, resourceVersion=revision(server), labelSelector="app=train")
    relabel(server, "one", app="other")
    relabel(server, "one", app="train")
    left, back = await watch.next(), await watch.next()
    assert (left["type"], back["type"]) == ("DELETED", "ADDED")
    assert left["object"]["metadata"]["labels"] == {"app": "train"}


async def test_a_watch_ends_cleanly_at_its_timeout(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    watch = await follow(session, resourceVersion=revision(server), timeoutSeconds="1")
    assert await watch.rest() == []


async def test_bookmarks_come_only_to_who_asks_for_them(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    since = revision(server)
    asked = await follow(session, resourceVersion=since, allowWatchBookmarks="true")
    unasked = await follow(session, resourceVersion=since)
    bookmark = await asked.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["resourceVersion"] == since
    assert await unasked.silent_for(0.3)


async def test_a_streamed_list_ends_with_an_annotated_bookmark(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    create(server, "one")
    watch = await follow(
        session, sendInitialEvents="true", allowWatchBookmarks="true",
        resourceVersionMatch="NotOlderThan",
    )  # fmt: skip
    assert (await watch.next())["type"] == "ADDED"
    end = await watch.next()
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_from_the_future_is_silent_whatever_happens(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    watch = await follow(session, resourceVersion="99999999", timeoutSeconds="1")
    create(server, "one")
    assert await watch.rest() == []


async def test_a_list_from_the_future_times_out(session: aiohttp.ClientSession) -> None:
    async with session.get(MAPS, params={"resourceVersion": "99999999"}) as response:
        body = await response.json()
    assert (response.status, response.headers["Retry-After"]) == (504, "1")
    assert body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_a_malformed_revision_is_a_server_error(session: aiohttp.ClientSession) -> None:
    async with session.get(MAPS, params={"watch": "1", "resourceVersion": "abc"}) as response:
        assert response.status == 500


async def test_a_killed_server_breaks_the_watch_and_resuming_it_is_410(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    since = revision(server)
    watch = await follow(session, resourceVersion=since)
    await server.restart()
    with pytest.raises(aiohttp.ClientPayloadError):
        await watch.rest()
    resumed = await follow(session, resourceVersion=since)
    (event,) = await resumed.rest()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_a_terminated_server_refuses_connections_while_its_watches_are_quiet(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    watch = await follow(session, resourceVersion=revision(server))
    ending = asyncio.create_task(server.terminate(linger_seconds=0.5))
    await eventually(lambda: all(open_watch.blackholed for open_watch in server.open_watches))
    create(server, "one")
    async with aiohttp.ClientSession(server.url) as newcomer:
        with pytest.raises(aiohttp.ClientConnectorError):
            await newcomer.get(MAPS)
    assert await watch.rest() == []
    await ending


async def test_a_blackholed_watch_stays_open_and_says_nothing(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    watch = await follow(session, resourceVersion=revision(server), timeoutSeconds="1")
    assert server.blackhole_watches(plural="configmaps") == 1
    create(server, "one")
    assert await watch.silent_for(1.3)  # not even the end of its time is told
    assert len(server.open_watches) == 1


async def test_a_client_that_hangs_up_leaves_no_watch_behind(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    response = await session.get(MAPS, params={"watch": "true"})
    await eventually(lambda: len(server.open_watches) == 1)
    response.close()
    await eventually(lambda: not server.open_watches)


async def test_a_paged_list_shows_one_moment_even_when_things_change(
    server: ApiServer, session: aiohttp.ClientSession
) -> None:
    for name in ("a", "b", "c"):
        create(server, name)
    async with session.get(MAPS, params={"limit": "2"}) as response:
        first = await response.json()
    create(server, "d")
    token = first["metadata"]["continue"]
    async with session.get(MAPS, params={"limit": "2", "continue": token}) as response:
        second = await response.json()
    assert [item["metadata"]["name"] for item in second["items"]] == ["c"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
