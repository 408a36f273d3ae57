"""Partition policies: groups of members that Volcano places, and counts, together."""

from collections.abc import Iterator
from typing import Final

from everstep_preflight.manifests import Bundle, Task
from everstep_preflight.model import Finding, Rule, SetValue, Severity, target
from everstep_preflight.rules.sources import PARTITIONS

SIZES: Final = Rule(
    "partition-sizes",
    Severity.ERROR,
    "partitions do not add up to replicas",
    "The webhook takes a task only where replicas is totalPartitions times partitionSize.",
    PARTITIONS,
)
FLOOR: Final = Rule(
    "partition-floor",
    Severity.ERROR,
    "partitions and minAvailable name different floors",
    "minPartitions times partitionSize is the task's floor too. Without minPartitions and without"
    " minAvailable a floor of 0 was filled in before that was mended: the gang then starts with no"
    " member at all.",
    PARTITIONS,
)
RULES: Final = (SIZES, FLOOR)


def check(bundle: Bundle) -> Iterator[Finding]:
    """Findings about the partition policies of tasks."""
    for job in bundle.jobs:
        for task in job.tasks:
            yield from _check_task(task)


def _check_task(task: Task) -> Iterator[Finding]:
    policy = task.at.get("partitionPolicy")
    if not policy:
        return
    total, size, least = (
        (found := policy.get(name)) and found.integer()
        for name in ("totalPartitions", "partitionSize", "minPartitions")
    )
    if total and size and total * size != task.replicas:
        message = (
            f"{total} partitions of {size} are {total * size} members, replicas is {task.replicas}"
        )
        advice = "choose sizes that add up, or remove partitionPolicy"
        yield Finding(SIZES, policy, message, policy.line, advice=advice)
    if not size:
        return
    if not least and task.floor is None:
        message = f"task {task.name} has partitions, and neither minPartitions nor minAvailable"
        advice = "set minAvailable of the task to the floor"
        yield Finding(FLOOR, policy, message, policy.line, advice=advice)
    elif least and task.floor is None and least * size <= task.replicas:
        message = f"{least} partitions of {size} are the floor, and minAvailable is not set"
        fix = SetValue(target(task.at, "minAvailable"), least * size, after="replicas")
        yield Finding(FLOOR, policy, message, policy.line, (fix,))
    elif least and task.floor is not None and least * size != task.floor:
        message = (
            f"{least} partitions of {size} are {least * size} members, minAvailable is {task.floor}"
        )
        advice = "a floor of whole partitions, the same in both"
        yield Finding(FLOOR, policy, message, policy.line, advice=advice)
