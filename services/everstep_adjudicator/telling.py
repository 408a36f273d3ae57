"""What operators are told of a job: its record, and what is known beyond it."""

from everstep_contract.base import MAX_TEXT
from everstep_contract.queries import JobStatusReply

from everstep_adjudicator.model import JobView


def status_of(view: JobView, waiting_for: str) -> JobStatusReply:
    """The job as it is known here, and what the next verdict waits for."""
    known = (view.members.get(seat.member.incarnation) for seat in view.seats)
    reports = [member.report for member in known if member is not None]
    return JobStatusReply(
        record=view.record,
        incidents=(view.incident,) if view.incident else (),
        waiting_for=waiting_for[:MAX_TEXT],
        step=max((report.step for report in reports), default=0),
        parked=sum(
            report.phase == "holding" and view.is_current(report.generation, report.verdict_id)
            for report in reports
        ),
    )
