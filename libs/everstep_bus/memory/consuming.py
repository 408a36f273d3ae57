"""One process's consumption of a durable consumer on the twin."""

import asyncio

from everstep_contract.layout import Consumer

from everstep_bus.delivery import Again, Dead, Delivery, Done, Outcome, dead_letter_id, handle
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Handler, Proven
from everstep_bus.memory.client import MISSING_STREAM_SECONDS, MemoryClient
from everstep_bus.memory.consumer import MemoryConsumer
from everstep_bus.memory.stream import MemoryStream
from everstep_bus.progress import Progress
from everstep_bus.timing import WATCH_CHECK_SECONDS


class Consuming:
    """Takes deliveries one by one for as long as it runs."""

    def __init__(
        self, client: MemoryClient, consumer: Consumer, handler: Handler, proven: Proven
    ) -> None:
        self._proven = proven
        self._client = client
        self._consumer = consumer
        self._handler = handler
        self._progress = Progress()
        self._stream: MemoryStream | None = None

    async def run(self) -> None:
        """Consume until cancelled."""
        while True:
            await self._client.link.wait_up()
            try:
                stream = self._client.stream(self._consumer.stream)
            except TransientBusError:
                await asyncio.sleep(MISSING_STREAM_SECONDS)
                continue
            if stream is not self._stream:
                if self._stream is not None:
                    self._progress.forget()
                self._stream = stream
            await self._next(stream)

    async def _next(self, stream: MemoryStream) -> None:
        resume_after = self._progress.resume_after
        durable = self._client.broker.consumer(self._consumer, resume_after=resume_after)
        now = _now()
        delivery = durable.take(stream, now)
        self._proven()
        if delivery is None:
            due_seconds = durable.next_due() - now
            await stream.changed.wait(min(due_seconds, WATCH_CHECK_SECONDS))
            return
        self._progress.taken(delivery.sequence)
        await self._attend(durable, delivery)

    async def _attend(self, durable: MemoryConsumer, delivery: Delivery) -> None:
        connection, settled = self._client.link.connection, False
        try:
            await asyncio.sleep(self._client.broker.dice.delay_seconds())
            outcome = await handle(delivery, self._consumer, self._handler, self._client.broker.now)
            if self._client.link.connection is connection:
                settled = await self._settle(durable, delivery, outcome)
        finally:
            if not settled:
                due = _now() + self._consumer.ack_wait_seconds
                durable.deliver_again(delivery.sequence, due)

    async def _settle(self, durable: MemoryConsumer, delivery: Delivery, outcome: Outcome) -> bool:
        match outcome:
            case Again(delay_seconds):
                durable.deliver_again(delivery.sequence, _now() + delay_seconds)
                return True
            case Dead(letter):
                letter_id = dead_letter_id(delivery, self._consumer.name)
                try:
                    await self._client.bury_letter(letter, letter_id)
                except TransientBusError:
                    return False
                durable.acknowledge(delivery.sequence)
            case Done():
                self._acknowledge(durable, delivery.sequence)
        self._progress.done(delivery.sequence)
        return True

    def _acknowledge(self, durable: MemoryConsumer, sequence: int) -> None:
        dice = self._client.broker.dice
        if dice.comes_true(dice.mischief.redeliver):
            durable.lose_acknowledgement(sequence, _now())
        else:
            durable.acknowledge(sequence)


def _now() -> float:
    return asyncio.get_running_loop().time()
