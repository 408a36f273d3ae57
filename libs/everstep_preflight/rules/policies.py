"""Volcano's policies: each restarts or ends more than the loss of one member is worth."""

from collections.abc import Iterator
from typing import Final

from everstep_preflight.located import Located
from everstep_preflight.manifests import Bundle, Job
from everstep_preflight.model import Finding, Remove, Rule, Severity, target
from everstep_preflight.rules.sources import JOB_POLICY, RECORDED, WEBHOOK

ENDS_SURVIVORS: Final = Rule(
    "policy-ends-survivors",
    Severity.ERROR,
    "a policy deletes healthy members when one is lost",
    "PodEvicted means any deletion of a pod, Everstep's own too, and RestartTask deletes all pods"
    " of the task, RestartJob all of the job. Without a policy Volcano remakes a deleted pod under"
    " its own index and the others go on. Policies cannot be changed once the Job is there.",
    f"{RECORDED}; {JOB_POLICY}",
)
SPENDS_RETRIES: Final = Rule(
    "policy-spends-retries",
    Severity.ERROR,
    "a policy spends one of the job's retries for each lost pod",
    "RestartPod, RestartJob and ResumeJob each add 1 to retryCount; when it reaches maxRetry (3"
    " where nothing is said) the job is Failed for good and all its pods are deleted: the third"
    " deletion of a single pod ended a job, whether by a fault, a drain or a preemption. A plain"
    " deletion without a policy costs no retry.",
    RECORDED,
)
REFUSED: Final = Rule(
    "policy-refused",
    Severity.ERROR,
    "a policy that Volcano does not take",
    "The webhook knows certain events and actions only, and refuses '*' beside other policies;"
    " the Job is then not made at all.",
    WEBHOOK,
)
MAX_RETRY: Final = Rule(
    "max-retry-fatal",
    Severity.WARNING,
    "maxRetry counts restarts of the whole job's life, and the last one ends it",
    "retryCount is counted over the job's whole life. Where policies restart pods, maxRetry says"
    " after how many losses the job ends for good, however far apart they are; with 1, the first"
    " ResumeJob ends it. It cannot be changed once the Job is there.",
    RECORDED,
)
RULES: Final = (ENDS_SURVIVORS, SPENDS_RETRIES, REFUSED, MAX_RETRY)

DEFAULT_MAX_RETRY: Final = 3
_ENDING: Final = {
    "RestartTask": "deletes all pods of the task",
    "RestartJob": "deletes all pods of the job",
    "RestartPartition": "deletes all pods of the partition",
    "AbortJob": "deletes all pods of the job and leaves it aborted",
    "TerminateJob": "ends the job for good",
    "CompleteJob": "ends the job for good",
}
_SPENDING: Final = frozenset({"RestartTask", "RestartJob", "RestartPartition", "RestartPod"})
_ACTIONS: Final = frozenset({*_ENDING, "RestartPod", "ResumeJob"})
_EVENTS: Final = frozenset(
    {
        "*",
        "TaskCompleted",
        "JobUpdated",
        "PodFailed",
        "PodEvicted",
        "PodPending",
        "Unknown",
        "TaskFailed",
    }
)
_HARMLESS: Final = frozenset({"TaskCompleted"})
"""Not a loss: what is done then is how a job says that it is complete."""


def check(bundle: Bundle) -> Iterator[Finding]:
    """Findings about policies of Jobs and tasks, and about what they spend."""
    for job in bundle.jobs:
        spending: list[Located] = []
        for owner in (job.spec, *(task.at for task in job.tasks)):
            found = owner.get("policies")
            policies = found.items() if found else ()
            for policy in policies:
                yield from _check_one(policy, job, alone=len(policies) == 1)
            spending += [policy for policy in policies if _spends(policy)]
        yield from _check_max_retry(job, spending)


def _check_one(policy: Located, job: Job, *, alone: bool) -> Iterator[Finding]:
    action, events = _action(policy), _events(policy)
    shown = f"{' and '.join(events)} -> {action}"
    fix = (Remove(target(policy)),)
    losses = [event for event in events if event not in _HARMLESS]
    if losses and action in _ENDING:
        spent = f", and spends one of {_retries(job)} retries" if action in _SPENDING else ""
        message = f"{shown}: the loss of one member {_ENDING[action]}{spent}"
        yield Finding(ENDS_SURVIVORS, policy, message, policy.line, fix)
    elif _spends(policy):
        message = f"{shown}: loss number {_retries(job)} ends the job for good"
        yield Finding(SPENDS_RETRIES, policy, message, policy.line, fix)
    else:
        yield from _check_taken(policy, alone=alone)


def _check_taken(policy: Located, *, alone: bool) -> Iterator[Finding]:
    action, events = _action(policy), _events(policy)
    unknown = [event for event in events if event not in _EVENTS and not event.startswith("exit")]
    wrong = ""
    if action not in _ACTIONS:
        wrong = f"action {action or '(none)'} is none of {', '.join(sorted(_ACTIONS))}"
    elif unknown or not events:
        wrong = f"event {', '.join(unknown) or '(none)'} is none of {', '.join(sorted(_EVENTS))}"
    elif "*" in events and not alone:
        wrong = "event * stands beside other policies"
    if wrong:
        advice = "remove the policy, or say what you mean by one that Volcano has"
        yield Finding(REFUSED, policy, wrong, policy.line, advice=advice)


def _check_max_retry(job: Job, spending: list[Located]) -> Iterator[Finding]:
    said = job.spec.get("maxRetry")
    limit = said.integer() if said else None
    if said is None or limit is None:
        return
    if spending:
        message = f"maxRetry {limit}: restart number {limit} ends the job for good"
        fix = tuple(Remove(target(policy)) for policy in reversed(spending))
        yield Finding(MAX_RETRY, said, message, said.line, fix)
    elif limit == 1:
        message = "maxRetry 1: the first ResumeJob ends the job for good"
        yield Finding(MAX_RETRY, said, message, said.line, (Remove(target(said)),))


def _retries(job: Job) -> int:
    said = job.spec.get("maxRetry")
    return (said and said.integer()) or DEFAULT_MAX_RETRY


def _spends(policy: Located) -> bool:
    losses = [event for event in _events(policy) if event not in _HARMLESS]
    return bool(losses) and _action(policy) in _SPENDING


def _action(policy: Located) -> str:
    found = policy.get("action")
    return (found and found.text()) or ""


def _events(policy: Located) -> tuple[str, ...]:
    """The events that it reacts to; an exit code is one too."""
    several, one, code = policy.get("events"), policy.get("event"), policy.get("exitCode")
    named = [item.words() for item in several.items()] if several else []
    named += [one.words()] if one else []
    named += [f"exit code {code.words()}"] if code else []
    return tuple(name for name in named if name)
