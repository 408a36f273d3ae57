"""The pod of a member: what restarts it, where it may land, what memory it shares."""

from collections.abc import Iterator
from typing import Final

from everstep_preflight.located import Located
from everstep_preflight.manifests import SHARED_MEMORY, Bundle, Container, Template
from everstep_preflight.model import Append, Change, Finding, Rule, SetValue, Severity, target
from everstep_preflight.rules.sources import ADOPTING, RECORDED

RESTART: Final = Rule(
    "restart-policy",
    Severity.WARNING,
    "restartPolicy is not Never",
    "With another one the kubelet restarts a dead agent in the same pod on the same machine,"
    " after waits that grow to five minutes, and the pod never is Failed: neither Volcano nor"
    " Everstep makes a new one elsewhere. With Never a dead pod is remade under its own index, and"
    " costs no retry.",
    f"{ADOPTING}; {RECORDED};"
    " https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy",
)
SHARED: Final = Rule(
    "shared-memory-missing",
    Severity.WARNING,
    "no memory volume at /dev/shm",
    "Container runtimes give /dev/shm 64 MiB. Workers of a DataLoader hand over batches there,"
    " and NCCL talks there between the GPUs of one machine: they die of a bus error, or do not"
    " start. Everstep itself does not use it.",
    "https://github.com/pytorch/pytorch#docker-image;"
    " https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
)
QUARANTINE: Final = Rule(
    "tolerates-quarantine",
    Severity.ERROR,
    "the pods tolerate a cordoned or quarantined node",
    "Everstep keeps a replacement off a bad machine by a cordon and the taint"
    " everstep.dev/quarantined. A toleration of every taint, or of one of these, lets the pod come"
    " back to the machine that just failed.",
    f"{RECORDED} (a cordon is the taint node.kubernetes.io/unschedulable);"
    " https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
)
RULES: Final = (RESTART, SHARED, QUARANTINE)

_KEPT_OFF_BY: Final = frozenset({"everstep.dev/quarantined", "node.kubernetes.io/unschedulable"})


def check(bundle: Bundle) -> Iterator[Finding]:
    """Findings about the pods of training tasks, and about single pods that train."""
    for template in training_templates(bundle):
        yield from _check_restart(template)
        yield from _check_tolerations(template)
        if not _is_true(template, "hostIPC"):
            for container in template.trainers:
                yield from _check_shared_memory(template, container)


def training_templates(bundle: Bundle) -> Iterator[Template]:
    """What members' pods are made from."""
    for job in bundle.jobs:
        yield from (task.template for task in job.trainers if task.template)
    yield from (template for template in bundle.templates if template.trainers)


def _check_restart(template: Template) -> Iterator[Finding]:
    said = template.spec.get("restartPolicy")
    policy = said.words() if said else None
    if policy != "Never":
        at, what = (
            said or template.spec,
            f"restartPolicy {policy or 'is unset, which means Always'}",
        )
        fix = SetValue(target(template.spec, "restartPolicy"), "Never")
        yield Finding(
            RESTART, at, f"{what}: a dead agent comes back in the same pod", at.line, (fix,)
        )


def _check_shared_memory(template: Template, container: Container) -> Iterator[Finding]:
    mounts = container.at.get("volumeMounts")
    for mount in mounts.items() if mounts else ():
        path = mount.get("mountPath")
        if path and (path.words() or "").rstrip("/") == SHARED_MEMORY:
            return
    listed = template.spec.get("volumes")
    volumes = {_name(volume): volume for volume in (listed.items() if listed else ())}
    medium = volumes["shm"].get("emptyDir", "medium") if "shm" in volumes else None
    usable = bool(medium and medium.words() == "Memory")
    volume_name = "shm" if usable or "shm" not in volumes else "everstep-shm"
    fixes: list[Change] = []
    if not usable:
        volume = {"name": volume_name, "emptyDir": {"medium": "Memory"}}
        fixes.append(Append(target(template.spec, "volumes"), volume))
    mount_it = {"name": volume_name, "mountPath": SHARED_MEMORY}
    fixes.append(Append(target(container.at, "volumeMounts"), mount_it))
    message = f"container {container.name} has 64 MiB of {SHARED_MEMORY}"
    yield Finding(SHARED, container.at, message, container.at.line, tuple(fixes))


def _check_tolerations(template: Template) -> Iterator[Finding]:
    found = template.spec.get("tolerations")
    for toleration in found.items() if found else ():
        key, effect = toleration.get("key"), toleration.get("effect")
        named = (key and key.words()) or ""
        if effect and effect.words() not in ("", "NoSchedule"):
            continue
        if named in _KEPT_OFF_BY or not named:
            message = f"tolerates {named or 'every taint'}"
            advice = "name the taints that the pods have to tolerate, one by one"
            yield Finding(QUARANTINE, toleration, message, toleration.line, advice=advice)


def _name(volume: Located) -> str:
    name = volume.get("name")
    return (name and name.words()) or ""


def _is_true(template: Template, field: str) -> bool:
    found = template.spec.get(field)
    return bool(found and found.is_true())
