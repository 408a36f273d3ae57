"""Operators' commands: each changes the record, or is refused with the reason (R7)."""

from everstep_contract.queries import RescaleJob, ResumeJob, SuspendJob
from everstep_contract.record import JobRecord
from everstep_contract.verdicts import AwaitReplacement, Form, Suspend

from everstep_adjudicator.actions import Decision, Refuse
from everstep_adjudicator.admission import available, new_generation
from everstep_adjudicator.case import Case
from everstep_adjudicator.forming import by_operator, succession_is_safe
from everstep_adjudicator.rescaling import ask_for
from everstep_adjudicator.sizing import gang

Command = SuspendJob | ResumeJob | RescaleJob


def obey(case: Case, command: Command) -> Decision:
    """An operator's command: what it makes of the record, or the reason why not (R7)."""
    record = case.view.record
    if record is None or record.phase == "ended":
        return Decision(Refuse(), f"job {command.job} does not run")
    if command.generation != record.generation:
        return Decision(Refuse(), f"the job is at generation {record.generation} by now")
    if isinstance(command, RescaleJob):
        return ask_for(case, record, command)
    if isinstance(command, SuspendJob):
        if by_operator(record.verdict):
            return Decision(Refuse(), "the job is suspended already")
        return new_generation(
            case, Suspend(by="operator"), record.seats, f"operator: {command.reason}"
        )
    if record.state != "hold":
        return Decision(Refuse(), "the job is not suspended")
    return _resume(case, record, f"operator: {command.reason}")


def _resume(case: Case, record: JobRecord, reason: str) -> Decision:
    spec = gang(case.view)
    assert spec is not None, "a record has a gang"
    survivors, added = available(case, record)
    seats = (*survivors, *added)[: spec.max_member]
    if len(seats) >= spec.min_member and succession_is_safe(case.view, seats, case.judgements):
        return new_generation(case, Form(), seats, reason)
    verdict = AwaitReplacement(lost=(), wait_seconds=case.policy.hold_seconds)
    return new_generation(case, verdict, record.seats, reason)
