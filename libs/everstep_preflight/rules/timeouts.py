"""Timeouts that have to follow one another."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from everstep_preflight.launching import Flag, Launcher
from everstep_preflight.manifests import Bundle, Container, Template
from everstep_preflight.model import Finding, Rule, SetValue, Severity, target
from everstep_preflight.quantities import quantity
from everstep_preflight.rules.pods import training_templates
from everstep_preflight.rules.sources import ADOPTING, RECORDED

GRACE: Final = Rule(
    "grace-too-short",
    Severity.WARNING,
    "the pod is killed before its launcher has ended the workers",
    "On SIGTERM a launcher ends its workers and what they have come to is written: an agent takes"
    " EVERSTEP_GRACE_SECONDS (10) and more for it, torchrun waits 30 s before it kills. Kubernetes"
    " kills all of them after terminationGracePeriodSeconds, 30 where nothing is said.",
    f"{ADOPTING}; https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination;"
    " torch.distributed.elastic.multiprocessing (close, timeout 30 s)",
)
LONG: Final = Rule(
    "grace-too-long",
    Severity.WARNING,
    "a member that hangs keeps its replacement waiting longer than the job does",
    "Volcano makes no replacement while the old pod is Terminating, and a pod that does not end"
    " stays so for all of terminationGracePeriodSeconds; on a machine that is gone it stays until"
    " it is forced away. A job below its floor holds for EVERSTEP_HOLD_SECONDS, 1800 by default,"
    " and then gives up.",
    f"{RECORDED} (a dead host); {ADOPTING}",
)
ORDER: Final = Rule(
    "timeouts-order",
    Severity.ERROR,
    "torchrun gives up before it can notice",
    "A member that died is noticed when its keep-alives have been missing; the others wait for a"
    " new rendezvous until join_timeout. If that ends first, or last_call_timeout is not below it,"
    " survivors give up while the lost member is still counted.",
    "https://docs.pytorch.org/docs/stable/elastic/rendezvous.html",
)
RULES: Final = (GRACE, LONG, ORDER)

DEFAULT_GRACE_SECONDS: Final = 30
HOLD_SECONDS: Final = 1800
"""The adjudicator's default; a site that raised it may allow more grace."""
_AGENT: Final = {"EVERSTEP_LEAVE_SECONDS": 5, "EVERSTEP_GRACE_SECONDS": 10}
_MARGIN_SECONDS: Final = 45
"""For the last write and the pod's own end; with the agent's defaults it makes the 60 s advised."""
_RENDEZVOUS: Final = {
    "join_timeout": 600,
    "last_call_timeout": 30,
    "keep_alive_interval": 5,
    "keep_alive_max_attempt": 3,
}


def check(bundle: Bundle) -> Iterator[Finding]:
    """Findings about the timeouts of training pods."""
    for template in training_templates(bundle):
        yield from _check_grace(template)
        for container in template.trainers:
            launch = container.launch
            flag = launch.flags.get("rdzv-conf") if launch else None
            if launch and flag and launch.launcher is Launcher.TORCHRUN:
                yield from _check_order(flag)


def _check_grace(template: Template) -> Iterator[Finding]:
    said = template.spec.get("terminationGracePeriodSeconds")
    grace = template.integer("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    needed = max((_needed_seconds(container) for container in template.trainers), default=0)
    if needed and grace < needed:
        at = said or template.spec
        message = (
            f"terminationGracePeriodSeconds is {grace}{'' if said else ' by default'}, not {needed}"
        )
        fix = SetValue(
            target(template.spec, "terminationGracePeriodSeconds"), needed, "restartPolicy"
        )
        yield Finding(GRACE, at, message, at.line, (fix,))
    elif said and needed and grace >= HOLD_SECONDS:
        message = f"terminationGracePeriodSeconds is {grace}, a job holds for {HOLD_SECONDS}"
        advice = "choose what the last checkpoint takes, and less than the hold"
        yield Finding(LONG, said, message, said.line, advice=advice)


def _needed_seconds(container: Container) -> int:
    seconds = Fraction(0)
    for name, default in _AGENT.items():
        entry = container.variable(name)
        value = entry.get("value") if entry else None
        given = quantity(value.words()) if value else None
        seconds += Fraction(default) if given is None else given
    return int(seconds) + _MARGIN_SECONDS


def _check_order(flag: Flag) -> Iterator[Finding]:
    given = dict(part.partition("=")[::2] for part in flag.value.split(","))
    values = dict(_RENDEZVOUS)
    for name in values:
        if name in given:
            if not given[name].strip().isdecimal():
                return
            values[name] = int(given[name])
    join = values["join_timeout"]
    noticed = values["keep_alive_interval"] * values["keep_alive_max_attempt"]
    pairs = {
        f"a lost member is noticed after {noticed} s": noticed,
        f"last_call_timeout ({values['last_call_timeout']})": values["last_call_timeout"],
    }
    for name, seconds in pairs.items():
        if seconds >= join:
            message = f"{name}, which must be below join_timeout ({join})"
            advice = (
                "raise join_timeout, or start the workers by everstep run, which has no such flag"
            )
            yield Finding(ORDER, flag.at, message, flag.line, advice=advice)
