"""Answers operators' wishes for another size, and changes Jobs as they ask.

A change is conditional on what was just read, so a repeat does nothing; what it came to is read
again at the next look and told from there, so a crash in between forgets nothing.
"""

from typing import Final

import structlog
from everstep_bus.interface import Bus
from everstep_contract.base import MAX_TEXT
from everstep_contract.facts.job import ClusterWritten, RescaleAnswered
from everstep_contract.identity import JobKey
from everstep_contract.layout import JOBS
from everstep_contract.record import JobRecord
from everstep_contract.rescaling import JobSize
from everstep_kube.errors import RejectedError
from everstep_kube.resizing import Resizing, SizedJob
from everstep_runtime.clock import Clock

from everstep_rescaler.metrics import WRITES
from everstep_rescaler.resizing_decide import Answer, Resize, decide_resizing

REFUSED_LIMIT: Final = 10_000

log = structlog.get_logger()


class SizeDesk:
    """Sizes of one cluster's Jobs. Unless it may ``act`` it says that it may not."""

    def __init__(self, bus: Bus, jobs: Resizing, clock: Clock, *, act: bool) -> None:
        self._bus = bus
        self._jobs = jobs
        self._clock = clock
        self._act = act
        self._refused: dict[str, Answer] = {}

    async def look(self, job: JobKey) -> None:
        """Do what is due for the job's wish now, if it has one.

        Raises:
            BusError: The record could not be read, or an answer not be told: look again.
            KubeError: The Job could not be read or changed, or has changed: look again.
        """
        entry = await self._bus.kv(JOBS).get(job.token)
        record = entry.value if entry else None
        wish = record.rescale if record else None
        if record is None or wish is None or not wish.is_open:
            return
        found = await self._jobs.read(job)
        due = self._refused.get(wish.id) or decide_resizing(record, found, act=self._act)
        if isinstance(due, Resize) and found is not None:
            due = await self._change(record, found, due.size)
        if isinstance(due, Answer):
            await self._answer(record, wish.id, due)

    async def _change(self, record: JobRecord, job: SizedJob, size: JobSize) -> Answer | None:
        """Change the Job; what it came to is only read at the next look, unless it is refused."""
        try:
            await self._jobs.change(job, size)
        except RejectedError as error:
            refused = Answer("refused", job.size, str(error)[:MAX_TEXT])
            await self._tell(record, job, "refused", refused.detail)
            assert record.rescale is not None, "decided for a wish"
            if len(self._refused) >= REFUSED_LIMIT:
                self._refused.clear()
            self._refused[record.rescale.id] = refused  # the same patch is refused again (EC-19)
            return refused
        await self._tell(record, job, "done", f"{job.size} -> {size}")
        return None

    async def _tell(self, record: JobRecord, job: SizedJob, outcome: str, detail: str) -> None:
        """The audit of a write."""
        WRITES.labels("rescale", outcome).inc()
        log.info("job resized", job=str(record.job), outcome=outcome, detail=detail)
        fact = ClusterWritten.model_validate(
            {
                "at": self._clock.now(),
                "job": record.job,
                "job_uid": record.job_uid,
                "verb": "rescale",
                "target": record.job.name,
                "target_uid": job.uid,
                "generation": record.generation,
                "outcome": outcome,
                "detail": detail,
            }
        )
        await self._bus.publish(fact)

    async def _answer(self, record: JobRecord, wish: str, answer: Answer) -> None:
        """Told at each look until the record shows that it was heard."""
        fact = RescaleAnswered(
            at=self._clock.now(),
            job=record.job,
            job_uid=record.job_uid,
            wish=wish,
            answer=answer.answer,
            size=answer.size,
            detail=answer.detail[:MAX_TEXT],
        )
        await self._bus.publish(fact)
