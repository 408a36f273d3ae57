"""Whom to evict next from nodes under maintenance, or what that waits for: pure.

One member at a time goes, and only while its job steps on without it: never below its floor, and
never in the middle of another change of its membership.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from everstep_contract.identity import Member
from everstep_contract.record import JobRecord
from everstep_contract.verdicts import Suspend
from everstep_kube.objects import JobState, PodState


@dataclass(frozen=True)
class Seated:
    """A member that is seated on a node under maintenance, with its pod and Job as just read."""

    record: JobRecord
    member: Member
    pod: PodState | None
    job: JobState | None

    @property
    def name(self) -> str:
        """The member, and whose, for people."""
        return f"{self.record.job} {self.member.name}"

    @property
    def is_foreign(self) -> bool:
        """Whether the pod is another Job's, whatever the member says of itself."""
        return self.pod is not None and self.pod.job_uid != self.record.job_uid

    @property
    def is_going(self) -> bool:
        """Whether its pod ends or has ended, which its job's record does not know yet."""
        pod = self.pod
        return pod is None or pod.uid != self.member.pod_uid or pod.terminating or pod.terminated


@dataclass(frozen=True)
class Evict:
    """Evict this member's pod now."""

    seated: Seated


@dataclass(frozen=True)
class Wait:
    """Evict nobody now, for this reason; an empty one: nobody is left."""

    why: str


def decide_drain(seated: Sequence[Seated]) -> Evict | Wait:
    """What to do next for the members that are seated on nodes under maintenance."""
    going = [one for one in seated if one.is_going]
    if going:
        return Wait(f"{going[0].name} to leave, and its job to go on without it")
    reasons: list[str] = []
    for one in seated:
        why = _why_not(one)
        if not why:
            return Evict(one)
        reasons.append(why)
    return Wait("; ".join(dict.fromkeys(reasons)))


def _why_not(seated: Seated) -> str:
    """Why this member stays for now; empty: it may go."""
    record, job = seated.record, seated.job
    if seated.is_foreign:
        return f"{seated.name} to leave by itself: its pod is another Job's"
    if job is not None and job.restarts_on_deletion:
        return (
            f"{record.job}'s policy {job.restarts_on_deletion} would restart more than one pod:"
            " make the Job without it, or stop the job"
        )
    if not _is_settled(record):
        return f"{record.job} to step on: its generation {record.generation} is {record.phase}"
    left, floor = len(record.seats) - 1, record.gang.min_member
    if left < floor:
        return f"{record.job} to have more members: it stands at its floor of {floor}"
    return ""


def _is_settled(record: JobRecord) -> bool:
    """Whether the job steps, or stands still by an operator's word."""
    suspended = isinstance(record.verdict, Suspend) and record.verdict.by == "operator"
    return record.phase == "resumed" or (record.phase == "holding" and suspended)
