"""A job of living agents before the adjudicator: they report, obey, fall silent, are suspected."""

from everstep_adjudicator.actions import ProbeEnded
from everstep_adjudicator.incidents import FILING_SECONDS
from everstep_adjudicator.policy import Policy
from everstep_contract.facts.job import OrderIssued, PodObserved, StepAdvanced
from everstep_contract.facts.member import (
    MemberFormed,
    MemberJoined,
    MemberLeft,
    MemberRecovered,
    MemberSuspected,
)
from everstep_contract.facts.worker import CollectiveFailed, WorkerExited
from everstep_contract.identity import GangSpec, Member
from everstep_contract.record import JobRecord
from everstep_contract.telemetry import MemberReport
from everstep_rescaler.decide import order_of
from support.adjudicator_core import AdjudicatorCore
from support.gang import Agent, member
from support.messages import JOB

WATCHER = "node_watcher"
REPORT_SECONDS = 0.5


class Courtroom(AdjudicatorCore):
    """The core that rules on one job, and the members that still report to it."""

    def __init__(
        self,
        members: int = 8,
        *,
        min_member: int = 6,
        max_member: int | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(policy or Policy())
        self.gang = GangSpec(
            min_member=min_member, max_member=max_member or members, nproc_per_node=1
        )
        self.agents: dict[str, Agent] = {}

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
        return self.agents[incarnation].report(self.now.at, self.gang, **other)

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
                self.agents[incarnation].follow(record, "holding")
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

    def joins(self, incarnation: str) -> MemberJoined:
        agent = self.agents[incarnation]
        agent.follow(self.record, "joined")
        return agent.joined(self.report_of(incarnation))

    def forms(self, incarnation: str, steps_lost: int = 0) -> MemberFormed:
        agent = self.agents[incarnation]
        agent.follow(self.record, "formed")
        agent.step = max(other.step for other in self.agents.values())
        return agent.formed(self.now.at, steps_lost)

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

    def pod_seen(self, who: Member, *, cause: str, planned: bool) -> PodObserved:
        """The watcher's word on a member's pod that is being deleted."""
        return PodObserved.model_validate(
            {
                "at": self.now.at,
                "job": JOB,
                "job_uid": who.job_uid,
                "pod": who.name,
                "pod_uid": who.pod_uid,
                "node": who.node,
                "phase": "Running",
                "terminating": True,
                "cause": cause,
                "planned": planned,
                "resource_version": "7",
            }
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


def heal(room: Courtroom) -> None:
    """The members follow the newest order, and step for a while."""
    room.obey()
    room.pass_time(3)
