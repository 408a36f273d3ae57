"""All jobs' desks under one lease: takes records over, hands facts to the desk they are for."""

import asyncio
from collections.abc import Awaitable
from typing import Final

import structlog
from everstep_bus.errors import BusError, TransientBusError
from everstep_bus.interface import Bus, Received
from everstep_contract.base import Event
from everstep_contract.facts.job import JobObserved
from everstep_contract.facts.member import MemberJoined
from everstep_contract.facts.node import NodeEvent, NodeObserved, NodeQuarantined, NodeReleased
from everstep_contract.identity import JobKey
from everstep_contract.layout import INCIDENTS, JOBS, NODES
from everstep_contract.queries import (
    CommandAccepted,
    JobStatus,
    JobStatusReply,
    ProbeMember,
    ProbeReply,
    Refused,
)
from everstep_contract.telemetry import MemberReport
from everstep_runtime.clock import Clock

from everstep_adjudicator.actions import Filed, ProbeEnded, Quarantined
from everstep_adjudicator.desk import RETRY_SECONDS, Desk
from everstep_adjudicator.enact import Registry
from everstep_adjudicator.metrics import BROKEN, PROBES
from everstep_adjudicator.model import JobView
from everstep_adjudicator.operators import Command
from everstep_adjudicator.policy import Policy

CONCURRENT_PROBES: Final = 64
ANSWER_SECONDS: Final = 0.25
"""A witness's own time, on top of the probe's: it answers in milliseconds."""
JOBS_LIMIT: Final = 10_000
"""Jobs held at once; facts about more are not heard, and say so."""
FENCED_NODES_LIMIT: Final = 10_000

log = structlog.get_logger()


