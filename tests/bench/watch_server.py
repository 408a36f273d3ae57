"""An API server of a large cluster that only lists and watches, for the bench of the watcher.

Nodes are as large as real ones and differ in what differs there. Lists are paged and compressed,
watches go on from a version, expire and send bookmarks, as the recorded API server does.
"""

import argparse
import asyncio
import gzip
import json
import random
import sys
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, Final

from aiohttp import web
from bench.watch_objects import Node, Pod, job_document

KEPT_EVENTS: Final = 30_000
"""A watch from an older version has expired; the real server keeps 75 s or more."""
COMPRESSED_BYTES: Final = 128 * 1024
"""Longer answers are compressed, as by the real API server."""
TURN_SECONDS: Final = 0.1
FIRST_VERSION: Final = 1_000_000


Document = Callable[[], bytes]
"""Makes an object's JSON: thousands of them would fill the memory."""


class Collection:
    """Objects of one kind, and the newest changes to them."""

    def __init__(self, kind: str, api_version: str) -> None:
        self.kind = kind
        self.api_version = api_version
        self.documents: list[Document] = []
        self.events: deque[tuple[int, Document]] = deque(maxlen=KEPT_EVENTS)
        self.changed = asyncio.Event()


class Cluster:
    """All collections under one version, and what changes in them while time passes."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.version = FIRST_VERSION
        self.counts: Counter[str] = Counter()
        self._chosen = chosen
        self._random = random.Random(chosen.seed)
        self._nodes = [Node(index, FIRST_VERSION) for index in range(chosen.nodes)]
        self._pods = [Pod(index, FIRST_VERSION) for index in range(chosen.pods)]
        self._recovering: list[tuple[float, Node]] = []
        self._job_version = FIRST_VERSION
        self.collections = {
            "nodes": Collection("Node", "v1"),
            "pods": Collection("Pod", "v1"),
            "jobs": Collection("Job", "batch.volcano.sh/v1alpha1"),
        }
        self.collections["nodes"].documents = [node.document for node in self._nodes]
        self.collections["pods"].documents = [pod.document for pod in self._pods]
        self.collections["jobs"].documents = [self._job]

    async def live(self) -> None:
        """Heartbeats, flips and pods' updates, evenly over time, until cancelled."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        beats = flips = pods = jobs = 0
        while True:
            await asyncio.sleep(TURN_SECONDS)
            seconds = loop.time() - began
            while beats < seconds * len(self._nodes) / self._chosen.heartbeat_seconds:
                self._touch(self._nodes[beats % len(self._nodes)])
                beats += 1
            while flips < seconds * self._chosen.flips:
                self._flip(loop.time())
                flips += 1
            while self._recovering and self._recovering[0][0] <= loop.time():
                _, node = self._recovering.pop(0)
                node.ready = True
                self._touch(node)
            while pods < seconds * self._chosen.pod_updates and self._pods:
                self._touch_pod(self._pods[pods % len(self._pods)])
                pods += 1
            while jobs < seconds:
                self._job_version = self._next()
                self._tell("jobs", partial(job_document, self._job_version))
                jobs += 1

    def _flip(self, now: float) -> None:
        """A node is NotReady for a while."""
        node = self._random.choice(self._nodes)
        node.ready = False
        self._touch(node)
        self._recovering.append((now + self._random.uniform(1.0, 60.0), node))
        self._recovering.sort(key=lambda pair: pair[0])
        self.counts["flips"] += 1

    def _touch(self, node: Node) -> None:
        node.version = self._next()
        self._tell("nodes", replace(node).document)

    def _touch_pod(self, pod: Pod) -> None:
        pod.version = self._next()
        self._tell("pods", replace(pod).document)

    def _job(self) -> bytes:
        return job_document(self._job_version)

    def _next(self) -> int:
        self.version += 1
        return self.version

    def _tell(self, plural: str, document: Document) -> None:
        collection = self.collections[plural]
        collection.events.append((self.version, document))
        collection.changed.set()


