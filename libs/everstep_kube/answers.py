"""Reads answers of the API server, and of whatever else may answer in its place, within bounds."""

import json
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import aiohttp

from everstep_kube.errors import (
    AnswerError,
    AnswerTooLargeError,
    TransientKubeError,
    UnavailableError,
    error_of,
)

ANSWER_BYTES_LIMIT: Final = 128 * 1024 * 1024
"""A page of 100 nodes is one or two MB; the largest object there can be is 1.5 MiB in the store."""
SHOWN_CHARACTERS: Final = 200


async def read_object(request: str, response: aiohttp.ClientResponse) -> dict[str, Any]:
    """The answer's JSON object.

    Raises:
        AnswerTooLargeError: It is larger than we read.
        UnavailableError: It is none, e.g. the page of a proxy.
    """
    return parse_object(request, await _body(request, response), what=response.content_type)


def parse_object(request: str, text: bytes, *, what: str = "line") -> dict[str, Any]:
    """A JSON object; as `read_object`."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_an_object(request, what, text) from error
    if not isinstance(parsed, dict):
        raise _not_an_object(request, what, text)
    return parsed


async def refusal(
    request: str, response: aiohttp.ClientResponse, *, tests: bool = False
) -> AnswerError:
    """The error that an answer other than 2xx means.

    ``tests``: the request is a JSON patch with a test in it. That a test failed is answered as a
    patch that cannot be applied, 422 without an explanation, and means what 409 means elsewhere.
    """
    status, where = response.status, response.headers.get("Location", "")
    if 300 <= status < 400:
        return error_of(request, status, f"redirected to {where!r}: not an API server")
    text = await _body(request, response)
    try:
        said = parse_object(request, text)
    except UnavailableError:
        shown = text[:SHOWN_CHARACTERS].decode(errors="replace")
        return _with_wish(error_of(request, status, shown or str(response.reason)), response)
    details = said.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    reasons = [str(cause.get("reason")) for cause in causes or () if isinstance(cause, dict)]
    reason, message = str(said.get("reason") or ""), _message(said, causes)
    if status == 422 and tests and not reasons:
        return error_of(request, 409, f"a tested value is not as expected: {message}")
    return _with_wish(error_of(request, status, message, reason=reason, causes=reasons), response)


def _message(said: dict[str, Any], causes: Any) -> str:
    """What the Status says, with what its causes add, e.g. which disruption budget is spent."""
    added = [str(cause.get("message") or "") for cause in causes or () if isinstance(cause, dict)]
    message = str(said.get("message") or "")
    return " ".join((message, *(one for one in added if one and one not in message)))


def retry_after_seconds(headers: Mapping[str, str]) -> float:
    """What ``Retry-After`` asks for, 0 where it asks for nothing that can be understood.

    It may be an instant of the server's clock, which is compared with the same clock's now.
    """
    wish = headers.get("Retry-After", "").strip()
    if wish.isdecimal():
        return float(min(int(wish), 10**6))
    try:
        wait = parsedate_to_datetime(wish) - parsedate_to_datetime(headers.get("Date", ""))
    except (TypeError, ValueError):
        return 0.0
    return max(wait.total_seconds(), 0.0)


def _with_wish(error: AnswerError, response: aiohttp.ClientResponse) -> AnswerError:
    if isinstance(error, TransientKubeError):
        error.retry_after_seconds = retry_after_seconds(response.headers)
    return error


async def _body(request: str, response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    total = 0
    async for chunk in response.content.iter_any():
        total += len(chunk)
        if total > ANSWER_BYTES_LIMIT:
            limit = f"an answer larger than {ANSWER_BYTES_LIMIT} bytes"
            raise AnswerTooLargeError(request, status=response.status, message=limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _not_an_object(request: str, what: str, text: bytes) -> UnavailableError:
    shown = text[:SHOWN_CHARACTERS].decode(errors="replace")
    return UnavailableError(request, status=0, message=f"not a JSON object ({what}): {shown!r}")
