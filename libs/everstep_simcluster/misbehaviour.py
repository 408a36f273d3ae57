"""Wrong answers on request: what an API server under a test does to some of its clients."""

import re
from dataclasses import dataclass

from aiohttp import web


@dataclass(frozen=True)
class Refuse:
    """Answer with an error. A 429 or 503 may carry Retry-After."""

    code: int
    retry_after_seconds: int | None = None


@dataclass(frozen=True)
class Hang:
    """Say nothing for so long, then answer as if nothing had been."""

    seconds: float


@dataclass(frozen=True)
class Drop:
    """Close the connection without an answer. ``applied`` first does what was asked."""

    applied: bool = False


Act = Refuse | Hang | Drop


@dataclass
class Rule:
    """Which requests to treat so: empty fields match all, the texts are regular expressions."""

    act: Act
    method: str = ""
    path: str = ""
    user_agent: str = ""
    times: int | None = None
    """How many more requests to treat so; None for all until the rule is taken away."""

    def matches(self, request: web.Request) -> bool:
        """Whether ``request`` is one of them."""
        return (
            self.times != 0
            and self.method in ("", request.method)
            and re.search(self.path, request.path_qs) is not None
            and re.search(self.user_agent, request.headers.get("User-Agent", "")) is not None
        )


class Misbehaviour:
    """The rules in force. The first that matches a request decides."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def add(self, rule: Rule) -> Rule:
        """Treat matching requests so from now on."""
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Behave again."""
        self._rules.clear()

    def act_on(self, request: web.Request) -> Act | None:
        """What to do to ``request``, counting it against its rule."""
        for rule in self._rules:
            if rule.matches(request):
                if rule.times is not None:
                    rule.times -= 1
                return rule.act
        return None
