"""The way to the API server: JSON in and out, a timeout and bounded retries on everything.

Objects stay plain JSON. The client's model classes are slow and reject what a newer server sends.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from everstep_kube.errors import AnswerError, KubeConfigError, TransientKubeError, error_of

CONNECT_SECONDS: Final = 3.0
REQUEST_SECONDS: Final = 10.0
MAX_TRIES: Final = 4
FIRST_BACKOFF_SECONDS: Final = 0.1
LONGEST_BACKOFF_SECONDS: Final = 5.0
MERGE_PATCH: Final = "application/merge-patch+json"
_BEARER: Final = ["BearerToken"]

Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """One call. A write must be safe to repeat: it carries a uid or a resource version."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Json | None = None
    content_type: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@asynccontextmanager
async def connect(kubeconfig: Path | None, *, user_agent: str) -> AsyncIterator["KubeClient"]:
    """A client while the context is open; without ``kubeconfig`` the pod's service account.

    Raises:
        KubeConfigError: Neither leads to a cluster.
    """
    configuration = Configuration()
    in_file: Any = load_kube_config  # the client has no type hints for these two
    in_pod: Any = load_incluster_config
    try:
        if kubeconfig is not None:
            await in_file(config_file=str(kubeconfig), client_configuration=configuration)
        else:
            in_pod(client_configuration=configuration)
    except ConfigException as error:
        where = str(kubeconfig) if kubeconfig else "this pod's service account"
        raise KubeConfigError(f"no cluster by {where}: {error}") from error
    configuration.retries = None  # its own retries are hidden and unbounded for some values
    async with ApiClient(configuration) as api:
        api.user_agent = user_agent
        yield KubeClient(api)


class KubeClient:
    """Sends requests to one API server."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    async def call(self, request: Request) -> Json:
        """The answer's JSON, after up to `MAX_TRIES` tries.

        Raises:
            AnswerError: The narrowest class that fits the last answer.
        """
        for attempt in range(1, MAX_TRIES):
            try:
                return await self.call_once(request)
            except TransientKubeError as error:
                await asyncio.sleep(_backoff_seconds(attempt, error))
        return await self.call_once(request)

    async def call_once(self, request: Request) -> Json:
        """As `call`, with a single try."""
        async with self._sent(request, read_seconds=REQUEST_SECONDS) as response:
            return _object(request, await response.read())

    @asynccontextmanager
    async def lines(
        self, request: Request, *, read_seconds: float
    ) -> AsyncIterator[AsyncIterator[Json]]:
        """The answer's JSON lines as they come; silence of ``read_seconds`` is an error."""
        async with self._sent(request, read_seconds=read_seconds) as response:
            yield (_object(request, line) async for line in response.content)

    @asynccontextmanager
    async def _sent(
        self, request: Request, *, read_seconds: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=read_seconds)
        try:
            method, url, headers, body, _ = await self._api.param_serialize(
                request.method,
                request.path,
                query_params=list(request.query.items()),
                header_params={"Content-Type": request.content_type},
                body=request.body,
                auth_settings=_BEARER,
            )
            answer = await self._api.call_api(method, url, headers, body, _request_timeout=timeout)
            response: aiohttp.ClientResponse = answer.response
            async with response:
                if response.status >= 300:
                    raise await _refusal(request, response)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise error_of(str(request), 0, repr(error)) from error


async def _refusal(request: Request, response: aiohttp.ClientResponse) -> AnswerError:
    text = (await response.read()).decode(errors="replace")
    try:
        status = json.loads(text)
        reason = f"{status.get('reason', '')}: {status.get('message', '')}"
    except (ValueError, AttributeError):
        reason = text[:200] or response.reason or ""
    error = error_of(str(request), response.status, reason)
    if isinstance(error, TransientKubeError):
        wish = response.headers.get("Retry-After", "")
        error.retry_after_seconds = float(wish) if wish.isdigit() else 0.0
    return error


def _object(request: Request, text: bytes) -> Json:
    parsed = json.loads(text)
    if not isinstance(parsed, dict):
        raise error_of(str(request), 0, f"not an object: {text[:80]!r}")
    return parsed


def _backoff_seconds(attempt: int, error: TransientKubeError) -> float:
    """Growing pauses with jitter, at least as long as the server asks, within the bound."""
    pause = FIRST_BACKOFF_SECONDS * 3 ** (attempt - 1) * random.uniform(0.5, 1.5)  # noqa: S311  # jitter
    return float(min(max(pause, error.retry_after_seconds), LONGEST_BACKOFF_SECONDS))
