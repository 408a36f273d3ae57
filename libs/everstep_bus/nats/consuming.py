"""One process's consumption of a durable pull consumer."""

import asyncio
from typing import Final

import structlog
from everstep_contract.layout import Consumer
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from everstep_bus.background import background
from everstep_bus.delivery import Again, Dead, Delivery, Done, Outcome, dead_letter_id, handle
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Handler, Proven
from everstep_bus.nats.jetstream import JetStream, StreamState
from everstep_bus.nats.link import backoff_seconds
from everstep_bus.nats.pull import POLL_SECONDS, PulledFrom, pulling
from everstep_bus.nats.session import Session
from everstep_bus.progress import Progress
from everstep_bus.timing import ACK_WAIT_FRACTION

ONE_AT_A_TIME: Final = 1
"""A message that waited here for its turn could exceed its acknowledgement deadline unseen."""
ACKNOWLEDGED: Final = b"+ACK"
IN_PROGRESS: Final = b"+WPI"
GIVEN_UP: Final = b"+TERM"

log = structlog.get_logger()


class Consuming:
    """Takes deliveries one by one for as long as it runs.

    The server never gives a message up (it would do so in silence); we count its deliveries and
    bury it ourselves, before we tell the server, so a crash in between buries it again.
    """

    def __init__(
        self, jetstream: JetStream, consumer: Consumer, handler: Handler, proven: Proven
    ) -> None:
        self._jetstream = jetstream
        self._consumer = consumer
        self._handler = handler
        self._source = PulledFrom(consumer.stream.name, consumer.name, ONE_AT_A_TIME, proven)
        self._progress = Progress()
        self._created = ""
        self._failures = 0

    async def run(self) -> None:
        """Consume until cancelled."""
        while True:
            session = await self._jetstream.link.session()
            try:
                await self._ensure_durable()
                await self._pull(session)
            except TransientBusError as error:
                await self._pause(error)

    async def _pull(self, session: Session) -> None:
        async with pulling(session, self._source) as pull:
            while True:
                message = await pull.next(POLL_SECONDS)
                self._failures = 0
                if message is not None:
                    await self._attend(session, message)
                else:
                    await self._ensure_durable()

    async def _attend(self, session: Session, message: Msg) -> None:
        about = message.metadata
        sequence = about.sequence.stream
        delivery = Delivery(
            message.subject, message.headers, message.data, sequence, about.num_delivered
        )
        self._progress.taken(sequence)
        async with background(self._extend(session, message.reply)):
            outcome = await handle(delivery, self._consumer, self._handler, self._jetstream.now)
        await self._settle(session, message.reply, delivery, outcome)

    async def _extend(self, session: Session, reply: str) -> None:
        """Keep the message from being delivered to another while its handler runs (EC-05)."""
        while True:
            await asyncio.sleep(self._consumer.ack_wait_seconds / ACK_WAIT_FRACTION)
            try:
                await self._tell(session, reply, IN_PROGRESS)
            except TransientBusError:
                return  # the handler goes on, and is prepared to see its message again

    async def _settle(
        self, session: Session, reply: str, delivery: Delivery, outcome: Outcome
    ) -> None:
        match outcome:
            case Again(delay_seconds):
                delay = f'-NAK {{"delay": {int(delay_seconds * 1e9)}}}'
                await self._tell(session, reply, delay.encode())
                return
            case Dead(letter):
                log.warning(
                    "message dead", subject=letter.subject, cause=letter.cause, why=letter.reason
                )
                letter_id = dead_letter_id(delivery, self._consumer.name)
                await self._jetstream.bury_letter(letter, letter_id)
                await self._tell(session, reply, GIVEN_UP)
            case Done():
                await self._tell(session, reply, ACKNOWLEDGED)
        self._progress.done(delivery.sequence)

    async def _tell(self, session: Session, reply: str, word: bytes) -> None:
        async with session.call("acknowledge"):
            await session.client.publish(reply, word)

    async def _ensure_durable(self) -> None:
        """Make sure that the durable is there and fits.

        Where its stream lost its tail, nats-server itself sets it back (a test holds that).
        """
        spec, name = self._consumer.stream, self._consumer.name
        state = await self._jetstream.state(spec)
        if self._created and state.created != self._created:
            self._progress.forget()
        self._created = state.created
        found = await self._jetstream.consumer(spec, name)
        if found is None:
            await self._jetstream.make_consumer(spec, self._new_config(state))
        elif not self._fits(found.config):
            await self._jetstream.make_consumer(spec, self._adapted(found.config))

    def _new_config(self, state: StreamState) -> ConsumerConfig:
        resume_after = self._progress.resume_after
        if resume_after is None:
            policy = DeliverPolicy.NEW if self._consumer.from_now else DeliverPolicy.ALL
            return self._adapted(ConsumerConfig(deliver_policy=policy))
        start = min(resume_after, state.last_sequence) + 1
        return self._adapted(
            ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=start)
        )

    def _adapted(self, config: ConsumerConfig) -> ConsumerConfig:
        """``config`` with what we want of a durable and where it starts as it was."""
        return config.evolve(
            name=self._consumer.name,
            durable_name=self._consumer.name,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self._consumer.ack_wait_seconds,
            max_deliver=-1,
            filter_subject=None,
            filter_subjects=list(self._consumer.filters),
        )

    def _fits(self, config: ConsumerConfig) -> bool:
        filters = set(config.filter_subjects or [config.filter_subject or ""])
        same_filters = filters == set(self._consumer.filters)
        return same_filters and config.ack_wait == self._consumer.ack_wait_seconds

    async def _pause(self, why: Exception) -> None:
        """Start over: at once, and after a growing while if nothing has come since."""
        self._jetstream.link.counts.rebuilds += 1
        if self._jetstream.link.connected:
            log.warning("bus consumer made anew", consumer=self._consumer.name, why=str(why))
        await asyncio.sleep(backoff_seconds(self._failures) if self._failures else 0)
        self._failures += 1