class Court:
    """Desks by job, for one tenure of the lease. Tasks it starts live in ``group``."""

    def __init__(
        self, bus: Bus, policy: Policy, clock: Clock, group: asyncio.TaskGroup, lease_revision: int
    ) -> None:
        self._bus = bus
        self._policy = policy
        self._clock = clock
        self._group = group
        self._lease_revision = lease_revision
        self._registry = Registry(bus, clock)
        self._desks: dict[JobKey, Desk] = {}
        self._keepers: dict[JobKey, asyncio.Task[None]] = {}
        self._fenced: dict[str, NodeObserved] = {}
        self._quarantined: frozenset[str] = frozenset()
        self._probes = asyncio.Semaphore(CONCURRENT_PROBES)

    @property
    def jobs(self) -> tuple[JobKey, ...]:
        """Those that have a desk."""
        return tuple(self._desks)

    async def take_over(self) -> None:
        """Make every record ours, and go on with what was open (R5, R6)."""
        while True:
            try:
                records = await self._bus.kv(JOBS).entries()
                incidents = await self._bus.kv(INCIDENTS).entries()
                self._quarantined = await self._read_quarantined()
                break
            except TransientBusError as error:
                log.warning("records not read", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
        current = {entry.value.incident for entry in records if entry.value}
        for entry in records:
            if entry.value is not None:
                self._open_desk(entry.value.job)
        known = [entry for entry in incidents if entry.value is not None]
        for job, desk in self._desks.items():
            await desk.hear(
                *(
                    Filed(entry.value, entry.revision)
                    for entry in sorted(known, key=lambda entry: entry.revision)
                    if entry.value is not None
                    and entry.value.job == job
                    and (entry.value.outcome is None or entry.value.id in current)
                )
            )

    async def hear(self, received: Received) -> None:
        """A fact of the stream; returns when all that follows from it is done."""
        match received.message:
            case NodeEvent() as fact:
                await self._hear_of_node(fact)
            case Event() as fact:
                job: JobKey = fact.job  # type: ignore[attr-defined]  # all but node events have one
                desk = self._desks.get(job)
                if desk is None and isinstance(fact, MemberJoined | JobObserved):
                    desk = self._open_desk(job)
                if desk is not None:
                    await desk.hear(fact)
            case _:
                pass

    async def hear_report(self, report: MemberReport) -> None:
        """An agent's word about itself."""
        desk = self._desks.get(report.job) or self._open_desk(report.job)
        if desk is not None:
            await _alone(report.job, desk.hear_report(report))

    async def compare_records(self) -> None:
        """Read every record again: its newest writes may have been lost with a disk (R5).

        Desks of jobs that are long over are closed; a late fact would open them again.
        """
        for job, desk in tuple(self._desks.items()):
            await _alone(job, desk.compare())
            if desk.is_done():
                del self._desks[job]
                self._keepers.pop(job).cancel()

    async def compare_nodes(self) -> None:
        """Read again which nodes are quarantined: nobody on one is let in (EC-22)."""
        try:
            nodes = await self._read_quarantined()
        except TransientBusError as error:
            log.debug("nodes not compared", error=str(error))
            return
        if nodes == self._quarantined:
            return
        self._quarantined = nodes
        for job, desk in tuple(self._desks.items()):
            await _alone(job, desk.hear(Quarantined(nodes)))

    async def _read_quarantined(self) -> frozenset[str]:
        entries = await self._bus.kv(NODES).entries()
        return frozenset(e.value.node for e in entries if e.value and e.value.quarantined_by)

    async def compare_incidents(self) -> None:
        """End what is stored as an open incident and is none (R27)."""
        try:
            for entry in await self._bus.kv(INCIDENTS).entries():
                desk = self._desks.get(entry.value.job) if entry.value else None
                if desk is not None and entry.value is not None:
                    await desk.compare_incident(entry.value, entry.revision)
        except TransientBusError as error:
            log.debug("incidents not compared", error=str(error))

    async def status(self, query: JobStatus) -> JobStatusReply:
        """How the job is, and what its next verdict waits for."""
        desk = self._desks.get(query.job)
        if desk is not None:
            return desk.status()
        entry = await self._bus.kv(JOBS).get(query.job.token)
        return JobStatusReply(record=entry.value if entry else None, incidents=())

    async def obey(self, command: Command) -> CommandAccepted | Refused:
        """An operator's command."""
        desk = self._desks.get(command.job)
        return await desk.obey(command) if desk else Refused(reason=f"no job {command.job}")

    def _open_desk(self, job: JobKey) -> Desk | None:
        if len(self._desks) >= JOBS_LIMIT:
            log.error("job not heard, there are too many", job=str(job), limit=JOBS_LIMIT)
            return None
        view = JobView(
            job=job,
            lease_revision=self._lease_revision,
            fenced_nodes=frozenset(self._fenced),
            quarantined_nodes=self._quarantined,
        )
        desk = Desk(view, self._policy, self._clock, self._registry, self._send_probe)
        self._desks[job] = desk
        self._keepers[job] = self._group.create_task(_keep_time(job, desk))
        return desk

    async def _hear_of_node(self, fact: NodeEvent) -> None:
        if isinstance(fact, NodeQuarantined | NodeReleased):
            await self.compare_nodes()
            return
        if isinstance(fact, NodeObserved):
            self._fenced.pop(fact.node, None)
            if (fact.deleted or fact.out_of_service) and len(self._fenced) < FENCED_NODES_LIMIT:
                self._fenced[fact.node] = fact
        for job, desk in tuple(self._desks.items()):
            await _alone(job, desk.hear(fact))

    def _send_probe(self, probe: ProbeMember) -> None:
        self._group.create_task(self._probe(probe))

    async def _probe(self, probe: ProbeMember) -> None:
        outcome, detail = None, ""
        async with self._probes:
            try:
                reply = await self._bus.ask(
                    probe, ProbeReply, timeout_seconds=probe.timeout_seconds + ANSWER_SECONDS
                )
                outcome, detail = reply.outcome, reply.detail
            except BusError as error:
                log.debug("witness did not answer", witness=probe.witness, error=str(error))
        PROBES.labels(outcome or "no_answer").inc()
        desk = self._desks.get(probe.job)
        if desk is not None:
            ended = ProbeEnded(probe.target, probe.witness, outcome, detail)
            await _alone(probe.job, desk.hear(ended))


async def _keep_time(job: JobKey, desk: Desk) -> None:
    while True:
        await _alone(job, desk.keep_time())
        await asyncio.sleep(RETRY_SECONDS)


async def _alone(job: JobKey, work: Awaitable[None]) -> None:
    """What goes wrong with one job is told, and takes no other job along.

    Only facts of the job itself are not heard this way: they end in DEAD with the reason.
    """
    try:
        await work
    except Exception:  # whatever the rules or their data have in store
        BROKEN.inc()
        log.exception("job not decided about", job=str(job))
