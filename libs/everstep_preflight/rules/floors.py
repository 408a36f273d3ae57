"""The floor and the full size: four places that name them have to agree."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from everstep_preflight.launching import Flag, Launch, Launcher
from everstep_preflight.located import Located
from everstep_preflight.manifests import Bundle, Job, Task
from everstep_preflight.model import Change, Finding, ReplaceWords, Rule, SetValue, Severity, target
from everstep_preflight.rules.sources import ADOPTING, RECORDED, WEBHOOK

UNSET: Final = Rule(
    "task-floor-unset",
    Severity.ERROR,
    "a task without minAvailable has none to give away",
    "Volcano's webhook fills an unset task minAvailable with replicas, whatever the Job's own"
    " minAvailable says, and then refuses any replicas below it: the floor of the Job cannot be"
    " reached.",
    WEBHOOK,
)
DIFFER: Final = Rule(
    "floors-differ",
    Severity.ERROR,
    "minAvailable of the Job, minAvailable of the task and --nnodes name different floors",
    "The Job's minAvailable is what Volcano starts and keeps, the task's what it lets replicas"
    " fall to, --nnodes what the members go on with. Where they differ the job waits where it"
    " could run, or is run where it may not.",
    f"{RECORDED}; {ADOPTING}",
)
SIZES: Final = Rule(
    "sizes-differ",
    Severity.ERROR,
    "--nnodes and replicas name different full sizes",
    "replicas is the full size and stays it: lowering it removes the highest index, not the dead"
    " pod. More members than --nnodes allows are left over, with fewer the job never is complete.",
    f"{RECORDED}; {ADOPTING}",
)
REFUSED: Final = Rule(
    "counts-refused",
    Severity.ERROR,
    "counts that Volcano does not take",
    "The webhook refuses a task minAvailable above its replicas, a Job minAvailable above all"
    " replicas, and a Job without a task.",
    WEBHOOK,
)
NO_ROOM: Final = Rule(
    "no-room-to-shrink",
    Severity.WARNING,
    "the floor is the full size: the job cannot go on without one member",
    "A job never steps below its floor. Where floor and full size are the same number, each loss"
    " holds the whole job until a replacement has come.",
    f"{ADOPTING}; {RECORDED}",
)
RULES: Final = (UNSET, DIFFER, SIZES, REFUSED, NO_ROOM)


@dataclass(frozen=True)
class _Gang:
    """The one training task of a Job, and what the others need beside it."""

    job: Job
    task: Task
    launch: Launch | None

    @property
    def others(self) -> int:
        return sum(task.effective_floor for task in self.job.tasks if task is not self.task)

    @property
    def of_job(self) -> int | None:
        """What the Job's floor leaves for this task."""
        return None if self.job.floor is None else self.job.floor - self.others

    @property
    def members(self) -> tuple[int, int] | None:
        return self.launch.members if self.launch else None


def check(bundle: Bundle) -> Iterator[Finding]:
    """Findings about floors and sizes of Jobs."""
    for job in bundle.jobs:
        refused = list(_check_refused(job))
        yield from refused
        gang = _gang(job)
        if gang and not refused:
            yield from _check_gang(gang)


def _gang(job: Job) -> _Gang | None:
    """The task that may shrink; beside a master, --nnodes counts more than this task."""
    if len(job.trainers) == 1:
        return _Gang(job, job.trainers[0], job.trainers[0].launch)
    several = [task for task in job.trainers if task.replicas > 1]
    return _Gang(job, several[0], None) if len(several) == 1 else None


def _check_refused(job: Job) -> Iterator[Finding]:
    if not job.tasks:
        yield Finding(REFUSED, job.spec, "the Job has no task", job.spec.line, advice="add one")
    for task in job.tasks:
        said = task.at.get("minAvailable")
        if said and task.floor is not None and task.floor > task.replicas:
            message = f"task {task.name} needs {task.floor} of {task.replicas} replicas"
            yield Finding(REFUSED, said, message, said.line, advice="lower it, or raise replicas")
    said = job.spec.get("minAvailable")
    if said and job.floor is not None and job.tasks and job.floor > job.replicas:
        message = f"minAvailable {job.floor} is above all replicas together, {job.replicas}"
        yield Finding(REFUSED, said, message, said.line, advice="lower it, or raise replicas")


def _check_gang(gang: _Gang) -> Iterator[Finding]:
    task, members = gang.task, gang.members
    elastic = bool(members and members[0] < task.replicas)
    if task.floor is None and task.replicas > 1:
        yield from _check_unset(gang, elastic=elastic)
    yield from _check_floors(gang)
    if task.replicas > 1 and _lacks_nnodes(gang):
        yield _without_nnodes(gang)
    if members and members[1] != task.replicas and len(set(members)) == 2:
        yield _sizes(gang, members[1])
    floor = gang.of_job if task.floor is None else task.floor
    floor = task.replicas if floor is None else floor
    if task.replicas > 1 and floor >= task.replicas and not elastic:
        message = f"task {task.name} has {task.replicas} replicas, and needs {floor}"
        advice = "choose the fewest members that may train, for minAvailable here and in the Job"
        yield Finding(NO_ROOM, task.at, message, _line(task.at, "replicas"), advice=advice)


