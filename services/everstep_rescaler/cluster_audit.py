"""Tells of every write to the cluster: on the bus, in one line of the log, and as a number.

What was refused is told as well, with what to do about it; nothing that matters is told nowhere.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

import structlog
from everstep_bus.interface import Bus
from everstep_contract.base import MAX_TEXT, Event
from everstep_contract.envelope import Cause
from everstep_contract.facts.job import ClusterWritten
from everstep_contract.facts.node import NodeWritten
from everstep_contract.identity import JobKey
from everstep_contract.record import JobRecord, NodeRecord
from everstep_kube.errors import DeniedError, RejectedError
from everstep_runtime.clock import Clock

from everstep_rescaler.metrics import WRITES

DETAIL_CHARACTERS: Final = 1000
OBSERVING: Final = "the rescaler only observes: EVERSTEP_MODE=act, with its roles, lets it write"

NodeVerb = Literal["cordon", "taint", "release"]
PodVerb = Literal["delete_pod", "force_delete_pod", "evict"]
Verb = NodeVerb | PodVerb | Literal["annotate"]
Outcome = Literal["done", "already", "refused"]

log = structlog.get_logger()


@dataclass(frozen=True)
class Owner:
    """The job on whose behalf something is written, as its record is."""

    job: JobKey
    job_uid: str
    generation: int

    @classmethod
    def of(cls, record: JobRecord) -> "Owner":
        """The record's job."""
        return cls(record.job, record.job_uid, record.generation)

    @classmethod
    def of_node(cls, record: NodeRecord) -> "Owner | None":
        """The job whose failure led to what was done to the node; a person's word has none."""
        return cls(record.job, record.job_uid, record.generation) if record.job else None


@dataclass(frozen=True)
class Deed:
    """One write: what, to whom, why, for which incident, and on whose word if a person's."""

    verb: Verb
    target: str
    uid: str
    incident: str | None
    reason: str
    owner: Owner | None
    by: str = ""


class Audit:
    """Tells of deeds."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock

    async def tell(self, deed: Deed, outcome: Outcome, detail: str = "") -> None:
        """Tell what became of a deed; ``detail`` says why it was refused.

        Raises:
            BusError: It is in the log, but not known to be on the bus.
        """
        WRITES.labels(deed.verb, outcome).inc()
        log.info(
            "cluster written" if outcome != "refused" else "cluster not written",
            verb=deed.verb,
            target=deed.target,
            uid=deed.uid,
            incident=deed.incident,
            job=str(deed.owner.job) if deed.owner else None,
            by=deed.by or None,
            reason=deed.reason,
            outcome=outcome,
            detail=detail or None,
        )
        fact = _fact(deed, outcome, detail[:DETAIL_CHARACTERS], self._clock.now())
        if fact is not None:
            await self._bus.publish(fact, cause=Cause(correlation_id=deed.incident))


def advice(error: RejectedError) -> str:
    """Why a write was refused, and what to do about it."""
    said = str(error)[: DETAIL_CHARACTERS - 200]
    if isinstance(error, DeniedError):
        roles = "`kubectl apply -k deploy/k8s/overlays/act` grants it, EVERSTEP_MODE=observe stops"
        return f"{said} -- the rescaler's role does not allow it: {roles} the tries"
    return f"{said} -- a rule of the cluster, or a webhook, refuses it: its owner must allow it"


def _fact(deed: Deed, outcome: Outcome, detail: str, at: datetime) -> Event | None:
    match deed.verb:
        case "cordon" | "taint" | "release" if deed.owner is None:
            return NodeWritten(
                at=at,
                node=deed.target,
                verb=deed.verb,
                incident=deed.incident or "unknown",
                by=deed.by or "unknown",
                reason=deed.reason,
                outcome=outcome,
                detail=detail,
            )
        case _ if deed.owner is None:
            return None
        case verb:
            return ClusterWritten(
                at=at,
                job=deed.owner.job,
                job_uid=deed.owner.job_uid,
                verb=verb,
                target=deed.target,
                target_uid=deed.uid,
                generation=deed.owner.generation,
                outcome=outcome,
                detail=(detail or deed.reason)[:MAX_TEXT],
                incident=deed.incident,
                by=deed.by,
            )
