"""Which facts tell a drill's story; all the others are for those who want everything."""

from everstep_contract.base import Event
from everstep_contract.facts.checkpoint import (
    CheckpointCommitted,
    CheckpointDamaged,
    SaveFailed,
)
from everstep_contract.facts.incident import IncidentEnded, IncidentOpened
from everstep_contract.facts.job import OrderIssued, PodObserved, StepAdvanced, VerdictReached
from everstep_contract.facts.member import MemberFormed, MemberSuspected

from everstep_cli.describe import detail_of


class Story:
    """Remembers what was told: nothing is told twice."""

    def __init__(self, *, everything: bool) -> None:
        self._everything = everything
        self._told: set[tuple[str, ...]] = set()
        self._troubled = False

    def tells(self, event: Event) -> bool:
        """Whether the event belongs to the story and is new in it.

        Of a generation the first member that agreed and the first step stand for all, and of
        checkpoints the first one after trouble.
        """
        match event:
            case IncidentOpened() | IncidentEnded() | VerdictReached() | OrderIssued():
                return self._new(event.dedup_id)
            case CheckpointDamaged() | SaveFailed():
                self._troubled = True
                return self._new(event.TYPE, event.checkpoint)
            case CheckpointCommitted() if self._troubled:
                self._troubled = False
                return True
            case MemberSuspected():
                return self._new(event.TYPE, event.member.incarnation, event.reason)
            case StepAdvanced():
                return self._new(event.TYPE, str(event.generation))
            case MemberFormed() if not self._everything:
                return self._new(event.TYPE, str(event.generation))
            case PodObserved() if self._everything:
                return self._new(event.TYPE, event.pod_uid, detail_of(event))
            case _:
                return self._everything

    def _new(self, *key: str) -> bool:
        new = key not in self._told
        self._told.add(key)
        return new
