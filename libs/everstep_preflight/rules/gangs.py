"""PodGroups: a Job has its own, whatever else lies beside it."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from everstep_preflight.located import Located
from everstep_preflight.manifests import GROUP_NAME, Bundle, Job, PodGroup, Template
from everstep_preflight.model import (
    Change,
    Finding,
    Remove,
    RemoveDocument,
    Rule,
    SetValue,
    Severity,
    target,
)
from everstep_preflight.quantities import quantity, show_quantity
from everstep_preflight.rules.sources import RECORDED

BY_HAND: Final = Rule(
    "podgroup-by-hand",
    Severity.ERROR,
    "a PodGroup made by hand beside a Job: it is overwritten, or nobody is in it",
    "Volcano makes the Job's PodGroup itself, named <job>-<job uid>, from the Job: minMember from"
    " minAvailable, queue and priorityClassName from the fields of the same name. One that already"
    " has the Job's own name is taken and rewritten, any other stays without a pod and still asks"
    " its queue for room. What is said only there, a priority for example, does not hold.",
    f"{RECORDED}; https://github.com/volcano-sh/volcano/issues/2143 (a PodGroup without pods)",
)
MIN_RESOURCES: Final = Rule(
    "min-resources-differ",
    Severity.WARNING,
    "minResources is not what minMember pods ask for",
    "A PodGroup is let in when its queue has room for minResources. Less than minMember pods ask"
    " for lets in a gang that cannot start, more keeps one waiting that could.",
    f"{RECORDED} (PodGroup phases Pending and Inqueue)",
)
RULES: Final = (BY_HAND, MIN_RESOURCES)


def check(bundle: Bundle) -> Iterator[Finding]:
    """Findings about PodGroups that no controller owns."""
    for group in bundle.groups:
        if group.owned:
            continue
        users = [pod for pod in bundle.members if _names_group(pod, group)]
        job = None if users else _job_beside(group, bundle)
        if job:
            yield _by_hand(group, job)
        yield from _check_resources(group, job, users, bundle)


def _by_hand(group: PodGroup, job: Job) -> Finding:
    what = "is overwritten from" if group.name == job.name else "holds no pod of"
    said = []
    fixes: list[Change] = []
    for field in ("priorityClassName", "queue"):
        value, own = group.at.get("spec", field), job.spec.get(field)
        if value and value.text() and not own:
            said.append(f"{field} {value.text()} is lost")
            fixes.append(SetValue(target(job.spec, field), value.text(), after="minAvailable"))
        elif value and own and value.text() != own.text():
            said.append(f"its {field} {value.words()} does not hold")
    if group.floor is not None and group.floor != job.effective_floor:
        said.append(
            f"its minMember {group.floor} is not the Job's minAvailable {job.effective_floor}"
        )
    message = f"PodGroup {group.name} {what} Job {job.name}" + "".join(f"; {one}" for one in said)
    whole = target(group.at)
    fixes.append(Remove(whole) if group.at.path else RemoveDocument(whole))
    return Finding(BY_HAND, group.at, message, _kind_line(group.at), tuple(fixes))


def _check_resources(
    group: PodGroup, job: Job | None, users: list[Located], bundle: Bundle
) -> Iterator[Finding]:
    asked = group.at.get("spec", "minResources")
    templates = _templates(job, users, bundle)
    if not asked or not group.floor or not templates:
        return
    for name, value in asked.pairs():
        amount = quantity(value.words())
        needs = {_pod_asks(template, name) for template in templates}
        if amount is None or len(needs) != 1:
            continue
        wanted = needs.pop() * group.floor
        if amount != wanted:
            shown = show_quantity(wanted, value.words() or "")
            message = f"minResources has {name} {value.words()}, {group.floor} pods ask for {shown}"
            fix = SetValue(target(value), shown) if wanted else Remove(target(value))
            yield Finding(MIN_RESOURCES, value, message, value.line, (fix,))


def _templates(job: Job | None, users: list[Located], bundle: Bundle) -> list[Template]:
    if job:
        return [task.template for task in job.trainers if task.template]
    places = {(user.file, user.document, user.path) for user in users}
    return [
        template
        for template in bundle.templates
        if any(
            (template.spec.file, template.spec.document) == place[:2]
            and template.spec.path[: len(place[2])] == place[2]
            for place in places
        )
    ]


def _pod_asks(template: Template, name: str) -> Fraction:
    """What the containers of one pod ask for together; a limit alone is a request too."""
    total = Fraction(0)
    for container in template.containers:
        for kind in ("requests", "limits"):
            found = container.at.get("resources", kind, name)
            if found:
                total += quantity(found.words()) or Fraction(0)
                break
    return total


def _job_beside(group: PodGroup, bundle: Bundle) -> Job | None:
    """The Job that this PodGroup is meant for: the one its name begins with, or the only one."""
    jobs = [job for job in bundle.jobs if job.namespace == group.namespace]
    named = [job for job in jobs if job.name and group.name.startswith(job.name)]
    best = sorted(named, key=lambda job: -len(job.name))
    return best[0] if best else (jobs[0] if len(jobs) == 1 else None)


def _names_group(at: Located, group: PodGroup) -> bool:
    """Whether this object's pods are put into the group by annotation."""
    for place in (("metadata",), ("spec", "template", "metadata"), ("template", "metadata")):
        found = at.get(*place, "annotations", GROUP_NAME)
        if found and found.words() == group.name:
            return True
    return False


def _kind_line(at: Located) -> int:
    found = at.get("kind")
    return found.line if found else at.line
