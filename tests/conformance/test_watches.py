"""Watches: what they tell, what they keep to themselves and how they end."""

import base64
import json
import secrets
import time

import pytest
import urllib3
from support.conformance.api import Api, Json, eventually
from support.conformance.ground import Ground

FUTURE = "9000000000000000"
QUICK_BOOKMARK_SECONDS, BOOKMARK_SECONDS = 3, 75


class Maps:
    """ConfigMaps of one test, under a label of their own."""

    def __init__(self, ground: Ground) -> None:
        self.api: Api = ground.api
        self.path = ground.path("configmaps")
        self.word = secrets.token_hex(4)
        self.selector = f"test={self.word}"

    def make(self, name: str) -> Json:
        metadata = {"name": f"{name}-{self.word}", "labels": {"test": self.word}}
        return self.api.post(self.path, {"metadata": metadata}).expect(201)

    def relabel(self, name: str, label: str) -> Json:
        body = {"metadata": {"labels": {"test": label}}}
        return self.api.patch(f"{self.path}/{name}-{self.word}", body).expect(200)

    def version(self) -> str:
        return self.api.get(self.path, labelSelector=self.selector).version

    def plain(self, event: Json) -> tuple[str, str]:
        return event["type"], event["object"]["metadata"]["name"].removesuffix(f"-{self.word}")


@pytest.fixture
def maps(ground: Ground) -> Maps:
    return Maps(ground)


@pytest.fixture
def forgotten(api: Api, maps: Maps, simulated: bool) -> None:
    """A server that has forgotten its first revisions."""
    if simulated:
        api.post("/everstep-sim/api/expire-history", None).expect(200)
    if api.get(maps.path, resourceVersion="1", resourceVersionMatch="Exact").status == 200:
        pytest.skip("this server is so young that it still knows its first revision")


@pytest.mark.usefixtures("forgotten")
def test_a_watch_from_a_forgotten_revision_is_200_with_one_error_event(maps: Maps) -> None:
    """410 in its first form: it does not show in the HTTP status."""
    with maps.api.watch(maps.path, resourceVersion="1", timeoutSeconds="5") as watch:
        assert watch.status == 200
        (event,) = watch.rest()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


@pytest.mark.usefixtures("forgotten")
def test_a_list_at_a_forgotten_revision_is_410_expired(maps: Maps) -> None:
    """410 in its second form."""
    answer = maps.api.get(maps.path, resourceVersion="1", resourceVersionMatch="Exact")
    assert (answer.status, answer.reason) == (410, "Expired")


@pytest.mark.usefixtures("forgotten")
def test_a_page_token_of_a_forgotten_revision_is_410_with_a_fresh_token(maps: Maps) -> None:
    """410 in its third form: the answer holds a token that goes on, though inconsistently."""
    position = {"v": "meta.k8s.io/v1", "rv": 1, "start": "/a\u0000"}
    token = base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")
    answer = maps.api.get(maps.path, limit="1", **{"continue": token})
    assert (answer.status, answer.reason) == (410, "Expired")
    fresh = {"continue": answer.body["metadata"]["continue"]}
    assert maps.api.get(maps.path, limit="1", **fresh).status == 200


def test_a_malformed_page_token_is_400(maps: Maps) -> None:
    assert maps.api.get(maps.path, limit="1", **{"continue": "garbage"}).status == 400


def test_a_watch_from_the_future_is_silent_and_ends_in_order(maps: Maps) -> None:
    """As after etcd was restored from an older backup: changes made meanwhile are not told."""
    with maps.api.watch(maps.path, resourceVersion=FUTURE, timeoutSeconds="2") as watch:
        assert watch.status == 200
        maps.make("one")
        assert watch.rest() == []


def test_a_list_from_the_future_is_504_after_three_seconds(maps: Maps) -> None:
    """Timeout, ResourceVersionTooLarge, to be tried again in a second."""
    began = time.monotonic()
    answer = maps.api.get(maps.path, resourceVersion=FUTURE)
    assert (answer.status, answer.reason) == (504, "Timeout")
    assert answer.causes == {"ResourceVersionTooLarge"}
    assert answer.headers["Retry-After"] == "1"
    assert 2.5 < time.monotonic() - began < 10


@pytest.mark.timeout(150)
def test_bookmarks_come_no_more_often_than_once_a_minute(maps: Maps, simulated: bool) -> None:
    """Their revision may stand still. On the simulated cluster a minute is a second."""
    since = maps.version()
    seconds = QUICK_BOOKMARK_SECONDS if simulated else BOOKMARK_SECONDS
    options = {
        "resourceVersion": since,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(seconds),
        "labelSelector": maps.selector,
    }
    with maps.api.watch(maps.path, **options) as watch:
        events = watch.rest(within_seconds=seconds + 20)
    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert 1 <= len(events) <= 3
    for event in events:
        assert event["object"]["kind"] == "ConfigMap"
        assert int(event["object"]["metadata"]["resourceVersion"]) >= int(since)


