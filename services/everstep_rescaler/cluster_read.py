"""Reads one job's scene: its record, its Job, and what has become of whom it leaves out (R25).

Every read is made anew for every look, so that a look just before a write sees what is there.
"""

from datetime import timedelta
from typing import Final

from everstep_contract.identity import JobKey, Member
from everstep_contract.layout import INCIDENTS, JOBS, NODES
from everstep_contract.names import encode_name
from everstep_contract.record import Exclusion, IncidentRecord, JobRecord, NodeRecord
from everstep_kube.objects import PodState

from everstep_rescaler.cluster_model import Lost, Scene
from everstep_rescaler.hearing import Hearing
from everstep_rescaler.house import House

COUNTED_VERDICTS: Final = frozenset({"shrink", "swap", "await_replacement"})
"""Verdicts on lost members; a worker's own fault says nothing of the node."""


class SceneReader:
    """Looks at a job through the bus and the cluster's API."""

    def __init__(self, house: House, hearing: Hearing) -> None:
        self._bus = house.bus
        self._api = house.api
        self._clock = house.clock
        self._policy = house.policy
        self._hearing = hearing

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
        quarantined = [one for one in await self.node_records() if one.counts]
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
        pod = await self._api.pod(record.job.namespace, exclusion.member.name)
        member = _where_its_pod_is(exclusion.member, pod)
        entry = await self._bus.kv(NODES).get(encode_name(member.node))
        known = entry.value if entry else None
        node = await self._api.node(member.node)
        if node is not None:
            self._hearing.know_boot(member, node.boot_id)
        return Lost(
            member=member,
            evidence=frozenset(evidence.kind for evidence in exclusion.evidence),
            incident=_incident_of(member, incidents) or record.incident or member.incarnation,
            pod=pod,
            node=node,
            node_record=known,
            silent_seconds=self._hearing.pod_silence_seconds(member),
            node_silent_seconds=self._hearing.node_silence_seconds(member),
            failures=failures_on(member.node, incidents, known),
            boot_id=self._hearing.boot_of(member),
        )


def _where_its_pod_is(member: Member, pod: PodState | None) -> Member:
    """An agent says on which node it is; while its pod is there, the API server knows better."""
    if pod is None or pod.uid != member.pod_uid or pod.node in ("", member.node):
        return member
    return member.model_copy(update={"node": pod.node})


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


def failures_on(node: str, incidents: tuple[IncidentRecord, ...], known: NodeRecord | None) -> int:
    """Incidents that count for repetition: a person who released the node wiped the slate."""
    since = known.at if known is not None and known.quarantined_by is None else None
    counted = (one for one in incidents if since is None or one.opened_at > since)
    return sum(_lost_a_member_on(node, one) for one in counted)


def _lost_a_member_on(node: str, incident: IncidentRecord) -> bool:
    planned = {item.incarnation for item in incident.evidence if item.kind == "planned"}
    condemned = {item.incarnation for item in incident.evidence} - planned
    return incident.verdict in COUNTED_VERDICTS and any(
        member.node == node and member.incarnation in condemned for member in incident.suspected
    )
