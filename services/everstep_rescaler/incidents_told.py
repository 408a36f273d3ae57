"""Follows incidents to their ends, and says on the Volcano Job what became of each."""

from datetime import timedelta
from typing import Final

import structlog
from everstep_bus.errors import BusError
from everstep_bus.interface import Bus, Received
from everstep_contract import subjects
from everstep_contract.facts.incident import IncidentEnded
from everstep_contract.layout import EVENTS, JOBS, Consumer
from everstep_kube.errors import KubeError
from everstep_kube.writing import ClusterApi
from everstep_runtime.clock import Clock

from everstep_rescaler.telling import Teller

ENDED: Final = Consumer(
    "rescaler_incidents", EVENTS, (subjects.event_filter(IncidentEnded),), from_now=True
)
NEWS: Final = timedelta(minutes=10)
"""What ended longer ago is said to nobody: the Event would say that it is new."""

log = structlog.get_logger()


async def tell_of_incidents(bus: Bus, api: ClusterApi, teller: Teller, clock: Clock) -> None:
    """Say what became of incidents, until cancelled; whoever of us hears of one says it."""

    async def handle(received: Received) -> None:
        fact = received.message
        if not isinstance(fact, IncidentEnded) or clock.now() - fact.at > NEWS:
            return
        try:
            entry = await bus.kv(JOBS).get(fact.job.token)
            job = await api.job(fact.job)
        except (BusError, KubeError) as error:
            log.warning("incident not told of", incident=fact.incident.id, error=str(error))
            return
        if job is not None and job.uid == fact.job_uid:
            teller.ended(job, fact.incident, entry.value if entry else None)

    await bus.consume(ENDED, handle)