def test_no_bookmarks_come_to_who_does_not_ask(maps: Maps) -> None:
    options = {"resourceVersion": maps.version(), "timeoutSeconds": "2"}
    with maps.api.watch(maps.path, labelSelector=maps.selector, **options) as watch:
        assert watch.rest() == []


def test_what_leaves_a_selection_is_told_as_deleted_and_is_still_there(maps: Maps) -> None:
    """Never read DELETED on a selector watch as gone. It comes back as ADDED."""
    maps.make("one")
    options = {"labelSelector": maps.selector, "resourceVersion": maps.version()}
    with maps.api.watch(maps.path, **options) as watch:
        left = maps.relabel("one", "other")
        deleted = watch.next()
        assert maps.plain(deleted) == ("DELETED", "one")
        assert deleted["object"]["metadata"]["labels"] == {"test": maps.word}
        version = deleted["object"]["metadata"]["resourceVersion"]
        assert version == left["metadata"]["resourceVersion"]
        assert maps.api.get(f"{maps.path}/one-{maps.word}").status == 200
        maps.relabel("one", maps.word)
        assert maps.plain(watch.next()) == ("ADDED", "one")


@pytest.mark.parametrize("version", ["", "0"])
def test_a_watch_without_a_revision_first_tells_what_is_there(version: str, maps: Maps) -> None:
    """The same for revision 0; what was there is told as ADDED."""
    maps.make("one")
    options = {"resourceVersion": version} if version else {}

    def told() -> list[Json]:
        with maps.api.watch(maps.path, labelSelector=maps.selector, **options) as watch:
            first = watch.next()
            maps.relabel("one", "other")
            events = [first, watch.next()]
        maps.relabel("one", maps.word)
        return events

    assert [maps.plain(event) for event in told()] == [("ADDED", "one"), ("DELETED", "one")]


def test_a_watch_resumes_after_the_revision_it_names(maps: Maps) -> None:
    maps.make("one")
    since = maps.version()
    maps.make("two")
    options = {"labelSelector": maps.selector, "resourceVersion": since}
    with maps.api.watch(maps.path, **options) as watch:
        assert maps.plain(watch.next()) == ("ADDED", "two")
        maps.make("three")
        assert maps.plain(watch.next()) == ("ADDED", "three")


def test_a_watch_of_a_malformed_revision_is_500(maps: Maps) -> None:
    """Not 400, as one would think."""
    with maps.api.watch(maps.path, resourceVersion="abc", timeoutSeconds="1") as watch:
        assert watch.status == 500


def test_a_watch_ends_in_order_at_its_timeout(maps: Maps) -> None:
    options = {"resourceVersion": maps.version(), "timeoutSeconds": "1"}
    with maps.api.watch(maps.path, labelSelector=maps.selector, **options) as watch:
        assert watch.rest() == []


def test_a_streamed_list_ends_with_an_annotated_bookmark(maps: Maps) -> None:
    """``sendInitialEvents``: an ADDED for each object, then a bookmark that says that was all."""
    maps.make("one")
    options = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "labelSelector": maps.selector,
        "timeoutSeconds": "2",
    }
    with maps.api.watch(maps.path, **options) as watch:
        if watch.status == 422:
            pytest.skip("this server streams no lists")
        first, end, *_ = watch.rest()
    assert maps.plain(first) == ("ADDED", "one")
    assert end["type"] == "BOOKMARK"
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_paged_list_shows_one_moment_even_when_things_change(maps: Maps) -> None:
    """With a selector the number of remaining items is not told."""
    for name in ("a", "b", "c"):
        maps.make(name)
    first = maps.api.get(maps.path, labelSelector=maps.selector, limit="2").expect(200)
    maps.make("bb")
    rest = {"continue": first["metadata"]["continue"]}
    second = maps.api.get(maps.path, labelSelector=maps.selector, limit="2", **rest).expect(200)
    names = [item["metadata"]["name"] for item in (*first["items"], *second["items"])]
    assert names == [f"{name}-{maps.word}" for name in ("a", "b", "c")]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "remainingItemCount" not in first["metadata"]


def test_items_of_a_list_of_built_in_objects_carry_no_kind(maps: Maps) -> None:
    maps.make("one")
    listed = maps.api.get(maps.path, labelSelector=maps.selector).expect(200)
    assert listed["kind"] == "ConfigMapList"
    assert "kind" not in listed["items"][0]


@pytest.mark.simulated
def test_after_a_restart_resuming_a_quiet_watch_is_410_though_nothing_was_missed(
    maps: Maps,
) -> None:
    """The cache of the new server begins at the revision it finds, and others moved that on."""
    maps.make("one")
    since = maps.version()
    maps.api.post("/everstep-sim/api/restart", None).expect(200)

    def resumed() -> list[Json]:
        try:
            with maps.api.watch(maps.path, resourceVersion=since, timeoutSeconds="1") as watch:
                return watch.rest()
        except (OSError, urllib3.exceptions.HTTPError):
            return []

    (event,) = eventually(resumed, "the server is back and has forgotten")
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