class Api:
    """Answers over HTTP."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def collection(self, request: web.Request) -> web.StreamResponse:
        """A list, or a watch."""
        plural = request.path.rpartition("/")[2]
        if request.query.get("watch") == "true":
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            with suppress(ConnectionError):  # the watcher has gone
                await self._watch(request, response, self._cluster.collections[plural])
            return response
        return self._list(request, self._cluster.collections[plural])

    async def counts(self, _: web.Request) -> web.Response:
        """What was served so far."""
        return web.json_response(dict(self._cluster.counts))

    def _list(self, request: web.Request, collection: Collection) -> web.Response:
        begin, _, version = (request.query.get("continue") or "0").partition("@")
        version = version or str(self._cluster.version)
        limit = int(request.query.get("limit") or len(collection.documents) or 1)
        end = int(begin) + limit
        metadata: dict[str, Any] = {"resourceVersion": version}
        if end < len(collection.documents):
            metadata["continue"] = f"{end}@{version}"
            metadata["remainingItemCount"] = len(collection.documents) - end
        items = b",".join(document() for document in collection.documents[int(begin) : end])
        body = b'{"kind":"%bList","apiVersion":"%b","metadata":%b,"items":[%b]}' % (
            collection.kind.encode(),
            collection.api_version.encode(),
            json.dumps(metadata).encode(),
            items,
        )
        self._cluster.counts["list_bytes"] += len(body)
        headers = {}
        if len(body) > COMPRESSED_BYTES and "gzip" in request.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, compresslevel=1)
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _watch(
        self, request: web.Request, response: web.StreamResponse, collection: Collection
    ) -> None:
        await response.prepare(request)
        seen = int(request.query["resourceVersion"])
        if len(collection.events) == KEPT_EVENTS and collection.events[0][0] > seen:
            status = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"}
            await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            return
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + float(request.query["timeoutSeconds"])
        while (left := ends_at - loop.time()) > 0:
            collection.changed.clear()
            for version, document in _newer(collection.events, seen):
                event = b'{"type":"MODIFIED","object":%b}\n' % document()
                await response.write(event)
                seen = version
                self._cluster.counts["events"] += 1
                self._cluster.counts["event_bytes"] += len(event)
            try:
                async with asyncio.timeout(left):
                    await collection.changed.wait()
            except TimeoutError:
                break
        metadata = {"resourceVersion": str(max(seen, self._cluster.version))}
        bookmark = {"type": "BOOKMARK", "object": {"kind": collection.kind, "metadata": metadata}}
        await response.write(json.dumps(bookmark).encode() + b"\n")


def _newer(events: deque[tuple[int, Document]], seen: int) -> list[tuple[int, Document]]:
    found = list(takewhile(lambda pair: pair[0] > seen, reversed(events)))
    return found[::-1]


async def serve(chosen: argparse.Namespace) -> None:
    """Serve on a port of our own, which is printed, until the process is ended."""
    cluster = Cluster(chosen)
    api = Api(cluster)
    app = web.Application()
    app.router.add_get("/api/v1/nodes", api.collection)
    app.router.add_get("/api/v1/pods", api.collection)
    app.router.add_get("/apis/batch.volcano.sh/v1alpha1/jobs", api.collection)
    app.router.add_get("/counts", api.counts)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await cluster.live()


def main() -> None:
    """Read the flags and serve."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--nodes", type=int, required=True)
    flags.add_argument("--pods", type=int, required=True)
    flags.add_argument("--heartbeat-seconds", type=float, required=True)
    flags.add_argument("--flips", type=float, required=True, help="nodes NotReady, a second")
    flags.add_argument("--pod-updates", type=float, required=True, help="a second")
    flags.add_argument("--seed", type=int, default=1)
    asyncio.run(serve(flags.parse_args()))


if __name__ == "__main__":
    main()
