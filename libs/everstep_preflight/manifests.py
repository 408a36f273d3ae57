"""What documents mean to Everstep: Jobs with tasks, pod templates, PodGroups, budgets, Services."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from everstep_preflight.launching import Launch, launch_of
from everstep_preflight.located import Located
from everstep_preflight.quantities import quantity

GROUP_NAME: Final = "scheduling.k8s.io/group-name"
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108  # looked for in manifests


@dataclass(frozen=True)
class Container:
    """One container of a pod, and what it starts."""

    at: Located
    launch: Launch | None

    @property
    def gpus(self) -> int:
        """GPUs of any make that it asks for; parts of one count as one."""
        limits = self.at.get("resources", "limits") or self.at.get("resources", "requests")
        asked = [
            quantity(value.words())
            for name, value in (limits.pairs() if limits else ())
            if "gpu" in name.rpartition("/")[2] or name.startswith("nvidia.com/mig-")
        ]
        return sum(int(amount) for amount in asked if amount)

    def variable(self, name: str) -> Located | None:
        """The environment variable's entry, the last one as the kubelet has it."""
        entries = self.at.get("env")
        found = [e for e in (entries.items() if entries else ()) if _text(e, "name") == name]
        return found[-1] if found else None

    @property
    def name(self) -> str:
        """Its name, or its number."""
        return _text(self.at, "name") or str(self.at.path[-1])


@dataclass(frozen=True)
class Template:
    """A pod, or what pods are made from; ``spec`` is the pod's."""

    spec: Located
    containers: tuple[Container, ...]

    @property
    def trainers(self) -> tuple[Container, ...]:
        """The containers that train: they start a launcher, or else they ask for GPUs."""
        launching = tuple(c for c in self.containers if c.launch)
        return launching or tuple(c for c in self.containers if c.gpus)

    def integer(self, name: str, default: int) -> int:
        """A number of the pod's spec."""
        found = self.spec.get(name)
        number = found.integer() if found else None
        return default if number is None else number


@dataclass(frozen=True)
class Task:
    """One task of a Volcano Job."""

    at: Located
    name: str
    replicas: int
    floor: int | None
    template: Template | None

    @property
    def launch(self) -> Launch | None:
        """What its members start."""
        trainers = self.template.trainers if self.template else ()
        return trainers[0].launch if trainers else None

    @property
    def effective_floor(self) -> int:
        """What Volcano's webhook makes of an unset ``minAvailable``."""
        return self.replicas if self.floor is None else self.floor


@dataclass(frozen=True)
class Job:
    """A Volcano Job, or what a CronJob makes."""

    at: Located
    spec: Located
    name: str
    namespace: str
    floor: int | None
    tasks: tuple[Task, ...]
    exists: bool

    @property
    def trainers(self) -> tuple[Task, ...]:
        """The tasks that train; of a Job that shows none the largest one."""
        found = tuple(t for t in self.tasks if t.template and t.template.trainers)
        return found or tuple(sorted(self.tasks, key=lambda task: -task.replicas)[:1])

    @property
    def replicas(self) -> int:
        """All pods of the Job."""
        return sum(task.replicas for task in self.tasks)

    @property
    def effective_floor(self) -> int:
        """What Volcano's webhook makes of an unset ``minAvailable``."""
        if self.floor is not None:
            return self.floor
        return sum(task.effective_floor for task in self.tasks)


@dataclass(frozen=True)
class PodGroup:
    """A PodGroup; ``owned`` by a controller, or made by hand."""

    at: Located
    name: str
    namespace: str
    floor: int | None
    owned: bool


@dataclass(frozen=True)
class Plain:
    """An object that is only looked at beside others: a budget, a Service."""

    at: Located
    name: str
    namespace: str


@dataclass(frozen=True)
class Skipped:
    """A document that no rule is about, and why."""

    at: Located
    why: str


@dataclass(frozen=True)
class Bundle:
    """All that was given together."""

    jobs: list[Job] = field(default_factory=list)
    templates: list[Template] = field(default_factory=list)
    groups: list[PodGroup] = field(default_factory=list)
    budgets: list[Plain] = field(default_factory=list)
    services: list[Plain] = field(default_factory=list)
    members: list[Located] = field(default_factory=list)
    """Pods and the like, outside Jobs, that name a PodGroup."""
    skipped: list[Skipped] = field(default_factory=list)


