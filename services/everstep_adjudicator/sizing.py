"""How many members a job may have now, and whose record it is: asked by every other rule."""

from everstep_contract.identity import GangSpec, Member
from everstep_contract.rescaling import JobSize, Rescale

from everstep_adjudicator.model import JobView, MemberView


def described(view: JobView) -> GangSpec | None:
    """How the job is described: by the cluster, else by the record, else by its members."""
    if view.observed_gang is not None:
        return view.observed_gang
    if view.record is not None and not renamed(view):
        return view.record.gang
    return next((member.report.gang for member in by_age(view)), None)


def gang(view: JobView) -> GangSpec | None:
    """What the job may run with now: as it is described, or as a granted wish will have it."""
    spec, wish = described(view), open_wish(view)
    if spec is None or wish is None or wish.stage != "granted":
        return spec
    most = min(spec.max_member, wish.size.replicas)
    return spec.model_copy(update={"min_member": wish.size.min_available, "max_member": most})


def open_wish(view: JobView) -> Rescale | None:
    """The operator's wish for another size, while something is still to be done about it."""
    record = view.record
    if record is None or renamed(view) or record.rescale is None:
        return None
    return record.rescale if record.rescale.is_open else None


def goes_with(member: Member, size: JobSize) -> bool:
    """Whether Volcano removes the member's pod when the Job gets this size: by its index."""
    return member.index is not None and member.index >= size.replicas


def renamed(view: JobView) -> bool:
    """Whether the record is of a job that is over, so that its name is free for another uid."""
    record = view.record
    return record is not None and (record.phase == "ended" or record.job_uid in view.deleted_uids)


def by_age(view: JobView) -> list[MemberView]:
    """Members by how long they are known, the longest first."""
    return sorted(view.members.values(), key=lambda m: (m.first_heard, m.report.member.incarnation))
