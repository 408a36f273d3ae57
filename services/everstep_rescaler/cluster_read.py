"""Reads one job's scene: its record, its Job, and what has become of whom it leaves out (R25).

Every read is made anew for every look, so that a look just before a write sees what is there.
"""

from datetime import timedelta
from typing import Final

from everstep_bus.interface import Bus
from everstep_contract.identity import JobKey, Member
from everstep_contract.layout import INCIDENTS, JOBS, NODES
from everstep_contract.names import encode_name
from everstep_contract.record import Exclusion, IncidentRecord, JobRecord, NodeRecord
from everstep_kube.writing import ClusterApi
from everstep_runtime.clock import Clock

from everstep_rescaler.cluster_model import Lost, Scene
from everstep_rescaler.cluster_policy import ClusterPolicy
from everstep_rescaler.hearing import Hearing

COUNTED_VERDICTS: Final = frozenset({"shrink", "swap", "await_replacement"})
"""Verdicts on lost members; a worker's own fault says nothing of the node."""


class SceneReader:
    """Looks at a job through the bus and the cluster's API."""

    def __init__(
        self, bus: Bus, api: ClusterApi, clock: Clock, hearing: Hearing, policy: ClusterPolicy
    ) -> None:
        self._bus = bus
        self._api = api
        self._clock = clock
        self._hearing = hearing
        self._policy = policy

    async def read(self, job: JobKey) -> Scene | None:
        """The scene as it is now; None if the job has no record.

        Raises:
            BusError: A record could not be read.
            KubeError: The API server did not answer.
        """
        entry = await self._bus.kv(JOBS).get(job.token)
        record = entry.value if entry else None
        if record is None:
            return None
        state = await self._api.job(job)
        if not record.excluded or state is None:
            return Scene(record, state)
        incidents = await self._incidents(record)
        quarantined = [one for one in await self.node_records() if one.quarantined_by]
        lost = [await self._lost(record, one, incidents) for one in record.excluded]
        return Scene(record, state, tuple(lost), len(quarantined))

    async def node_records(self) -> tuple[NodeRecord, ...]:
        """What Everstep did to nodes."""
        entries = await self._bus.kv(NODES).entries()
        return tuple(entry.value for entry in entries if entry.value)

    async def _incidents(self, record: JobRecord) -> tuple[IncidentRecord, ...]:
        """Incidents within the time that repetition counts, newest first."""
        oldest = self._clock.now() - timedelta(seconds=self._policy.repetition_seconds)
        entries = await self._bus.kv(INCIDENTS).entries()
        found = [entry.value for entry in entries if entry.value]
        recent = [incident for incident in found if incident.opened_at >= oldest]
        return tuple(sorted(recent, key=lambda incident: incident.opened_at, reverse=True))

    async def _lost(
        self, record: JobRecord, exclusion: Exclusion, incidents: tuple[IncidentRecord, ...]
    ) -> Lost:
        member = exclusion.member
        known = await self._bus.kv(NODES).get(encode_name(member.node))
        return Lost(
            member=member,
            evidence=frozenset(evidence.kind for evidence in exclusion.evidence),
            incident=_incident_of(member, incidents) or record.incident or member.incarnation,
            pod=await self._api.pod(record.job.namespace, member.name),
            node=await self._api.node(member.node),
            node_record=known.value if known else None,
            silent_seconds=self._hearing.pod_silence_seconds(member),
            node_silent_seconds=self._hearing.node_silence_seconds(member),
            failures=sum(_lost_a_member_on(member.node, incident) for incident in incidents),
        )


def _incident_of(member: Member, incidents: tuple[IncidentRecord, ...]) -> str | None:
    """The newest incident in which this very incarnation was suspected."""
    incarnation = member.incarnation
    return next(
        (
            incident.id
            for incident in incidents
            if any(one.incarnation == incarnation for one in incident.suspected)
        ),
        None,
    )


def _lost_a_member_on(node: str, incident: IncidentRecord) -> bool:
    planned = {item.incarnation for item in incident.evidence if item.kind == "planned"}
    condemned = {item.incarnation for item in incident.evidence} - planned
    return incident.verdict in COUNTED_VERDICTS and any(
        member.node == node and member.incarnation in condemned for member in incident.suspected
    )
