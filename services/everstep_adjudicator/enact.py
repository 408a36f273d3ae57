"""Enacts decisions: the record by compare-and-set first, then what others are told (R4-R6)."""

from itertools import pairwise
from typing import assert_never

import structlog
from everstep_bus.errors import RevisionMismatchError, TransientBusError
from everstep_bus.interface import Bus
from everstep_contract.envelope import Cause
from everstep_contract.facts.incident import IncidentEnded, IncidentOpened
from everstep_contract.facts.job import VerdictReached
from everstep_contract.layout import INCIDENTS, JOBS
from everstep_contract.names import encode_name
from everstep_contract.record import IncidentRecord, JobRecord
from everstep_contract.verdicts import Tolerate
from everstep_runtime.clock import Clock
from everstep_runtime.errors import LeaseLostError

from everstep_adjudicator import metrics
from everstep_adjudicator.actions import Advance, Announce, Announced, File, Filed, Recorded, Rule
from everstep_adjudicator.incidents import MILESTONES
from everstep_adjudicator.model import JobView

LEASE_NAME = "adjudicator"

log = structlog.get_logger()


class Registry:
    """The only writer of job records and incidents."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._jobs = bus.kv(JOBS)
        self._incidents = bus.kv(INCIDENTS)
        self._clock = clock

    async def enact(
        self, view: JobView, action: Rule | Advance | Announce | File, because: str | None
    ) -> Recorded | Announced | Filed:
        """Do it, and return what is known after it. ``because``: id of the fact that led to it.

        Raises:
            TransientBusError: Unknown whether it is done: read the record, decide again.
            LeaseLostError: Another leads by now.
        """
        match action:
            case Rule(record=record, incident=incident):
                return await self._write(view, record, incident)
            case Advance(record=record):
                return await self._write(view, record, None)
            case Announce(record=record):
                return await self._announce(record, because)
            case File(incident=incident):
                return await self._file(view, incident, because)
            case _:
                assert_never(action)

    async def read(self, view: JobView) -> Recorded:
        """The record as it is stored; ours to write, or another leads (R5).

        Raises:
            TransientBusError: Not known.
            LeaseLostError: A newer leader wrote it.
        """
        entry = await self._jobs.get(view.job.token)
        if entry is None or entry.value is None:
            return Recorded(None, entry.revision if entry else 0)
        if entry.value.lease_revision > view.lease_revision:
            raise LeaseLostError(lease=LEASE_NAME, why=f"{view.job} has a newer leader")
        if entry.value.lease_revision == view.lease_revision:
            return Recorded(entry.value, entry.revision)
        claimed = entry.value.model_copy(update={"lease_revision": view.lease_revision})
        try:
            revision = await self._jobs.put(view.job.token, claimed, expected=entry.revision)
        except RevisionMismatchError as error:
            raise TransientBusError(f"{view.job} changed while it was claimed") from error
        return Recorded(claimed, revision)

    async def _write(
        self, view: JobView, record: JobRecord, incident: IncidentRecord | None
    ) -> Recorded:
        """Compare-and-set; whatever is unclear is read back, and our verdict id means we won."""
        try:
            revision = await self._jobs.put(view.job.token, record, expected=view.revision)
        except RevisionMismatchError:
            metrics.WRITES.labels("lost_race").inc()
        except TransientBusError:
            metrics.WRITES.labels("unanswered").inc()
        else:
            metrics.WRITES.labels("written").inc()
            return Recorded(record, revision, incident)
        stored = await self.read(view)
        ours = stored.record is not None and stored.record.verdict_id == record.verdict_id
        return Recorded(stored.record, stored.revision, incident if ours else None)

    async def _announce(self, record: JobRecord, because: str | None) -> Announced:
        await self._bus.publish(
            VerdictReached(
                at=record.decided_at,
                job=record.job,
                job_uid=record.job_uid,
                verdict_id=record.verdict_id,
                generation=record.generation,
                verdict=record.verdict,
                reason=record.reason,
                evidence=record.evidence,
                incident=record.incident,
            ),
            cause=Cause(correlation_id=record.incident, causation_id=because),
        )
        metrics.VERDICTS.labels(record.verdict.kind).inc()
        return Announced(record.verdict_id)

    async def _file(self, view: JobView, incident: IncidentRecord, because: str | None) -> Filed:
        """Store it. An opening is told after it, an end before it: a crash repeats, never hides."""
        cause = Cause(correlation_id=incident.id, causation_id=because)
        if incident.outcome is not None:
            await self._tell_the_end(incident, cause)
        revision = await self._store(incident, view.incident_revision)
        if view.filed is None and incident.outcome is None:
            await self._tell_the_opening(incident, cause)
        if incident.outcome is not None:
            _observe(incident)
        return Filed(incident, revision)

    async def _store(self, incident: IncidentRecord, expected: int) -> int:
        key = encode_name(incident.id)
        try:
            return await self._incidents.put(key, incident, expected=expected)
        except RevisionMismatchError:
            entry = await self._incidents.get(key)
            revision = entry.revision if entry else 0
            return await self._incidents.put(key, incident, expected=revision)

    async def close(self, incident: IncidentRecord, revision: int) -> None:
        """Store the end of an incident that is stored as open; somebody else may do so first."""
        await self._tell_the_end(incident, Cause(correlation_id=incident.id))
        try:
            await self._incidents.put(encode_name(incident.id), incident, expected=revision)
        except RevisionMismatchError:
            log.info("incident changed while it was closed", incident=incident.id)

    async def _tell_the_opening(self, incident: IncidentRecord, cause: Cause) -> None:
        """Publish that the incident is open; a repeat is harmless."""
        await self._bus.publish(
            IncidentOpened(
                at=incident.opened_at, job=incident.job, job_uid=incident.job_uid, incident=incident
            ),
            cause=cause,
        )

    async def _tell_the_end(self, incident: IncidentRecord, cause: Cause) -> None:
        at = incident.ended_at or self._clock.now()
        if incident.verdict == "tolerate":
            await self._bus.publish(_tolerated(incident), cause=cause)
            metrics.VERDICTS.labels("tolerate").inc()
        await self._bus.publish(
            IncidentEnded(at=at, job=incident.job, job_uid=incident.job_uid, incident=incident),
            cause=cause,
        )


def _tolerated(incident: IncidentRecord) -> VerdictReached:
    return VerdictReached(
        at=incident.ended_at or incident.opened_at,
        job=incident.job,
        job_uid=incident.job_uid,
        verdict_id=f"tolerate-{incident.id}"[:253],
        generation=incident.generation_before,
        verdict=Tolerate(suspected=tuple(member.incarnation for member in incident.suspected)),
        reason=incident.reason,
        incident=incident.id,
    )


def _observe(incident: IncidentRecord) -> None:
    assert incident.outcome is not None, "only what has ended is observed"
    metrics.INCIDENTS.labels(incident.outcome).inc()
    known = [(name, incident.milestones.get(name)) for name in MILESTONES]
    for (_, before), (name, at) in pairwise(known):
        if before is not None and at is not None:
            metrics.STAGES.labels(name).observe((at - before).total_seconds())
