"""One job's desk: hears facts one at a time, decides, enacts, and keeps time."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog
from everstep_bus.errors import TransientBusError
from everstep_contract.base import Event
from everstep_contract.queries import (
    CommandAccepted,
    JobStatusReply,
    ProbeMember,
    Refused,
)
from everstep_contract.record import IncidentRecord, JobRecord
from everstep_contract.telemetry import MemberReport
from everstep_runtime.clock import Clock, Moment

from everstep_adjudicator.actions import (
    Advance,
    Ask,
    Asked,
    Attempted,
    Decision,
    File,
    Heard,
    Refuse,
    Rule,
    Wait,
)
from everstep_adjudicator.case import Case
from everstep_adjudicator.decide import decide
from everstep_adjudicator.enact import Registry
from everstep_adjudicator.fold import fold
from everstep_adjudicator.fold_members import is_heartbeat
from everstep_adjudicator.incidents import stray
from everstep_adjudicator.metrics import DECIDING
from everstep_adjudicator.model import JobView
from everstep_adjudicator.operators import Command, obey
from everstep_adjudicator.policy import Policy
from everstep_adjudicator.sizing import renamed
from everstep_adjudicator.telling import status_of

STEPS_LIMIT: Final = 64
"""Actions that one fact may lead to; more would be a rule that contradicts itself."""
RETRY_SECONDS: Final = 0.1
"""Pause after the bus gave no answer; whatever was meant is decided again after it, until the
lease, which needs the bus as well, is lost."""
HEARTBEATS_SECONDS: Final = 0.1
"""How long a heartbeat waits for others: hundreds of members send two a second."""

OVER_KEPT_SECONDS: Final = 3600.0
"""How long a job that is over keeps its desk: late facts about it come within minutes."""

log = structlog.get_logger()


class EndlessDecisionError(AssertionError):
    """The rules do not come to rest."""


class Desk:
    """Everything about one job that changes; `hear` may be called from several tasks."""

    def __init__(
        self,
        view: JobView,
        policy: Policy,
        clock: Clock,
        registry: Registry,
        ask: Callable[[ProbeMember], None],
    ) -> None:
        """``ask`` sends a probe without waiting; its answer comes back through `hear`."""
        self._view = view
        self._policy = policy
        self._clock = clock
        self._registry = registry
        self._ask = ask
        self._turn = asyncio.Lock()
        self._woken = asyncio.Event()
        self._until: float | None = None
        self._waiting_for = ""
        self._because: str | None = None
        self._unread = True
        self._over_since: float | None = None

    async def hear(self, *facts: Heard) -> None:
        """Fold facts and do all that follows; returns when it is done, however long that takes."""
        started = self._clock.monotonic()
        async with self._turn:
            for fact in facts:
                self._view = fold(self._view, fact, self._now())
                self._because = fact.dedup_id if isinstance(fact, Event) else self._because
        await self._settle()
        DECIDING.observe(self._clock.monotonic() - started)

    async def hear_report(self, report: MemberReport) -> None:
        """As `hear`; heartbeats of many members are decided on together, a moment later."""
        async with self._turn:
            before = self._view
            self._learn(report)
            routine = is_heartbeat(before, self._view, report)
        if not routine:
            await self._settle()
            return
        soon = self._clock.monotonic() + HEARTBEATS_SECONDS
        if self._until is None or self._until > soon:
            self._until = soon
            self._woken.set()

    async def compare(self) -> None:
        """Read the record, which may have lost its newest writes with a disk (R5)."""
        async with self._turn:
            self._unread = True
        await self._settle()

    def is_done(self) -> bool:
        """Whether the job has been over for so long that nothing about it is awaited any more."""
        if not renamed(self._view) or self._view.incident is not None:
            self._over_since = None
            return False
        now = self._clock.monotonic()
        self._over_since = self._over_since or now
        return now - self._over_since > OVER_KEPT_SECONDS

    async def compare_incident(self, stored: IncidentRecord, revision: int) -> None:
        """End an incident that is stored as open and is not.

        Raises:
            TransientBusError: The bus gave no answer; compare again later.
        """
        async with self._turn:
            ended = stray(self._view, stored, self._now())
            if ended is not None:
                await self._registry.close(ended, revision)

    async def keep_time(self) -> None:
        """Decide when the instant comes that a rule waits for, until cancelled."""
        while True:
            self._woken.clear()
            until = self._until
            left = None if until is None else max(until - self._clock.monotonic(), 0.0)
            try:
                async with asyncio.timeout(left):
                    await self._woken.wait()
            except TimeoutError:
                await self._settle()

    async def obey(self, command: Command) -> CommandAccepted | Refused:
        """An operator's command: in the record, or the reason why not."""
        async with self._turn:
            if self._unread:
                await self._read()
            case = Case.of(self._view, self._policy, self._now())
            decision = obey(case, command)
            if isinstance(decision.action, Refuse):
                return Refused(reason=decision.reason)
            await self._enact(decision)
            if not _is_written(decision, self._view.record):
                return Refused(reason="not written; ask again")
            generation = self._view.generation
        await self._settle()
        return CommandAccepted(generation=generation)

    def status(self) -> JobStatusReply:
        """The job as it is known here, and what the next verdict waits for."""
        return status_of(self._view, self._waiting_for)

    async def _settle(self) -> None:
        """Decide and enact until there is nothing left to do, asking the bus again while needed."""
        failing = False
        while True:
            try:
                async with self._turn:
                    if self._unread:
                        await self._read()
                    await self._decide_all()
                break
            except TransientBusError as error:
                if not failing:
                    log.warning("not enacted", job=str(self._view.job), error=str(error))
                failing = True
            await asyncio.sleep(RETRY_SECONDS)

    async def _decide_all(self) -> None:
        for _ in range(STEPS_LIMIT):
            decision = decide(self._view, self._policy, self._now())
            if isinstance(decision.action, Wait):
                self._until, self._waiting_for = decision.action.until, decision.reason
                self._woken.set()
                return
            await self._enact(decision)
        raise EndlessDecisionError(f"{self._view.job}: {decision}")

    async def _enact(self, decision: Decision) -> None:
        action = decision.action
        assert not isinstance(action, Wait | Refuse), "nothing to enact"
        if isinstance(action, Ask):
            self._learn(Asked(action.probes))
            for probe in action.probes:
                self._ask(probe)
            return
        if isinstance(action, Rule):
            self._learn(Attempted())
        before, self._unread = self._view, True  # until an answer tells what is stored
        self._learn(await self._registry.enact(before, action, self._because))
        self._unread = False
        _tell(before, self._view, decision)

    async def _read(self) -> None:
        self._learn(await self._registry.read(self._view))
        self._unread = False

    def _learn(self, fact: Heard) -> None:
        self._view = fold(self._view, fact, self._now())

    def _now(self) -> Moment:
        return Moment.of(self._clock)


