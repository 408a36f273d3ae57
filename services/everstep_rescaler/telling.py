"""Says in Kubernetes Events, in one sentence each, what happened to Jobs, Pods and Nodes.

Nothing waits for it and nothing fails with it: what cannot be said in time is dropped.
"""

import asyncio
from datetime import datetime
from typing import Final

import structlog
from everstep_contract.record import IncidentRecord, JobRecord, NodeRecord
from everstep_kube.errors import KubeError, RejectedError
from everstep_kube.events import About, Saying
from everstep_kube.objects import JobState, NodeState, PodState
from everstep_kube.writing import ClusterApi
from everstep_runtime.clock import Clock

from everstep_rescaler.cluster_audit import advice
from everstep_rescaler.cluster_model import DeletePod
from everstep_rescaler.metrics import EVENTS_SAID
from everstep_rescaler.sentences import incident_reason, incident_sentence, is_bad

WAITING_LIMIT: Final = 100
REFUSED_LIMIT: Final = 1_000
SPACING_SECONDS: Final = 0.2
"""So that a storm of incidents makes no storm of Events."""
REFUSED_PAUSE_SECONDS: Final = 300.0
"""How long a namespace is told nothing that refuses Events, as one that is being deleted does."""

log = structlog.get_logger()


class Teller:
    """Queues sentences, and makes them Events one after the other."""

    def __init__(self, api: ClusterApi, clock: Clock, *, act: bool) -> None:
        self._api = api
        self._clock = clock
        self._act = act
        self._waiting: asyncio.Queue[tuple[Saying, datetime]] = asyncio.Queue(WAITING_LIMIT)
        self._refused_until: dict[str, float] = {}

    def quarantined(self, node: NodeState, record: NodeRecord) -> None:
        """A node was cordoned and tainted."""
        asked = f" by {record.by}" if record.by else ""
        incident = record.quarantined_by or ""
        message = (
            f"Quarantined{asked} ({incident}): {record.reason};"
            f" release with: everstep release {node.name}"
        )
        self._say(Saying(About.node(node), "EverstepQuarantined", message, incident, warning=True))

    def released(self, node: NodeState, incident: str, reason: str) -> None:
        """A node's quarantine ended."""
        message = f"Released from its quarantine ({incident}): {reason}"
        self._say(Saying(About.node(node), "EverstepReleased", message, incident))

    def drained(self, node: NodeState, record: NodeRecord) -> None:
        """No member is seated on a node under maintenance any more."""
        incident = record.quarantined_by or ""
        message = (
            f"Drained ({incident}): no member of a job runs on it;"
            f" when the work is done: everstep release {node.name}"
        )
        self._say(Saying(About.node(node), "EverstepDrained", message, incident))

    def deleted(self, pod: PodState, incident: str, deletion: DeletePod) -> None:
        """A pod was deleted."""
        word = "Force-deleted" if deletion.force else "Deleted"
        message = f"{word}: {deletion.reason} ({incident})"
        reason = f"Everstep{word.replace('-d', 'D')}"
        self._say(Saying(About.pod(pod), reason, message, incident, warning=deletion.force))

    def evicted(self, pod: PodState, record: NodeRecord) -> None:
        """A pod was evicted from a node that is drained."""
        incident = record.quarantined_by or ""
        message = f"Evicted: {record.by} drains {record.node}: {record.reason} ({incident})"
        self._say(Saying(About.pod(pod), "EverstepEvicted", message, incident))

    def ended(self, job: JobState, incident: IncidentRecord, record: JobRecord | None) -> None:
        """An incident of a job ended."""
        reason, message = incident_reason(incident), incident_sentence(incident, record)
        if reason and message:
            bad = is_bad(incident)
            self._say(Saying(About.job(job), reason, message, incident.id, warning=bad))

    def _say(self, saying: Saying) -> None:
        if not self._act:
            return
        try:
            self._waiting.put_nowait((saying, self._clock.now()))
        except asyncio.QueueFull:
            EVENTS_SAID.labels("dropped").inc()

    async def run(self) -> None:
        """Make Events of what is said, until cancelled."""
        while True:
            saying, at = await self._waiting.get()
            namespace, now = saying.about.namespace, self._clock.monotonic()
            if now < self._refused_until.get(namespace, now):
                EVENTS_SAID.labels("dropped").inc()
                continue
            try:
                await self._api.say(saying, at)
                EVENTS_SAID.labels("made").inc()
            except RejectedError as error:
                EVENTS_SAID.labels("refused").inc()
                log.warning("event refused", about=saying.about.name, why=advice(error))
                if len(self._refused_until) >= REFUSED_LIMIT:
                    self._refused_until.clear()
                self._refused_until[namespace] = now + REFUSED_PAUSE_SECONDS
            except KubeError as error:
                EVENTS_SAID.labels("dropped").inc()
                log.warning("event not made", about=saying.about.name, error=str(error))
            await asyncio.sleep(SPACING_SECONDS)
