"""Where members meet under plain torchrun: on one of them, or at a name that never was."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from everstep_preflight.launching import Flag, Launcher
from everstep_preflight.located import Located
from everstep_preflight.manifests import Bundle, Container, Job
from everstep_preflight.model import (
    Change,
    Finding,
    Remove,
    ReplaceWords,
    Rule,
    SetValue,
    Severity,
    target,
)
from everstep_preflight.rules.sources import ADOPTING, PYTORCH_PLUGIN, SVC_PLUGIN

ON_MEMBER: Final = Rule(
    "endpoint-on-member",
    Severity.ERROR,
    "the rendezvous is on one of the members",
    "The store of torchrun's c10d rendezvous lives in the pod that the endpoint names. When that"
    " pod's machine fails all others lose the store with it, and none of them can agree on a new"
    " group. With Everstep each generation has its own store, and its address comes with the"
    " order.",
    "https://github.com/pytorch/pytorch/issues/67742;"
    " docs/adr/0007-orders-are-heard-from-the-stream.md",
)
WITHOUT_SVC: Final = Rule(
    "endpoint-without-svc",
    Severity.ERROR,
    "the rendezvous endpoint names a pod, and nothing gives pods names",
    "A pod has a name in DNS only with a hostname, a subdomain and a headless Service of that"
    " name. Volcano's svc plugin sets all three; without it <job>-<task>-0 does not resolve.",
    SVC_PLUGIN,
)
WRONG_DOMAIN: Final = Rule(
    "endpoint-wrong-domain",
    Severity.ERROR,
    "the rendezvous endpoint has a domain that no pod is in",
    "Under the svc plugin a pod is <pod>.<job>, or in full <pod>.<job>.<namespace>.svc.<cluster"
    " domain>: the subdomain is the Job's name. <pod> and <pod>.<namespace> do not resolve.",
    SVC_PLUGIN,
)
STATIC_PLUGIN: Final = Rule(
    "static-world-plugin",
    Severity.ERROR,
    "the pytorch plugin fixes WORLD_SIZE, RANK and MASTER_ADDR for the life of a pod",
    "The plugin writes them into each container when the pod is made, counted from replicas."
    " After a member is lost the survivors wait for a world size that is not there, at the address"
    " of a master that may be the one lost.",
    f"{PYTORCH_PLUGIN}; https://github.com/volcano-sh/volcano/issues/4238",
)
STATIC_VARIABLES: Final = Rule(
    "static-world-variables",
    Severity.WARNING,
    "variables in the manifest fix what changes with each generation",
    "World size, rank and the store's address come with each generation. A number in the manifest"
    " is right for the full size alone, and misleads whatever reads it.",
    ADOPTING,
)
RULES: Final = (ON_MEMBER, WITHOUT_SVC, WRONG_DOMAIN, STATIC_PLUGIN, STATIC_VARIABLES)

_STATIC: Final = ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "GROUP_RANK")
_VARIABLE: Final = re.compile(r"\$[({]?([A-Za-z_][A-Za-z0-9_]*)[)}]?")
_ENDPOINTS: Final = ("rdzv-endpoint", "master-addr")


@dataclass(frozen=True)
class _Endpoint:
    """The host of a rendezvous, and the member it is on."""

    flag: Flag
    host: str
    pod: str

    @property
    def domain(self) -> list[str]:
        return self.host.split(".")[1:]


def check(bundle: Bundle) -> Iterator[Finding]:
    """Findings about endpoints, plugins and variables of Jobs."""
    for job in bundle.jobs:
        plugins = job.spec.get("plugins")
        pytorch = plugins.get("pytorch") if plugins else None
        if pytorch:
            yield _static_plugin(job, pytorch)
        for task in job.trainers:
            for container in task.template.trainers if task.template else ():
                yield from _check_endpoint(job, container, bundle)
                yield from _check_variables(container)


def _static_plugin(job: Job, pytorch: Located) -> Finding:
    """Scripts that read what it sets cannot do without it until their launcher is another one."""
    reads = any(
        "MASTER_" in word or "WORLD_SIZE" in word
        for task in job.tasks
        for container in (task.template.containers if task.template else ())
        for word in (container.launch.words if container.launch else ())
    )
    message = "the pytorch plugin fixes WORLD_SIZE and MASTER_ADDR when a pod is made"
    if reads:
        advice = (
            "start the workers by everstep run, without these variables; then remove the plugin"
        )
        return Finding(STATIC_PLUGIN, pytorch, message, pytorch.line, advice=advice)
    return Finding(STATIC_PLUGIN, pytorch, message, pytorch.line, (Remove(target(pytorch)),))


def _check_endpoint(job: Job, container: Container, bundle: Bundle) -> Iterator[Finding]:
    launch = container.launch
    if not launch or launch.launcher is Launcher.EVERSTEP:
        return
    flag = next((launch.flags[name] for name in _ENDPOINTS if name in launch.flags), None)
    flag = _filled_in(flag, container) if flag else None
    endpoint = _endpoint(flag, job) if flag else None
    if not flag or not endpoint:
        return
    message = f"{flag.value}: when {endpoint.pod} is lost, so is the rendezvous of all others"
    advice = "start the workers by everstep run, which needs no endpoint"
    yield Finding(ON_MEMBER, flag.at, message, flag.line, advice=advice)
    if endpoint.host and not _has_service(endpoint, job, bundle):
        yield from _check_name(job, endpoint)


def _check_name(job: Job, endpoint: _Endpoint) -> Iterator[Finding]:
    flag = endpoint.flag
    plugins = job.spec.get("plugins")
    if not (plugins and (plugins.get("svc") or plugins.get("pytorch"))):
        at = plugins or job.spec
        message = f"{endpoint.host} cannot resolve: the Job has no svc plugin"
        fix: Change = SetValue(target(job.spec, "plugins", "svc"), [], after="queue")
        yield Finding(WITHOUT_SVC, at, message, at.line, (fix,))
    domain = endpoint.domain
    right = domain[:1] == [job.name] and (not domain[1:] or domain[1] == job.namespace)
    if not right or (len(domain) > 2 and domain[2] != "svc"):
        new = f"{endpoint.pod}.{job.name}"
        message = f"{endpoint.host} cannot resolve: the pod's name is {new}"
        fix = ReplaceWords(target(flag.at), endpoint.host, new)
        yield Finding(WRONG_DOMAIN, flag.at, message, flag.line, (fix,))


def _filled_in(flag: Flag, container: Container) -> Flag:
    """A variable that the manifest itself sets, by its value; it then stands where that does."""
    for variable in _VARIABLE.finditer(flag.value):
        entry = container.variable(variable[1])
        value = entry.get("value") if entry else None
        words = value.words() if value else None
        if value and words:
            return Flag(flag.value.replace(variable[0], words), words, value)
    return flag


def _endpoint(flag: Flag, job: Job) -> _Endpoint | None:
    """The member that the endpoint is on: by its pod's name, or by a variable of a plugin."""
    host = flag.value.partition("://")[2] or flag.value
    host = host.rpartition(":")[0] or host
    first = host.partition(".")[0]
    for task in job.tasks:
        pods = (f"{job.name}-{task.name}-{index}" for index in range(min(task.replicas, 4096)))
        if first in pods:
            return _Endpoint(flag, host, first)
        hosts = f"VC_{task.name.replace('-', '_').upper()}"
        if hosts in flag.value:
            return _Endpoint(flag, "", f"{job.name}-{task.name}-0")
    if "MASTER_ADDR" in flag.value and job.spec.get("plugins", "pytorch"):
        return _Endpoint(flag, "", "the master")
    return None


def _has_service(endpoint: _Endpoint, job: Job, bundle: Bundle) -> bool:
    """Whether a Service beside the Job, or a subdomain of the pods' own, may give it a name."""
    own = any(task.template and task.template.spec.get("subdomain") for task in job.tasks)
    names = {service.name for service in bundle.services if service.namespace == job.namespace}
    return own or bool(names & set(endpoint.host.split(".")[:2]))


def _check_variables(container: Container) -> Iterator[Finding]:
    launch = container.launch
    found = [(name, at) for name in _STATIC if (at := container.variable(name))]
    for name, at in found:
        message = f"{name} is fixed in the manifest"
        if launch and launch.launcher is Launcher.EVERSTEP:
            yield Finding(STATIC_VARIABLES, at, message, at.line, (Remove(target(at)),))
        else:
            advice = "start the workers by everstep run; then remove the variable"
            yield Finding(STATIC_VARIABLES, at, message, at.line, advice=advice)