def _is_written(decision: Decision, stored: JobRecord | None) -> bool:
    """Whether the record holds what a command made of it: a generation, or a wish."""
    assert isinstance(decision.action, Rule | Advance), "a command changes the record"
    ours = decision.action.record
    if stored is None or stored.verdict_id != ours.verdict_id:
        return False
    return stored.rescale == ours.rescale


def _tell(before: JobView, view: JobView, decision: Decision) -> None:
    """One log line a decision; the books are kept without words between beginning and end."""
    record = view.record
    match decision.action:
        case Rule() if record is not None:
            log.warning(
                "verdict",
                verdict=record.verdict.kind,
                reason=record.reason,
                job=str(record.job),
                generation=record.generation,
                state=record.state,
                members=len(record.seats),
                incident=record.incident,
            )
        case File(incident=incident) if incident.outcome is not None:
            log.warning(
                "incident ended",
                outcome=incident.outcome,
                reason=incident.reason,
                job=str(incident.job),
                incident=incident.id,
                steps_lost=incident.steps_lost,
            )
        case File(incident=incident) if before.filed is None:
            log.warning("incident", why=decision.reason, job=str(view.job), incident=incident.id)
        case Advance():
            log.info("phase", why=decision.reason, job=str(view.job), generation=view.generation)
        case _:
            pass
