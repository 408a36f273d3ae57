"""Posts the order that each record asks for, conditionally, and publishes its copy (R8)."""

from typing import Final

import structlog
from everstep_bus.errors import RevisionMismatchError, TransientBusError
from everstep_bus.interface import Bus, PostedOrder
from everstep_contract.envelope import Cause
from everstep_contract.facts.job import OrderIssued
from everstep_contract.identity import JobKey
from everstep_contract.layout import JOBS
from everstep_contract.orders import Order
from everstep_contract.record import JobRecord
from everstep_runtime.clock import Clock

from everstep_rescaler.decide import contradicts, next_order
from everstep_rescaler.metrics import ORDERS, STAGES

MAX_TRIES: Final = 5
"""How often a lost race is run again before the next resync takes over, a second later."""

log = structlog.get_logger()


class OrderDesk:
    """Keeps the last order of each job equal to what its record asks for.

    Several may work at once: an order is posted only after the very one that it was derived
    against, so each generation is ordered once, whoever wins.
    """

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._last: dict[JobKey, PostedOrder | None] = {}
        self._copied: dict[JobKey, str] = {}
        self._contradicted: dict[JobKey, str] = {}

    async def issue(self, record: JobRecord) -> None:
        """Order what ``record`` asks for, unless the last order that we know of does.

        Raises:
            TransientBusError: The bus does not answer; the next resync repairs it.
        """
        for _ in range(MAX_TRIES):
            last = await self._last_of(record.job)
            if last and last.order.job_uid != record.job_uid:
                record = await self._read_again(record)  # which of the two uids is the newer?
            order = next_order(record, last.order if last else None)
            if order is None or await self._post(order, last, record):
                break
            self._last.pop(record.job, None)
            record = await self._read_again(record)
        self._compare(record)
        await self._copy(record)

    async def resync(self, record: JobRecord) -> None:
        """As `issue`, but against what the stream holds now, which may have lost its tail."""
        self._last.pop(record.job, None)
        await self.issue(record)

    def forget(self, job: JobKey) -> None:
        """The job's record is gone."""
        for memory in (self._last, self._copied, self._contradicted):
            memory.pop(job, None)

    async def _last_of(self, job: JobKey) -> PostedOrder | None:
        if job not in self._last:
            self._last[job] = await self._bus.last_order(job)
        return self._last[job]

    async def _read_again(self, record: JobRecord) -> JobRecord:
        entry = await self._bus.kv(JOBS).get(record.job.token)
        return entry.value if entry and entry.value else record

    async def _post(self, order: Order, last: PostedOrder | None, record: JobRecord) -> bool:
        try:
            sequence = await self._bus.post_order(order, expected=last.sequence if last else 0)
        except RevisionMismatchError:
            ORDERS.labels("lost_race").inc()
            return False
        except TransientBusError:
            ORDERS.labels("unanswered").inc()
            return False
        self._last[order.job] = PostedOrder(order, sequence)
        ORDERS.labels("posted").inc()
        waited = (self._clock.now() - record.decided_at).total_seconds()
        STAGES.labels("ordered").observe(max(waited, 0.0))
        log.info(
            "order posted",
            job=str(order.job),
            generation=order.generation,
            state=order.state,
            verdict=record.verdict.kind,
            incident=record.incident,
            members=len(order.seats),
            seconds_since_decided=round(waited, 4),
        )
        return True

    def _compare(self, record: JobRecord) -> None:
        last = self._last.get(record.job)
        if not contradicts(record, last.order if last else None):
            return
        if self._contradicted.get(record.job) != record.verdict_id:
            self._contradicted[record.job] = record.verdict_id
            ORDERS.labels("contradicted").inc()
            log.error(
                "generation ordered under another verdict",
                job=str(record.job),
                generation=record.generation,
                verdict_id=record.verdict_id,
            )

    async def _copy(self, record: JobRecord) -> None:
        last = self._last.get(record.job)
        if last is None or self._copied.get(record.job) == last.order.verdict_id:
            return
        order = last.order
        issued = OrderIssued(
            at=self._clock.now(), job=order.job, job_uid=order.job_uid, order=order
        )
        await self._bus.publish(issued, cause=Cause(correlation_id=record.incident))
        self._copied[order.job] = order.verdict_id
