"""Everstep's agent: whether it is there, and whether it is told which member it is."""

from collections.abc import Iterator
from typing import Any, Final

from everstep_preflight.launching import Launch, Launcher
from everstep_preflight.manifests import Bundle, Container, Task
from everstep_preflight.model import Append, Finding, Rule, Severity, target
from everstep_preflight.rules.sources import ADOPTING

MISSING: Final = Rule(
    "agent-missing",
    Severity.ERROR,
    "no Everstep agent starts the workers",
    "Each member has one agent, everstep run in torchrun's place. Without it nobody hears that a"
    " member is lost, and nobody forms the next group: the job hangs until a person comes.",
    f"{ADOPTING}; docs/adr/0004-the-agent-is-the-only-bus-client.md",
)
UNNAMED: Final = Rule(
    "agent-unnamed",
    Severity.ERROR,
    "the agent is not told which member of which job it is",
    "Job, pod, node and address come by the downward API. Without them the agent makes names of"
    " its own: Everstep then cannot tell which pod a lost member was, and peers cannot reach it.",
    ADOPTING,
)
WITHOUT_BUS: Final = Rule(
    "agent-without-bus",
    Severity.ERROR,
    "the agent does not know the bus",
    "EVERSTEP_NATS_URL is 127.0.0.1 where nothing is said, where no server is in a pod, and"
    " without the job's seed the server lets nobody in.",
    ADOPTING,
)
WORKERS: Final = Rule(
    "workers-and-gpus-differ",
    Severity.WARNING,
    "--nproc-per-node is not the number of GPUs",
    "A member has one worker a GPU. With fewer workers GPUs stand idle, with more some workers"
    " find none.",
    ADOPTING,
)
RULES: Final = (MISSING, UNNAMED, WITHOUT_BUS, WORKERS)

DOWNWARD: Final = {
    "EVERSTEP_JOB_NAMESPACE": "metadata.namespace",
    "EVERSTEP_JOB_NAME": "metadata.labels['volcano.sh/job-name']",
    "EVERSTEP_POD_GROUP": "metadata.annotations['scheduling.k8s.io/group-name']",
    "EVERSTEP_POD_NAME": "metadata.name",
    "EVERSTEP_POD_UID": "metadata.uid",
    "EVERSTEP_POD_IP": "status.podIP",
    "EVERSTEP_NODE_NAME": "spec.nodeName",
}
"""What a pod can only know from Kubernetes: who and where it is."""
_BUS: Final = ("EVERSTEP_NATS_URL", "EVERSTEP_NATS_SEED_PATH")


def check(bundle: Bundle) -> Iterator[Finding]:
    """Findings about the agents of Jobs."""
    for job in bundle.jobs:
        for task in job.trainers:
            yield from _check_task(task)


def _check_task(task: Task) -> Iterator[Finding]:
    trainers = task.template.trainers if task.template else ()
    agents = [c for c in trainers if c.launch and c.launch.launcher is Launcher.EVERSTEP]
    for container in agents:
        yield from _check_agent(container)
    if not agents:
        yield _missing(task, trainers)
    for container in trainers:
        yield from _check_workers(container)


def _missing(task: Task, trainers: tuple[Container, ...]) -> Finding:
    container = trainers[0] if trainers else None
    at = container.at if container else task.at
    launch = container.launch if container else None
    if not launch:
        message = f"task {task.name} shows no launcher: its command may be in the image"
        advice = (
            "say the command here: everstep run --nnodes MIN:MAX --nproc-per-node GPUS script.py"
        )
        return Finding(MISSING, at, message, at.line, advice=advice)
    message = f"task {task.name} starts its workers by {launch.written or launch.launcher}"
    return Finding(MISSING, launch.at, message, launch.line, advice=_suggestion(launch))


def _suggestion(launch: Launch) -> str:
    kept = [
        f"--{name}={launch.flags[name].value}"
        for name in ("nnodes", "nproc-per-node", "max-restarts")
        if name in launch.flags
    ]
    command = " ".join(["everstep run", *kept])
    return (
        f"{command} SCRIPT ..., in an image with Everstep in it; a script that does not call"
        " everstep.join() needs --rung restart (docs/adopting.md)"
    )


def _check_agent(container: Container) -> Iterator[Finding]:
    if container.at.get("envFrom"):
        return  # whatever it brings is elsewhere
    launch = container.launch
    told = {"EVERSTEP_JOB_NAME": "job", "EVERSTEP_JOB_NAMESPACE": "namespace"}
    flags = launch.flags if launch else {}
    absent = [
        name
        for name in DOWNWARD
        if not container.variable(name) and told.get(name, "") not in flags
    ]
    if absent:
        message = f"container {container.name} lacks {', '.join(absent)}"
        fix = tuple(Append(target(container.at, "env"), _downward(name)) for name in absent)
        yield Finding(UNNAMED, container.at, message, container.at.line, fix)
    lost = [name for name in _BUS if not container.variable(name)]
    if lost:
        message = f"container {container.name} lacks {', '.join(lost)}"
        advice = "give the address of NATS, and mount the Secret with the job's seed"
        yield Finding(WITHOUT_BUS, container.at, message, container.at.line, advice=advice)


def _downward(name: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": DOWNWARD[name]}}}


def _check_workers(container: Container) -> Iterator[Finding]:
    flag = container.launch.flags.get("nproc-per-node") if container.launch else None
    if flag and flag.value.isdecimal() and container.gpus and int(flag.value) != container.gpus:
        message = f"--nproc-per-node {flag.value}, and {container.gpus} GPUs"
        advice = "write the same number in both places"
        yield Finding(WORKERS, flag.at, message, flag.line, advice=advice)
