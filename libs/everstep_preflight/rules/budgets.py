"""PodDisruptionBudgets that allow no disruption, so that no node under the job can be drained."""

from collections.abc import Iterator
from typing import Final

from everstep_preflight.manifests import Bundle, Job, Plain
from everstep_preflight.model import Finding, Remove, Rule, SetValue, Severity, target
from everstep_preflight.rules.sources import BUDGETS, RECORDED

BLOCKS: Final = Rule(
    "budget-blocks",
    Severity.WARNING,
    "a PodDisruptionBudget allows no eviction of a member",
    "An eviction that a spent budget forbids is answered 429 until somebody changes the budget: a"
    " drain of a node under the job never ends, though the job could go on without that member."
    " For pods of a controller without a scale subresource, and Volcano's Job has none, only"
    " minAvailable as a number works.",
    f"{RECORDED}; {BUDGETS}",
)
RULES: Final = (BLOCKS,)


def check(bundle: Bundle) -> Iterator[Finding]:
    """Findings about budgets over pods of the Jobs beside them."""
    for budget in bundle.budgets:
        for job in bundle.jobs:
            if budget.namespace == job.namespace and _selected(budget, job):
                yield from _check(budget, job)
                break


def _selected(budget: Plain, job: Job) -> int:
    """How many of the Job's pods are under the budget; expressions are not worked out."""
    selector = budget.at.get("spec", "selector", "matchLabels")
    wanted = {name: value.words() for name, value in (selector.pairs() if selector else ())}
    if not wanted or budget.at.get("spec", "selector", "matchExpressions"):
        return 0
    count = 0
    for task in job.tasks:
        given = task.at.get("template", "metadata", "labels")
        labels = {name: value.words() for name, value in (given.pairs() if given else ())}
        labels |= {
            "volcano.sh/job-name": job.name,
            "volcano.sh/job-namespace": job.namespace,
            "volcano.sh/task-spec": task.name,
        }
        if wanted.items() <= labels.items():
            count += task.replicas
    return count


def _check(budget: Plain, job: Job) -> Iterator[Finding]:
    spec, pods = budget.at.get("spec"), _selected(budget, job)
    if not spec:
        return
    floor = min(job.effective_floor, pods)
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    number = least.integer() if least else None
    wrong = ""
    if most:
        wrong = f"maxUnavailable {most.words()} is not worked out for pods of a Volcano Job"
    elif least and number is None:
        wrong = f"minAvailable {least.words()} is not worked out for pods of a Volcano Job"
    elif number is not None and number >= pods:
        wrong = f"minAvailable {number} of {pods} pods: no node under them can be drained"
    at = most or least
    if not wrong or not at:
        return
    if floor >= pods:
        advice = (
            f"the Job's own floor is all {pods} pods; choose one below, or do without the budget"
        )
        yield Finding(BLOCKS, at, wrong, at.line, advice=advice)
        return
    fixes = [SetValue(target(spec, "minAvailable"), floor)]
    removed = [Remove(target(most))] if most else []
    yield Finding(BLOCKS, at, wrong, at.line, (*fixes, *removed))