def _check_unset(gang: _Gang, *, elastic: bool) -> Iterator[Finding]:
    """The task's own floor is missing, and something else says that it is not its full size."""
    task = gang.task
    floor = gang.of_job
    if floor is None and elastic and gang.members:
        floor = gang.members[0]
    if floor is None or floor == task.replicas:
        return
    message = (
        f"task {task.name} has no minAvailable: it becomes {task.replicas},"
        f" where the floor is {floor}"
    )
    fixes: list[Change] = []
    if 1 <= floor < task.replicas:
        fixes = [SetValue(target(task.at, "minAvailable"), floor, after="replicas")]
        if gang.job.floor is None:
            whole = floor + gang.others
            fixes.append(SetValue(target(gang.job.spec, "minAvailable"), whole))
    line = _line(task.at, "replicas")
    advice = "" if fixes else f"the Job's minAvailable leaves {floor} for this task: choose one"
    yield Finding(UNSET, task.at, message, line, tuple(fixes), advice)


def _check_floors(gang: _Gang) -> Iterator[Finding]:
    """The floors that are there; where two of three agree, the third is wrong."""
    named = {
        "minAvailable of the Job": gang.of_job,
        "minAvailable of the task": gang.task.floor,
        "--nnodes": gang.members[0] if gang.members else None,
    }
    said = {name: number for name, number in named.items() if number is not None}
    numbers = list(said.values())
    if len(set(numbers)) < 2:
        return
    agreed = next((number for number in numbers if numbers.count(number) == 2), None)
    odd = next((name for name, number in said.items() if number != agreed), "")
    odd = odd if agreed is not None else list(said)[-1]
    at, line = _place(gang, odd)
    others = ", ".join(f"{name} says {number}" for name, number in said.items() if name != odd)
    message = f"{odd} says {said[odd]}, {others}"
    fix = _floor_fix(gang, odd, agreed) if agreed is not None else ()
    advice = "" if fix else "choose one floor, and write it in all places"
    yield Finding(DIFFER, at, message, line, fix, advice)


def _floor_fix(gang: _Gang, odd: str, floor: int) -> tuple[Change, ...]:
    if not 1 <= floor <= gang.task.replicas:
        return ()
    if odd == "minAvailable of the Job":
        return (SetValue(target(gang.job.spec, "minAvailable"), floor + gang.others),)
    if odd == "minAvailable of the task":
        return (SetValue(target(gang.task.at, "minAvailable"), floor),)
    flag = _nnodes(gang)
    if not flag or flag.written.count(flag.value) != 1 or not gang.members:
        return ()
    most = max(gang.members[1], floor)
    new = flag.written.replace(flag.value, f"{floor}:{most}" if most > floor else str(floor))
    return (ReplaceWords(target(flag.at), flag.written, new),)


def _place(gang: _Gang, name: str) -> tuple[Located, int]:
    flag = _nnodes(gang)
    if name == "--nnodes" and flag:
        return flag.at, flag.line
    owner = gang.task.at if name == "minAvailable of the task" else gang.job.spec
    said = owner.get("minAvailable") or owner
    return said, said.line


def _sizes(gang: _Gang, most: int) -> Finding:
    flag = _nnodes(gang)
    at, line = (flag.at, flag.line) if flag else (gang.task.at, gang.task.at.line)
    message = (
        f"--nnodes allows {most} members, task {gang.task.name} has {gang.task.replicas} replicas"
    )
    return Finding(SIZES, at, message, line, advice="write the full size in both places")


def _lacks_nnodes(gang: _Gang) -> bool:
    """Neither a flag nor anything that a shell or the environment could fill in for it."""
    launch = gang.launch
    if not launch or launch.launcher is Launcher.OTHER or "nnodes" in launch.flags:
        return False
    trainers = gang.task.template.trainers if gang.task.template else ()
    brought = any(container.at.get("envFrom") for container in trainers)
    return not brought and not any("$" in word for word in launch.words)


def _without_nnodes(gang: _Gang) -> Finding:
    assert gang.launch
    task, floor = gang.task, gang.of_job if gang.task.floor is None else gang.task.floor
    message = (
        f"--nnodes is missing, which means 1, and task {task.name} has {task.replicas} replicas"
    )
    advice = f"--nnodes={floor or 'MIN'}:{task.replicas}"
    return Finding(SIZES, gang.launch.at, message, gang.launch.line, advice=advice)


def _nnodes(gang: _Gang) -> Flag | None:
    return gang.launch.flags.get("nnodes") if gang.launch else None


def _line(at: Located, key: str) -> int:
    found = at.get(key)
    return found.line if found else at.line
