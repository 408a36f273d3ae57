"""One job before the adjudicator's pure core: facts are told by hand, and time is moved by hand.

The loop of the service without its I/O: every write succeeds at once, every event is published.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from everstep_adjudicator.actions import (
    Advance,
    Announce,
    Announced,
    Ask,
    Asked,
    Attempted,
    File,
    Filed,
    Heard,
    ProbeEnded,
    Recorded,
    Rule,
    Wait,
)
from everstep_adjudicator.decide import decide
from everstep_adjudicator.fold import fold
from everstep_adjudicator.incidents import FILING_SECONDS
from everstep_adjudicator.model import JobView, Moment
from everstep_adjudicator.policy import Policy
from everstep_contract.facts.job import OrderIssued, StepAdvanced
from everstep_contract.facts.member import (
    MemberFormed,
    MemberJoined,
    MemberLeft,
    MemberRecovered,
    MemberSuspected,
)
from everstep_contract.facts.worker import CollectiveFailed, WorkerExited
from everstep_contract.identity import Endpoint, GangSpec, Member, Seat
from everstep_contract.orders import Order
from everstep_contract.queries import ProbeMember
from everstep_contract.record import IncidentRecord, JobRecord
from everstep_contract.telemetry import MemberReport, WorkerReport
from support.messages import JOB

START = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
WATCHER = "node_watcher"
REPORT_SECONDS = 0.5


def member(index: int, life: int = 1, job_uid: str = "uid-1") -> Member:
    """The ``life``-th incarnation of trainer-``index``."""
    return Member(
        job_uid=job_uid,
        name=f"trainer-{index}",
        pod_uid=f"pod-{index}.{life}",
        incarnation=f"trainer-{index}.{life}",
        node=f"node-{index}",
    )


def endpoint(who: Member, port: int) -> Endpoint:
    return Endpoint(host=who.node, port=port)


def seat(who: Member) -> Seat:
    return Seat(member=who, peer=endpoint(who, 29600), store=endpoint(who, 29601), nproc=1)


def order_of(record: JobRecord) -> Order:
    return Order(
        job=record.job,
        job_uid=record.job_uid,
        generation=record.generation,
        verdict_id=record.verdict_id,
        state=record.state,
        seats=record.seats,
        store_host=record.store_host,
        durations=record.durations,
    )


@dataclass
class Agent:
    """What one living agent would report."""

    member: Member
    phase: str = "ready"
    generation: int = 0
    verdict_id: str = ""
    left_generation: int = 0
    step: int = 0
    sequence: int = 0


class Courtroom:
    """The view of one job, everything ruled so far, and the members that still report."""

    def __init__(
        self,
        members: int = 8,
        *,
        min_member: int = 6,
        max_member: int | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.policy = policy or Policy()
        self.gang = GangSpec(
            min_member=min_member, max_member=max_member or members, nproc_per_node=1
        )
        self.monotonic = 1000.0
        self.view = JobView(job=JOB, lease_revision=7)
        self.agents: dict[str, Agent] = {}
        self.records: list[JobRecord] = []
        self.incidents: list[IncidentRecord] = []
        self.probes: list[ProbeMember] = []
        self.waiting_for = ""
        self.until: float | None = None

    @property
    def now(self) -> Moment:
        return Moment(START + timedelta(seconds=self.monotonic - 1000.0), self.monotonic)

    @property
    def record(self) -> JobRecord:
        assert self.view.record is not None
        return self.view.record

    def phase(self) -> str:
        """The record's phase; a call, because it changes between two assertions."""
        return self.record.phase

    def state(self) -> str:
        """What the record orders; a call, because it changes between two assertions."""
        return self.record.state

    @property
    def verdicts(self) -> list[str]:
        return [record.verdict.kind for record in self.records]

    @property
    def names(self) -> list[str]:
        return [seat.member.incarnation for seat in self.record.seats]

    # --- telling ------------------------------------------------------------------------------

    def hear(self, *facts: Heard) -> None:
        """Fold the facts one by one, ruling after each, as the service does."""
        for fact in facts:
            self.view = fold(self.view, fact, self.now)
            self.rule()

    def fold(self, *facts: Heard) -> None:
        """Fold the facts without ruling in between."""
        for fact in facts:
            self.view = fold(self.view, fact, self.now)

    def rule(self) -> None:
        """Decide and enact until there is nothing left to do."""
        for _ in range(100):
            decision = decide(self.view, self.policy, self.now)
            match decision.action:
                case Wait(until=until):
                    self.until, self.waiting_for = until, decision.reason
                    return
                case Rule(record=record, incident=incident):
                    self.records.append(record)
                    revision = self.view.revision + 1
                    self.fold(Attempted(), Recorded(record, revision, incident))
                case Advance(record=record):
                    self.fold(Recorded(record, self.view.revision + 1))
                case Announce(record=record):
                    self.fold(Announced(record.verdict_id))
                case Ask(probes=probes):
                    self.probes += probes
                    self.fold(Asked(probes))
                case File(incident=incident):
                    if incident.outcome is not None:
                        self.incidents.append(incident)
                    self.fold(Filed(incident, self.view.incident_revision + 1))
                case other:
                    raise AssertionError(other)
        raise AssertionError(f"no end of decisions: {decision}")

    def pass_time(self, seconds: float, *, reporting: bool = True) -> None:
        """Let time pass: living agents report twice a second, and due deadlines are met."""
        end = self.monotonic + seconds
        report_at = self.monotonic + REPORT_SECONDS
        while True:
            due = [report_at] if reporting else []
            if self.until is not None and self.until > self.monotonic:
                due.append(self.until)
            at = min([*due, end])
            if at >= end:
                break
            self.monotonic = at
            if reporting and at == report_at:
                self.report(*self.agents)
                report_at += REPORT_SECONDS
            self.rule()
        self.monotonic = end
        self.rule()

    # --- members ------------------------------------------------------------------------------

    def start(self, *members: Member) -> None:
        """These agents are up and warm, and have been heard of twice."""
        for who in members:
            self.agents[who.incarnation] = Agent(who)
        for _ in range(2):
            self.fold(*(self.report_of(who.incarnation) for who in members))
        self.rule()

    def kill(self, *incarnations: str) -> None:
        """These agents say nothing any more."""
        for incarnation in incarnations:
            del self.agents[incarnation]

    def report_of(self, incarnation: str, **other: object) -> MemberReport:
        agent = self.agents[incarnation]
        agent.sequence += 1
        values: dict[str, object] = {
            "at": self.now.at,
            "job": JOB,
            "member": agent.member,
            "gang": self.gang,
            "peer": endpoint(agent.member, 29600),
            "store": endpoint(agent.member, 29601),
            "boot_id": "boot",
            "sequence": agent.sequence,
            "phase": agent.phase,
            "generation": agent.generation,
            "verdict_id": agent.verdict_id,
            "left_generation": agent.left_generation,
            "step": agent.step,
            "step_begun": agent.step + 1,
            "step_seconds_p50": 0.1,
            "step_seconds_p99": 0.2,
            "workers": (
                WorkerReport(
                    local_rank=0,
                    pid=100,
                    version=agent.step,
                    step_begun=agent.step + 1,
                    phase="step",
                ),
            ),
        }
        return MemberReport.model_validate(values | other)

    def report(self, *incarnations: str) -> None:
        self.fold(*(self.report_of(incarnation) for incarnation in incarnations))

    def step(self, steps: int = 1) -> None:
        """Everybody who steps completes steps, and says so."""
        for agent in self.agents.values():
            if agent.phase == "stepping":
                agent.step += steps
        self.hear(*(self.report_of(incarnation) for incarnation in self.agents))

    def issue(self) -> None:
        """The rescaler's copy of the current order is on the bus (R8)."""
        record = self.record
        self.hear(
            OrderIssued(at=self.now.at, job=JOB, job_uid=record.job_uid, order=order_of(record))
        )

    def obey(self, *incarnations: str, until: str = "stepping") -> None:
        """Living seats follow the current order as far as ``until``."""
        record = self.record
        who = [i for i in (incarnations or record.incarnations) if i in self.agents]
        self.issue()
        if record.state == "hold":
            for incarnation in who:
                self._moves(incarnation, "holding")
            self.hear(*(self.report_of(incarnation) for incarnation in who))
            return
        self.hear(*(self.joins(incarnation) for incarnation in who))
        if until == "joined":
            return
        self.hear(*(self.forms(incarnation) for incarnation in who))
        if until == "formed":
            return
        for incarnation in who:
            self.agents[incarnation].phase = "stepping"
            self.agents[incarnation].step += 1
        self.hear(self.steps(who[0]))

    def _moves(self, incarnation: str, phase: str) -> None:
        agent, record = self.agents[incarnation], self.record
        agent.left_generation = record.generation - 1
        agent.generation, agent.verdict_id = record.generation, record.verdict_id
        agent.phase = phase

    def joins(self, incarnation: str) -> MemberJoined:
        self._moves(incarnation, "joined")
        return MemberJoined(
            at=self.now.at,
            job=JOB,
            member=self.agents[incarnation].member,
            generation=self.record.generation,
            verdict_id=self.record.verdict_id,
            report=self.report_of(incarnation),
        )

    def forms(self, incarnation: str, steps_lost: int = 0) -> MemberFormed:
        self._moves(incarnation, "formed")
        newest = max(agent.step for agent in self.agents.values())
        self.agents[incarnation].step = newest
        return MemberFormed(
            at=self.now.at,
            job=JOB,
            member=self.agents[incarnation].member,
            generation=self.record.generation,
            verdict_id=self.record.verdict_id,
            agreed_step=newest,
            steps_lost=steps_lost,
            left_seconds=0.01,
            formed_seconds=0.1,
        )

    def steps(self, incarnation: str) -> StepAdvanced:
        return StepAdvanced(
            at=self.now.at,
            job=JOB,
            job_uid=self.record.job_uid,
            member=self.agents[incarnation].member,
            generation=self.record.generation,
            verdict_id=self.record.verdict_id,
            step=self.agents[incarnation].step,
            first=True,
            step_seconds=0.1,
        )

    # --- trouble ------------------------------------------------------------------------------

    def suspicion(
        self,
        who: Member,
        reason: str = "connection_stale",
        *,
        observation: int = 1,
        reassertion: int = 0,
        witness: str = WATCHER,
    ) -> MemberSuspected:
        return MemberSuspected.model_validate(
            {
                "at": self.now.at,
                "job": JOB,
                "member": who,
                "reason": reason,
                "witness": witness,
                "observation": observation,
                "reassertion": reassertion,
                "silence_seconds": 0.5,
            }
        )

    def suspect(
        self,
        who: Member,
        reason: str = "connection_stale",
        *,
        observation: int = 1,
        reassertion: int = 0,
    ) -> None:
        """A detector suspects it, and the incident is filed."""
        fact = self.suspicion(who, reason, observation=observation, reassertion=reassertion)
        self.hear(fact)
        self.pass_time(FILING_SECONDS)

    def recovery(self, who: Member, observation: int = 1) -> MemberRecovered:
        return MemberRecovered(
            at=self.now.at, job=JOB, member=who, witness=WATCHER, observation=observation
        )

    def exit_of(
        self, who: Member, classified: str = "killed", *, generation: int | None = None
    ) -> WorkerExited:
        return WorkerExited.model_validate(
            {
                "at": self.now.at,
                "job": JOB,
                "member": who,
                "local_rank": 0,
                "pid": 4242,
                "generation": self.record.generation if generation is None else generation,
                "classified": classified,
            }
        )

    def collective_failure(
        self, who: Member, peer: Member | None = None, record: JobRecord | None = None
    ) -> CollectiveFailed:
        record = record or self.record
        return CollectiveFailed(
            at=self.now.at,
            job=JOB,
            member=who,
            local_rank=0,
            generation=record.generation,
            verdict_id=record.verdict_id,
            peer=peer.incarnation if peer else None,
        )

    def departure(self, who: Member, reason: str = "terminated") -> MemberLeft:
        return MemberLeft.model_validate(
            {"at": self.now.at, "job": JOB, "member": who, "reason": reason}
        )

    def answer(self, target: Member, outcome: str | None, *, witnesses: int = 3) -> None:
        """The witnesses that were asked last about ``target`` report what they found."""
        pending = sorted(self.view.probing[target.incarnation].pending)[:witnesses]
        self.hear(
            *(
                ProbeEnded(target=target.incarnation, witness=witness, outcome=outcome)  # type: ignore[arg-type]  # a literal by the caller's word
                for witness in pending
            )
        )

    def lose(self, *members: Member, reason: str = "connection_closed") -> None:
        """These agents' processes die on living nodes: noticed, probed, refused."""
        self.kill(*(who.incarnation for who in members))
        self.hear(*(self.suspicion(who, reason) for who in members))
        for who in members:
            if who.incarnation in self.view.probing and self.view.seat(who.incarnation):
                self.answer(who, "refused")


def running(
    members: int = 8,
    *,
    min_member: int = 6,
    max_member: int | None = None,
    policy: Policy | None = None,
) -> Courtroom:
    """A job whose members all run in its first generation, heard of for a while."""
    room = Courtroom(members, min_member=min_member, max_member=max_member, policy=policy)
    room.start(*map(member, range(min(members, room.gang.max_member))))
    if members < room.gang.max_member:
        room.pass_time(room.policy.form_settle_seconds)
    room.obey()
    room.pass_time(5)
    assert room.record.phase == "resumed", room.waiting_for
    return room


def all_of(count: int) -> Iterable[Member]:
    return map(member, range(count))
