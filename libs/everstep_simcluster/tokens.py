"""Who is let in: bearer tokens that are given out anew and refused some time after."""

import time

from aiohttp import web

EXPIRY_LEEWAY_SECONDS = 60.0
"""How long the real server honours a token after it has expired."""


class Tokens:
    """The tokens that the API server takes. While none was ever issued it asks for none.

    A watch is asked for its token when it is opened and never again.
    """

    def __init__(self) -> None:
        self._refused_from: dict[str, float | None] = {}

    def issue(self, token: str, *, leeway_seconds: float = EXPIRY_LEEWAY_SECONDS) -> None:
        """Take this one from now on, and those before it for ``leeway_seconds`` more."""
        now = time.monotonic()
        for older, refused_from in self._refused_from.items():
            if refused_from is None:
                self._refused_from[older] = now + leeway_seconds
        self._refused_from[token] = None

    def admits(self, request: web.Request) -> bool:
        """Whether the request shows one that is taken now."""
        if not self._refused_from:
            return True
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or token not in self._refused_from:
            return False
        refused_from = self._refused_from[token]
        return refused_from is None or time.monotonic() < refused_from
