"""One client's reads and writes of the twin's streams, with everything that can go wrong."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

from everstep_contract import subjects
from everstep_contract.clients import AgentClient, parse_client_name
from everstep_contract.dead import DeadLetter
from everstep_contract.envelope import encode
from everstep_contract.layout import DEAD, Stream

from everstep_bus.burying import bury
from everstep_bus.delivery import Delivery
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Proven, unheard
from everstep_bus.memory.broker import MemoryBroker
from everstep_bus.memory.connections import Link
from everstep_bus.memory.stream import MESSAGE_ID, MemoryStream
from everstep_bus.stored import Stored

MISSING_STREAM_SECONDS: Final = 0.5
"""How long a reader waits before it looks again for a stream that is gone."""


class MemoryClient:
    """What every part of one `MemoryBus` does over its connection."""

    def __init__(self, broker: MemoryBroker, client_name: str) -> None:
        self.broker = broker
        self.name = client_name
        self.link = Link(broker.connections, client_name)
        self._provisions = not isinstance(parse_client_name(client_name), AgentClient)

    async def reach(self, spec: Stream) -> MemoryStream:
        """Ask for a stream over the network; services make a lost one anew.

        Raises:
            TransientBusError: Not connected, or there is no such stream.
        """
        connection = self.link.require()
        await asyncio.sleep(self.broker.dice.delay_seconds())
        if self._comes_true(self.broker.dice.mischief.drop_connection):
            self.broker.connections.drop(self.name)
        if self.link.connection is not connection:
            raise TransientBusError(f"{self.name} lost its connection")
        return self.stream(spec)

    def stream(self, spec: Stream) -> MemoryStream:
        """The stream; services make a lost one anew.

        Raises:
            TransientBusError: There is no such stream and this client may make none.
        """
        try:
            return self.broker.stream(spec)
        except TransientBusError:
            if not self._provisions:
                raise
        self.broker.provision()
        return self.broker.stream(spec)

    async def write(
        self,
        spec: Stream,
        subject: str,
        headers: Mapping[str, str],
        payload: bytes,
        *,
        expected: int | None = None,
    ) -> int:
        """Store a message and wait for the acknowledgement; returns its sequence.

        Raises:
            RevisionMismatchError: The subject's last sequence is not ``expected``.
            TransientBusError: Not stored, or stored without an acknowledgement that came back.
        """
        mischief = self.broker.dice.mischief
        stream = await self.reach(spec)
        if self._comes_true(mischief.refuse):
            raise TransientBusError(f"{subject!r} was not stored in time")
        connection = self.link.require()
        sequence = stream.append(subject, headers, payload, expected=expected)
        if MESSAGE_ID in headers and self._comes_true(mischief.duplicate):
            again = {name: value for name, value in headers.items() if name != MESSAGE_ID}
            stream.append(subject, again, payload, expected=None)
        await asyncio.sleep(self.broker.dice.delay_seconds())
        lost = self._comes_true(mischief.lose_reply)
        if lost or self.link.connection is not connection:
            raise TransientBusError(f"no acknowledgement for {subject!r}")
        return sequence

    async def bury(self, delivery: Delivery, reader: str, reason: str) -> None:
        """Publish what cannot be decoded to DEAD; never fails its reader."""
        now = self.broker.now()
        await bury(delivery, reader, reason, at=now, publish=self.bury_letter)

    async def bury_letter(self, letter: DeadLetter, letter_id: str) -> None:
        """Publish a letter to DEAD under an id that makes a repeat harmless."""
        headers, payload = encode(letter, source=self.name)
        headers[MESSAGE_ID] = letter_id
        await self.write(DEAD, subjects.dead_subject(letter.subject), headers, payload)

    async def follow(
        self, spec: Stream, *, resync_seconds: float, proven: Proven = unheard
    ) -> AsyncIterator[Stored]:
        """Every message that the stream keeps, then each new one, whatever happens.

        After the stream or its tail was lost it starts over.
        """
        cursor, known, losses = 0, None, 0
        while True:
            await self.link.wait_up()
            try:
                stream = self.stream(spec)
            except TransientBusError:
                await asyncio.sleep(MISSING_STREAM_SECONDS)
                continue
            if stream is not known or stream.losses != losses:
                cursor, known, losses = 0, stream, stream.losses
            proven()
            stored = next(stream.after(cursor), None)
            if stored is None:
                await self._next_notice(stream, resync_seconds)
                continue
            cursor = stored.sequence
            await asyncio.sleep(self.broker.dice.delay_seconds())
            yield stored

    async def _next_notice(self, stream: MemoryStream, resync_seconds: float) -> None:
        told = await stream.changed.wait(resync_seconds)
        if told and self._comes_true(self.broker.dice.mischief.lose_notice):
            await asyncio.sleep(resync_seconds)

    def _comes_true(self, chance: float) -> bool:
        return self.broker.dice.comes_true(chance)
