"""The way to the API server: JSON in and out, a timeout and bounded retries on everything.

Objects stay plain JSON. The client's model classes are slow and reject what a newer server sends.
Of the official client only the reading of configurations is used: its requests follow redirects,
have no bound on what they read, and raise what they like.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from everstep_kube.access import Access, Entrance
from everstep_kube.answers import parse_object, read_object, refusal
from everstep_kube.errors import (
    DeniedError,
    NotFoundError,
    TransientKubeError,
    UnavailableError,
)
from everstep_kube.loose import UNREADABLE_ERRORS, is_name

CONNECT_SECONDS: Final = 3.0
REQUEST_SECONDS: Final = 10.0
"""The longest silence of a server in the middle of a request."""
TRY_SECONDS: Final = 20.0
"""The longest that one try takes, however busily the server dribbles."""
CALL_SECONDS: Final = 45.0
"""The longest that all tries of a call take together."""
MAX_TRIES: Final = 4
FIRST_BACKOFF_SECONDS: Final = 0.1
LONGEST_BACKOFF_SECONDS: Final = 5.0
LINE_BYTES: Final = 2**21
"""Half of the longest line of a watch: one object of 1.5 MiB in the store."""

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

_NO_ANSWER: Final = (aiohttp.ClientError, HttpProcessingError, OSError, ValueError)

Json = dict[str, Any]
S = TypeVar("S")


@dataclass(frozen=True)
class Request:
    """One call. A write that is not a POST is repeated, so it carries a uid or a version."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Json | Sequence[Json] | None = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def writes(self) -> bool:
        """Whether it may change something."""
        return self.method != "GET"

    @property
    def tests(self) -> bool:
        """Whether it is a JSON patch that is applied only while some values are as expected."""
        patch = self.body if self.content_type == JSON_PATCH else None
        return isinstance(patch, Sequence) and any(one.get("op") == "test" for one in patch)


@asynccontextmanager
async def connect(
    kubeconfig: Path | Sequence[Path] | None, *, user_agent: str
) -> AsyncIterator["KubeClient"]:
    """A client while the context is open; without ``kubeconfig`` the pod's service account.

    Raises:
        KubeConfigError: Neither leads to a cluster.
    """
    entrance = Entrance((kubeconfig,) if isinstance(kubeconfig, Path) else kubeconfig or ())
    await entrance.access()
    headers = {"User-Agent": user_agent, "Accept": "application/json"}
    async with aiohttp.ClientSession(
        headers=headers,
        read_bufsize=LINE_BYTES,
        trust_env=True,
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        yield KubeClient(session, entrance)


class KubeClient:
    """Sends requests to one API server."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        entrance: Entrance,
        may_write: Callable[[], None] | None = None,
    ) -> None:
        self._session = session
        self._entrance = entrance
        self._may_write = may_write

    def guarded(self, may_write: Callable[[], None]) -> "KubeClient":
        """This client for a writer that must not write any more once ``may_write`` raises.

        It is asked right before each try of each write, and what it raises goes to the caller.
        """
        return KubeClient(self._session, self._entrance, may_write)

    async def call(self, request: Request) -> Json:
        """The answer's JSON, after up to `MAX_TRIES` tries within `CALL_SECONDS`.

        A POST is tried once: what it creates may be there although no answer came.

        Raises:
            AnswerError: The narrowest class that fits the last answer.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CALL_SECONDS
        tries = 1 if request.method == "POST" else MAX_TRIES
        for attempt in range(1, tries):
            try:
                return await self._call_once(request, deadline - loop.time())
            except TransientKubeError as error:
                pause = _backoff_seconds(attempt, error)
                if loop.time() + pause >= deadline:
                    raise
                await asyncio.sleep(pause)
        return await self._call_once(request, deadline - loop.time())

    async def find(self, collection: str, name: str, read: Callable[[Json], S]) -> S | None:
        """What ``read`` makes of the object of this name; None: there is none, or can be none.

        Raises:
            AnswerError: As `call`; `UnavailableError` also when the answer is no such object.
        """
        if not is_name(name):
            return None
        request = Request("GET", f"{collection}/{name}")
        try:
            found = await self.call(request)
        except NotFoundError:
            return None
        try:
            return read(found)
        except UNREADABLE_ERRORS as error:
            shown = f"not built as such an object is: {error!r}"
            raise UnavailableError(str(request), status=200, message=shown) from error

    async def call_once(self, request: Request) -> Json:
        """As `call`, with a single try, for callers that have a better idea of when to retry."""
        return await self._call_once(request, TRY_SECONDS)

    async def _call_once(self, request: Request, left_seconds: float) -> Json:
        """One try, and one more at once with new credentials when the old ones are refused."""
        access = await self._entrance.access()
        timeout = _timeout(min(left_seconds, TRY_SECONDS), silence=REQUEST_SECONDS)
        try:
            async with self._sent(request, access, timeout) as response:
                return await read_object(str(request), response)
        except DeniedError as error:
            if error.status != 401 or not await self._entrance.differs_from(access):
                raise
        async with self._sent(request, await self._entrance.access(), timeout) as response:
            return await read_object(str(request), response)

    async def lines(self, request: Request, *, seconds: float) -> AsyncGenerator[Json, None]:
        """The answer's JSON lines as they come; an error when it lasts longer than ``seconds``.

        Close it (`contextlib.aclosing`) when leaving it before its end.
        """
        access = await self._entrance.access()
        try:
            async with self._sent(request, access, _timeout(seconds)) as response:
                async for line in response.content:
                    yield parse_object(str(request), line)
        except DeniedError as error:
            if error.status == 401:
                await self._entrance.differs_from(access)
            raise

    @asynccontextmanager
    async def _sent(
        self, request: Request, access: Access, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        query = f"?{urlencode(request.query)}" if request.query else ""
        headers = {"Authorization": access.authorization} if access.authorization else {}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if request.writes and self._may_write is not None:
            self._may_write()
        try:
            async with self._session.request(
                request.method,
                URL(f"{access.host}{request.path}{query}", encoded=True),
                data=json.dumps(request.body) if request.body is not None else None,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,  # a write would arrive as a read, at somebody else's
                ssl=access.tls,
                server_hostname=access.server_name,
                proxy=access.proxy,
            ) as response:
                if response.status >= 300:
                    raise await refusal(str(request), response, tests=request.tests)
                yield response
        except _NO_ANSWER as error:
            raise UnavailableError(str(request), status=0, message=_words(error)) from error


def _words(error: Exception) -> str:
    """What went wrong, without the addresses of objects that aiohttp adds."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {error.strerror}"
    return f"{type(error).__name__}: {error}" if str(error) else repr(error)


def _timeout(seconds: float, *, silence: float | None = None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=max(seconds, 0.001), sock_connect=CONNECT_SECONDS, sock_read=silence or seconds
    )


def _backoff_seconds(attempt: int, error: TransientKubeError) -> float:
    """Growing pauses with jitter, at least as long as the server asks, within the bound."""
    pause = FIRST_BACKOFF_SECONDS * 3 ** (attempt - 1) * random.uniform(0.5, 1.5)  # noqa: S311  # jitter
    return float(min(max(pause, error.retry_after_seconds), LONGEST_BACKOFF_SECONDS))
