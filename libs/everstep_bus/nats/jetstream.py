"""Requests to JetStream over a link; lost streams are made anew where the role may."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from everstep_contract import subjects
from everstep_contract.dead import DeadLetter
from everstep_contract.envelope import encode
from everstep_contract.layout import Stream
from everstep_contract.roles import Grant
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, ConsumerInfo, Header, RawStreamMsg
from nats.js.errors import APIError, NotFoundError

from everstep_bus.burying import bury
from everstep_bus.delivery import Delivery
from everstep_bus.errors import RevisionMismatchError
from everstep_bus.nats.link import Link
from everstep_bus.nats.provision import provision
from everstep_bus.nats.session import STREAM_NOT_FOUND, MissingStreamError, Session
from everstep_bus.stored import Stored

WRONG_LAST_SEQUENCE: Final = (10071, 10164)
"""Error codes of a failed condition, of servers that do and do not say the sequence."""

CLUSTER_SERVERS: Final = 3
"""Fewer have no majority without one of them."""

T = TypeVar("T")


@dataclass(frozen=True)
class StreamState:
    """Which stream this is, and how far it got; a stream made anew was created later."""

    created: str
    last_sequence: int
    messages: int


class JetStream:
    """What one link does with streams, under its role's grant."""

    def __init__(self, link: Link, grant: Grant, now: Callable[[], datetime]) -> None:
        self.link = link
        self.now = now
        self._grant = grant

    async def publish(self, subject: str, headers: Mapping[str, str], payload: bytes) -> int:
        """Store a message; returns its sequence.

        Raises:
            TransientBusError: Unknown whether it was stored.
        """

        async def work(stream: JetStreamContext) -> int:
            return (await stream.publish(subject, payload, headers=dict(headers))).seq

        return await self.call(f"publish on {subject!r}", work)

    async def publish_behind(
        self, subject: str, headers: Mapping[str, str], payload: bytes, *, expected: int
    ) -> int:
        """Store a message if the subject's last one has sequence ``expected`` (0: none).

        Raises:
            RevisionMismatchError: It has another one.
            TransientBusError: Unknown whether it was stored.
        """
        condition = {**headers, Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(expected)}

        async def work(stream: JetStreamContext) -> int:
            try:
                return (await stream.publish(subject, payload, headers=condition)).seq
            except APIError as error:
                if error.err_code in WRONG_LAST_SEQUENCE:
                    raise RevisionMismatchError(key=subject, expected=expected) from None
                raise

        return await self.call(f"publish on {subject!r}", work)

    async def last(self, spec: Stream, subject: str, *, direct: bool = False) -> Stored | None:
        """The newest message of a subject, from the stream's leader unless ``direct``."""

        async def work(stream: JetStreamContext) -> Stored | None:
            try:
                found = await stream.get_last_msg(spec.name, subject, direct=direct)
            except NotFoundError as error:
                if error.err_code == STREAM_NOT_FOUND:
                    raise
                return None
            return _stored(found)

        return await self.call(f"read {subject!r}", work)

    async def state(self, spec: Stream) -> StreamState:
        """Which stream it is, and how far it got."""

        async def work(stream: JetStreamContext) -> StreamState:
            info = await stream.stream_info(spec.name)
            return StreamState(str(info.created), info.state.last_seq, info.state.messages)

        return await self.call(f"state of {spec.name!r}", work)

    async def subjects(self, spec: Stream, subject_filter: str) -> tuple[str, ...]:
        """All subjects of a stream that have a message, in order."""

        async def work(stream: JetStreamContext) -> tuple[str, ...]:
            info = await stream.stream_info(spec.name, subjects_filter=subject_filter)
            return tuple(sorted(info.state.subjects or {}))

        return await self.call(f"subjects of {spec.name!r}", work)

    async def consumer(self, spec: Stream, name: str) -> ConsumerInfo | None:
        """A consumer, or None if there is none of this name."""

        async def work(stream: JetStreamContext) -> ConsumerInfo | None:
            try:
                info: ConsumerInfo = await stream.consumer_info(spec.name, name)
            except NotFoundError as error:
                if error.err_code == STREAM_NOT_FOUND:
                    raise
                return None
            return info

        return await self.call(f"consumer {name!r}", work)

    async def make_consumer(self, spec: Stream, config: ConsumerConfig) -> None:
        """Make a consumer, or change one within what may be changed."""

        async def work(stream: JetStreamContext) -> None:
            await stream.add_consumer(spec.name, config)

        await self.call(f"make consumer {config.name!r}", work)

    async def bury(self, delivery: Delivery, reader: str, reason: str) -> None:
        """Publish what cannot be decoded to DEAD, if the role may; never fails its reader."""
        if self._grant.buries:
            await bury(delivery, reader, reason, at=self.now(), publish=self.bury_letter)

    async def bury_letter(self, letter: DeadLetter, letter_id: str) -> None:
        """Publish a letter to DEAD under an id that makes a repeat harmless."""
        headers, payload = encode(letter, source=self.link.address.name)
        headers[Header.MSG_ID.value] = letter_id
        await self.publish(subjects.dead_subject(letter.subject), headers, payload)
        self.link.counts.dead_letters += 1

    async def provision(self) -> None:
        """Make all streams and buckets that are missing, if the role may."""
        if self._grant.provisions:
            await self._provision(self.link.require())

    async def call(self, what: str, work: Callable[[JetStreamContext], Awaitable[T]]) -> T:
        """One request; if its stream is missing and the role may make it, once more after that."""
        session = self.link.require()
        try:
            async with session.call(what):
                return await work(session.jetstream)
        except MissingStreamError:
            if not self._grant.provisions:
                raise
        await self._provision(session)
        async with session.call(what):
            return await work(session.jetstream)

    async def _provision(self, session: Session) -> None:
        async with session.call("provision"):
            await provision(session.jetstream, replicas_on(self.link.address.urls))


def _stored(found: RawStreamMsg) -> Stored:
    assert found.subject is not None
    assert found.seq is not None
    return Stored(found.seq, found.subject, found.headers or {}, found.data or b"")


def replicas_on(urls: tuple[str, ...]) -> int:
    """On how many servers a stream is kept: a cluster is told by naming each of its servers."""
    return CLUSTER_SERVERS if len(urls) >= CLUSTER_SERVERS else 1
