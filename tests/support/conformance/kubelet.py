"""The kubelet of the fake nodes: the suite writes by itself what one would write of the pods."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

import urllib3
from support.conformance.api import STRATEGIC, Api, Json

STOP_SECONDS = 0.3
"""From a pod's deletion to its end; the one of the recordings took about a second."""

_WATCH_SECONDS = "30"


class Kubelet:
    """Runs, in name only, the pods of one namespace that are bound to the fake nodes."""

    def __init__(self, api: Api, namespace: str, nodes: Sequence[str]) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._nodes = frozenset(nodes)
        self._dead: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Do nothing more."""
        self._stop.set()

    def die(self, node: str) -> None:
        """Neither start nor end pods of ``node``, as when its host is dead."""
        self._dead.add(node)

    def revive(self, *nodes: str) -> None:
        """These hosts live again, or all; their pods are attended to."""
        self._dead -= set(nodes or self._dead)
        self._attend_all()

    def exit(self, pod: str, code: int) -> None:
        """The pod's container ends."""
        ended = {"exitCode": code, "reason": "Error" if code else "Completed"}
        self._write(pod, "Failed" if code else "Succeeded", "False", {"terminated": ended})

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                version = self._attend_all()
                with self._api.watch(
                    self._pods, resourceVersion=version, timeoutSeconds=_WATCH_SECONDS
                ) as watch:
                    self._follow(watch)
            except (urllib3.exceptions.HTTPError, AssertionError, OSError):
                time.sleep(0.1)  # the server is away, or what it knew is gone: list again

    def _follow(self, watch: object) -> None:
        while not self._stop.is_set():
            event = watch.next(float(_WATCH_SECONDS) + 5)  # type: ignore[attr-defined]
            if event["type"] == "ERROR":
                return
            if event["type"] != "DELETED":
                self._attend(event["object"])

    def _attend_all(self) -> str:
        listed = self._api.get(self._pods)
        for pod in listed.expect(200)["items"]:
            self._attend(pod)
        return listed.version

    def _attend(self, pod: Json) -> None:
        node = pod["spec"].get("nodeName")
        if node not in self._nodes or node in self._dead:
            return
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            timer = threading.Timer(STOP_SECONDS, self._end, (name, uid))
            timer.daemon = True
            timer.start()
        elif pod["status"].get("phase") == "Pending":
            self._write(name, "Running", "True", {"running": {"startedAt": _now()}}, uid)

    def _end(self, name: str, uid: str) -> None:
        if not self._stop.is_set():
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            with suppress(urllib3.exceptions.HTTPError):  # it is seen again by the next list
                self._api.delete(f"{self._pods}/{name}", options)

    def _write(self, name: str, phase: str, ready: str, state: Json, uid: str = "") -> None:
        now = _now()
        conditions = [
            {"type": kind, "status": ready, "lastTransitionTime": now}
            for kind in ("Ready", "ContainersReady")
        ]
        container = {
            "name": "main",
            "image": "registry.invalid/main:1",
            "imageID": "",
            "ready": ready == "True",
            "restartCount": 0,
            "state": state,
        }
        status = {"phase": phase, "conditions": conditions, "containerStatuses": [container]}
        body: Json = {"status": {**status, "startTime": now}}
        if uid:
            body["metadata"] = {"uid": uid}
        self._api.patch(f"{self._pods}/{name}/status", body, STRATEGIC)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