def understand(documents: Sequence[Located]) -> Bundle:
    """Sort documents by what they are; the items of a List are documents of their own."""
    bundle = Bundle()
    for document in documents:
        for found in _unpacked(document):
            _sort(found, bundle)
    return bundle


def _unpacked(document: Located) -> Iterator[Located]:
    items = document.get("items")
    if (_text(document, "kind") or "").endswith("List") and items:
        yield from items.items()
    else:
        yield document


def _sort(at: Located, bundle: Bundle) -> None:
    if at.is_null():
        return
    kind = _text(at, "kind")
    group = (_text(at, "apiVersion") or "").partition("/")[0]
    spec = at.get("spec")
    match kind, group:
        case "Job", "batch.volcano.sh" if spec:
            bundle.jobs.append(_job(at, spec))
        case ("CronJob", "batch.volcano.sh") if made := at.get("spec", "jobTemplate", "spec"):
            bundle.jobs.append(_job(at, made))
        case "PodGroup", "scheduling.volcano.sh":
            bundle.groups.append(_group(at))
        case "Pod", "v1" if _owned(at):
            bundle.skipped.append(Skipped(at, f"Pod {_name(at)}: what makes it is to be looked at"))
        case "Pod", "v1" if spec:
            bundle.templates.append(_template(spec))
            bundle.members.append(at)
        case ("PodTemplate", "v1") if pod := at.get("template", "spec"):
            bundle.templates.append(_template(pod))
            bundle.members.append(at)
        case "PodDisruptionBudget", "policy":
            bundle.budgets.append(Plain(at, _name(at), _namespace(at)))
        case "Service", "v1":
            bundle.services.append(Plain(at, _name(at), _namespace(at)))
        case _:
            bundle.members.append(at)
            bundle.skipped.append(Skipped(at, _why_skipped(at, kind, group)))


def _why_skipped(at: Located, kind: str | None, group: str) -> str:
    if not at.pairs():
        return f"{at.kind()} is no Kubernetes object"
    if not kind:
        return "an object without a kind"
    if group in ("batch.volcano.sh", "scheduling.volcano.sh") and not at.get("spec"):
        return f"{kind} of {group} without a spec"
    return f"{kind} of {group}: no rule is about it"


def _job(at: Located, spec: Located) -> Job:
    tasks = spec.get("tasks")
    return Job(
        at=at,
        spec=spec,
        name=_name(at),
        namespace=_namespace(at),
        floor=_integer(spec, "minAvailable"),
        tasks=tuple(
            _task(index, item) for index, item in enumerate(tasks.items() if tasks else ())
        ),
        exists=at.get("metadata", "uid") is not None,
    )


def _task(index: int, at: Located) -> Task:
    replicas = _integer(at, "replicas")
    pod = at.get("template", "spec")
    return Task(
        at=at,
        name=_text(at, "name") or f"default{index}",
        replicas=1 if replicas is None else replicas,
        floor=_integer(at, "minAvailable"),
        template=_template(pod) if pod else None,
    )


def _template(spec: Located) -> Template:
    containers = spec.get("containers")
    found = containers.items() if containers else ()
    return Template(spec, tuple(Container(item, launch_of(item)) for item in found))


def _group(at: Located) -> PodGroup:
    floor = at.get("spec", "minMember")
    number = floor.integer() if floor else None
    return PodGroup(at, _name(at), _namespace(at), number, _owned(at))


def _owned(at: Located) -> bool:
    owners = at.get("metadata", "ownerReferences")
    return bool(owners and owners.items())


def _name(at: Located) -> str:
    name = at.get("metadata", "name")
    return (name and name.text()) or ""


def _namespace(at: Located) -> str:
    namespace = at.get("metadata", "namespace")
    return (namespace and namespace.text()) or "default"


def _text(at: Located, key: str) -> str | None:
    found = at.get(key)
    return found.text() if found else None


def _integer(at: Located, key: str) -> int | None:
    found = at.get(key)
    return found.integer() if found else None
