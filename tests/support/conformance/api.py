"""HTTP to an API server by a kubeconfig, with nothing between the answer and who asked."""

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import load_kube_config

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

POLL_SECONDS = 0.05
PATIENCE_SECONDS = 60.0
"""What controllers of a real cluster may take; a simulated one is quicker."""

_CONNECT_SECONDS = 5.0
_READ_SECONDS = 130.0  # longer than any watch of the suite
_CONNECTIONS = 32

Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What the server said: the JSON of the body, or its text where it is none."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def reason(self) -> str:
        """Of a Status; the empty text where it has none."""
        return str(self.body.get("reason", ""))

    @property
    def causes(self) -> set[str]:
        """The reasons of a Status' causes, which the real server may tell many times over."""
        return {cause["reason"] for cause in self._causes}

    @property
    def fields(self) -> set[str]:
        """The fields of a Status' causes."""
        return {cause["field"] for cause in self._causes}

    @property
    def _causes(self) -> list[Json]:
        return list((self.body.get("details") or {}).get("causes") or ())

    @property
    def version(self) -> str:
        """The resourceVersion of the object or list."""
        return str(self.body["metadata"]["resourceVersion"])

    def expect(self, *statuses: int) -> Json:
        """The body of an answer that has to be one of ``statuses`` for the test to go on."""
        assert self.status in statuses, f"{self.status}: {self.body}"
        body: Json = self.body
        return body


class Api:
    """One server, as the user of a kubeconfig sees it. May be used by many threads."""

    def __init__(self, kubeconfig: Path, *, token: str | None = None) -> None:
        self.kubeconfig = kubeconfig
        configuration = Configuration()
        load: Any = load_kube_config  # the client has no type hints for it
        load(config_file=str(kubeconfig), client_configuration=configuration)
        configuration.connection_pool_maxsize = _CONNECTIONS
        if token is not None:
            configuration.api_key = {"BearerToken": f"Bearer {token}"}
            configuration.cert_file = configuration.key_file = None
            configuration.refresh_api_key_hook = None
        self._client = ApiClient(configuration)
        self._pool: urllib3.PoolManager = self._client.rest_client.pool_manager
        self.url: str = configuration.host

    def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Answer:
        """Send one request, once."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
        response = self._send(method, path, data, content_type)
        text = response.data.decode()
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = text
        return Answer(response.status, response.headers, parsed)

    def get(self, path: str, **query: str) -> Answer:
        """Read an object or a list."""
        return self.call("GET", with_query(path, query))

    def post(self, path: str, body: Any, **query: str) -> Answer:
        """Create an object."""
        return self.call("POST", with_query(path, query), body)

    def put(self, path: str, body: Any) -> Answer:
        """Replace an object."""
        return self.call("PUT", path, body)

    def patch(self, path: str, body: Any, content_type: str = MERGE) -> Answer:
        """Change an object; a list of operations is sent as a JSON patch."""
        return self.call(
            "PATCH", path, body, JSON_PATCH if isinstance(body, list) else content_type
        )

    def delete(self, path: str, body: Any = None, **query: str) -> Answer:
        """Delete an object."""
        return self.call("DELETE", with_query(path, query), body)

    def watch(self, path: str, **query: str) -> "Watch":
        """Open a watch of 20 s, or of ``timeoutSeconds``; a refusal shows in its ``status``."""
        options = {"watch": "true", "timeoutSeconds": "20", **query}
        return Watch(self._send("GET", with_query(path, options), stream=True))

    def _send(
        self,
        method: str,
        path: str,
        data: Any = None,
        content_type: str = "application/json",
        *,
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json", "User-Agent": "everstep-conformance"}
        if data is not None:
            headers["Content-Type"] = content_type
        authorize: Any = self._client.update_params_for_auth
        authorize(headers, [], ["BearerToken"], path, method, None)
        return self._pool.request(
            method,
            self.url.rstrip("/") + path,
            body=data,
            headers=headers,
            retries=False,
            preload_content=not stream,
            timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
        )


class Watch:
    """An open watch. Its lines are read by a thread, so that waiting for one has an end."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.status = response.status
        self._response = response
        self._lines: queue.Queue[Json | Exception | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(RuntimeError, ValueError):  # it has ended already
            self._response.shutdown()  # close alone would wait for the thread that reads

    def next(self, within_seconds: float = 20.0) -> Json:
        """The next event that is no bookmark."""
        while True:
            line = self._line(within_seconds)
            assert line is not None, "the watch ended"
            if line["type"] != "BOOKMARK":
                return line

    def until(self, condition: Callable[[Json], bool], within_seconds: float = 20.0) -> list[Json]:
        """The events up to the first for which ``condition`` holds."""
        events = [self.next(within_seconds)]
        while not condition(events[-1]):
            events.append(self.next(within_seconds))
        return events

    def rest(self, within_seconds: float = 30.0) -> list[Json]:
        """All events until the watch ends in order."""
        return list(iter(lambda: self._line(within_seconds), None))

    def silent_for(self, seconds: float) -> bool:
        """Whether nothing comes, not even its end."""
        try:
            self._line(seconds)
        except AssertionError:
            return True
        return False

    def _line(self, within_seconds: float) -> Json | None:
        try:
            line = self._lines.get(timeout=within_seconds)
        except queue.Empty as error:
            raise AssertionError(f"the watch was silent for {within_seconds} s") from error
        if isinstance(line, Exception):
            raise line
        return line

    def _read(self) -> None:
        rest = b""
        try:
            for chunk in self._response.stream(None):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._lines.put(json.loads(line))
            if rest.strip():
                self._lines.put(json.loads(rest))
            self._lines.put(None)
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            self._lines.put(error if isinstance(error, Exception) else None)


def with_query(path: str, query: Mapping[str, str]) -> str:
    """``path`` with more parameters."""
    if not query:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"


def eventually(
    condition: Callable[[], Any], what: str, *, within_seconds: float = PATIENCE_SECONDS
) -> Any:
    """Ask until the answer is truthy, and return it; fails after ``within_seconds``."""
    deadline = time.monotonic() + within_seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {within_seconds} s: {what}"
        time.sleep(POLL_SECONDS)
    return found


def stays(condition: Callable[[], Any], what: str, *, for_seconds: float) -> None:
    """Fail if ``condition`` turns false within that time."""
    deadline = time.monotonic() + for_seconds
    while time.monotonic() < deadline:
        assert condition(), f"no longer: {what}"
        time.sleep(POLL_SECONDS)
