"""Facts about incidents; the whole record travels, so that whoever missed one loses nothing."""

from typing import ClassVar

from everstep_contract.base import Event, Name
from everstep_contract.identity import JobKey
from everstep_contract.record import IncidentRecord


class IncidentEvent(Event):
    """A fact about one incident."""

    job: JobKey
    job_uid: Name
    incident: IncidentRecord

    @property
    def entity_id(self) -> str:
        return self.incident.id


class IncidentOpened(IncidentEvent):
    """A first suspicion: the clock runs from here."""

    TYPE: ClassVar[str] = "everstep.incident.opened.v1"

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.incident.id}"


class IncidentEnded(IncidentEvent):
    """It ended resumed, holding, given up or dismissed, each with its reason (R27)."""

    TYPE: ClassVar[str] = "everstep.incident.ended.v1"

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.incident.id}/{self.incident.outcome}"
