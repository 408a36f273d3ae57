"""Query and reply, as bytes: the same on every bus."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from everstep_contract.envelope import encode
from everstep_contract.queries import Query, Refused, Reply

from everstep_bus.decoding import decode_on
from everstep_bus.delivery import MAX_REASON_LETTERS
from everstep_bus.errors import QueryRefusedError, UndecodableMessageError

Q = TypeVar("Q", bound=Query)
R = TypeVar("R", bound=Reply)


@dataclass(frozen=True)
class Service(Generic[Q]):
    """Who answers one kind of query."""

    query: type[Q]
    handler: Callable[[Q], Awaitable[Reply]]
    source: str

    async def reply(
        self, subject: str, headers: Mapping[str, str] | None, payload: bytes
    ) -> tuple[dict[str, str], bytes]:
        """The encoded reply; an error of the handler's becomes `Refused` with its text.

        Raises:
            UndecodableMessageError: It is no query of this kind.
        """
        query = decode_on(subject, headers, payload, self.query)
        try:
            answer = await self.handler(query)
        except QueryRefusedError as error:
            return self.refusal(error.reason)
        except Exception as error:  # noqa: BLE001  # whatever it is, the asker hears of it
            return self.refusal(f"{type(error).__name__}: {error}")
        return encode(answer, source=self.source)

    def refusal(self, reason: str) -> tuple[dict[str, str], bytes]:
        """The encoded answer that there is no answer."""
        return encode(Refused(reason=reason[:MAX_REASON_LETTERS]), source=self.source)


def open_reply(
    subject: str, headers: Mapping[str, str] | None, payload: bytes, expected: type[R]
) -> R:
    """The reply to a query that was asked on ``subject``.

    Raises:
        QueryRefusedError: The service said no.
        UndecodableMessageError: It is neither ``expected`` nor a refusal.
    """
    reply = decode_on(subject, headers, payload, Reply)
    if isinstance(reply, Refused):
        raise QueryRefusedError(subject=subject, reason=reply.reason)
    if not isinstance(reply, expected):
        raise UndecodableMessageError(subject=subject, reason=f"unexpected {type(reply).TYPE!r}")
    return reply
