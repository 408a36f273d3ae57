"""The members of one job as the adjudicator hears of them: who they are, what their agents say."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from everstep_contract.facts.member import MemberFormed, MemberJoined
from everstep_contract.identity import Endpoint, GangSpec, Member
from everstep_contract.record import JobRecord
from everstep_contract.telemetry import MemberReport, WorkerReport
from support.messages import JOB


def member(index: int, life: int = 1, job_uid: str = "uid-1") -> Member:
    """The ``life``-th incarnation of trainer-``index``."""
    return Member(
        job_uid=job_uid,
        name=f"trainer-{index}",
        pod_uid=f"pod-{index}.{life}",
        incarnation=f"trainer-{index}.{life}",
        node=f"node-{index}",
    )


def all_of(count: int) -> Iterable[Member]:
    return map(member, range(count))


@dataclass
class Agent:
    """What one living agent would say."""

    member: Member
    phase: str = "ready"
    generation: int = 0
    verdict_id: str = ""
    left_generation: int = 0
    step: int = 0
    sequence: int = 0

    def follow(self, record: JobRecord, phase: str) -> None:
        """It has left what came before ``record``, and is as far as ``phase``."""
        self.left_generation = record.generation - 1
        self.generation, self.verdict_id = record.generation, record.verdict_id
        self.phase = phase

    def report(self, at: datetime, gang: GangSpec, /, **other: object) -> MemberReport:
        """The next report, with ``other`` values where the test says so."""
        self.sequence += 1
        values: dict[str, object] = {
            "at": at,
            "job": JOB,
            "member": self.member,
            "gang": gang,
            "peer": Endpoint(host=self.member.node, port=29600),
            "store": Endpoint(host=self.member.node, port=29601),
            "boot_id": "boot",
            "sequence": self.sequence,
            "phase": self.phase,
            "generation": self.generation,
            "verdict_id": self.verdict_id,
            "left_generation": self.left_generation,
            "step": self.step,
            "step_begun": self.step + 1,
            "step_seconds_p50": 0.1,
            "step_seconds_p99": 0.2,
            "workers": (
                WorkerReport(
                    local_rank=0,
                    pid=100,
                    version=self.step,
                    step_begun=self.step + 1,
                    phase="step",
                ),
            ),
        }
        return MemberReport.model_validate(values | other)

    def joined(self, report: MemberReport) -> MemberJoined:
        return MemberJoined(
            at=report.at,
            job=JOB,
            member=self.member,
            generation=self.generation,
            verdict_id=self.verdict_id,
            report=report,
        )

    def formed(self, at: datetime, steps_lost: int) -> MemberFormed:
        return MemberFormed(
            at=at,
            job=JOB,
            member=self.member,
            generation=self.generation,
            verdict_id=self.verdict_id,
            agreed_step=self.step,
            steps_lost=steps_lost,
            left_seconds=0.01,
            formed_seconds=0.1,
        )
