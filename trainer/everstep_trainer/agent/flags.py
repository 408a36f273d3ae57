"""The command line of `everstep run`: torchrun's flags, and what they mean here."""

import argparse
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final, NoReturn

from everstep_trainer.agent.spawning import Program

_NOT_NEEDED: Final = {
    "--node-rank": "ranks come with each generation",
    "--rdzv-backend": "members meet by Everstep's orders",
    "--rdzv-endpoint": "members meet by Everstep's orders",
    "--rdzv-conf": "members meet by Everstep's orders",
    "--master-addr": "the store's address comes with each generation",
    "--master-port": "the store's address comes with each generation",
    "--local-addr": "EVERSTEP_POD_IP says it",
    "--monitor-interval": "workers are watched by the kernel's word, not by polling",
    "--start-method": "workers are forked from a warm process",
    "--role": "a job has one role",
}
_COUNT: Final = re.compile(r"[0-9]{1,6}")


class UsageError(Exception):
    """A command line that cannot be meant."""


@dataclass(frozen=True)
class Command:
    """What the command line asks for. ``job`` is empty where the environment shall say it."""

    program: Program
    job: str
    namespace: str
    min_member: int
    max_member: int
    nproc_per_node: int
    max_restarts: int
    restart_rung: bool
    log_dir: str
    warnings: tuple[str, ...]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parse(argv: list[str], environ: Mapping[str, str]) -> Command:
    """The command of these arguments; ``PET_*`` variables give defaults, as for torchrun.

    Raises:
        UsageError: One sentence that says what is wrong with which flag.
    """
    given = _parser(environ).parse_args(argv)
    least, most = _members(given.nnodes)
    nproc = _workers(given.nproc_per_node, environ)
    if given.max_restarts < 0:
        raise UsageError(f"--max-restarts {given.max_restarts}: at least 0")
    return Command(
        program=_program(given.script, tuple(given.args), module=given.module),
        job=given.job or given.rdzv_id or "",
        namespace=given.namespace,
        min_member=least,
        max_member=most,
        nproc_per_node=nproc,
        max_restarts=given.max_restarts,
        restart_rung=given.rung == "restart",
        log_dir=given.log_dir,
        warnings=tuple(
            f"{flag} is not needed: {why}"
            for flag, why in _NOT_NEEDED.items()
            if getattr(given, flag[2:].replace("-", "_")) is not None
        ),
    )


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="everstep run",
        description="Run one member of a training job: its agent and its workers.",
        allow_abbrev=False,
    )

    needless = parser.add_argument_group("taken for torchrun's sake, and not needed")

    def flag(
        name: str, default: str | None, text: str, group: argparse._ArgumentGroup | None = None
    ) -> None:
        spelt = {name, "--" + name[2:].replace("-", "_")}
        variable = "PET_" + name[2:].upper().replace("-", "_")
        default = environ.get(variable, default)
        shown = f"{text} (default: %(default)s)" if default else text
        (group or parser).add_argument(*sorted(spelt), default=default, help=shown)

    flag("--nnodes", "1", "members: a number, or the least and the most as MIN:MAX")
    flag("--nproc-per-node", "1", "workers of this member: a number, cpu, gpu or auto")
    flag("--rdzv-id", None, "the job's name; --job goes first")
    flag("--job", None, "the job's name; else EVERSTEP_JOB_NAME")
    flag("--namespace", "", "the job's namespace; else EVERSTEP_JOB_NAMESPACE")
    flag("--log-dir", "", "write each worker's output to LOG_DIR/LOCAL_RANK/*.log")
    for name, why in _NOT_NEEDED.items():
        flag(name, None, why, needless)
    parser.add_argument(
        "--max-restarts",
        "--max_restarts",
        type=int,
        default=environ.get("PET_MAX_RESTARTS", "3"),
        help="deaths of workers in a row, without a step in between, that are made good"
        " (default: %(default)s)",
    )
    parser.add_argument(
        "--rung",
        choices=["in-process", "restart"],
        default="in-process",
        help="restart: start the script anew each generation, if it does not use Everstep"
        " (default: %(default)s)",
    )
    parser.add_argument("-m", "--module", action="store_true", help="run a module, as python -m")
    parser.add_argument("script", help="the training script, or the module")
    rest = parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")
    rest.required = False  # argparse would ask for them too when the script is missing
    return parser


def _members(nnodes: str) -> tuple[int, int]:
    bounds = nnodes.split(":")
    if len(bounds) > 2 or not all(_COUNT.fullmatch(bound) for bound in bounds):
        raise UsageError(f"--nnodes {nnodes}: a number of members, or MIN:MAX")
    least, most = int(bounds[0]), int(bounds[-1])
    if least < 1:
        raise UsageError(f"--nnodes {nnodes}: at least 1 member")
    if least > most:
        raise UsageError(f"--nnodes {nnodes}: the least, {least}, is above the most, {most}")
    return least, most


def _workers(nproc: str, environ: Mapping[str, str]) -> int:
    cpus, gpus = len(os.sched_getaffinity(0)), _gpus(environ)
    named = {"cpu": cpus, "gpu": gpus, "auto": gpus or cpus}
    if nproc not in named and not _COUNT.fullmatch(nproc):
        raise UsageError(f"--nproc-per-node {nproc}: a number of workers, cpu, gpu or auto")
    if nproc == "gpu" and not gpus:
        raise UsageError("--nproc-per-node gpu: no GPU found")
    count = named[nproc] if nproc in named else int(nproc)
    if not 1 <= count <= 1024:
        raise UsageError(f"--nproc-per-node {nproc}: {count} workers, not 1 to 1024")
    return count


def _gpus(environ: Mapping[str, str]) -> int:
    """Those that workers will see; counted without torch, which the agent never imports."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip()])
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def _program(target: str, args: tuple[str, ...], *, module: bool) -> Program:
    if not module:
        if not Path(target).is_file():
            why = "is no file" if Path(target).exists() else "does not exist"
            raise UsageError(f"script {target!r} {why}")
        return Program(str(Path(target).resolve()), args)
    if not _module_exists(target):
        raise UsageError(f"module {target!r} does not exist")
    return Program(target, args, module=True)


def _module_exists(name: str) -> bool:
    """Whether the interpreter would find it; finds without importing, packages included."""
    places: list[str] | None = [str(Path.cwd()), *sys.path]
    parts = name.split(".")
    for depth in range(len(parts)):
        spec = PathFinder.find_spec(".".join(parts[: depth + 1]), places)
        if spec is None:
            return False
        places = list(spec.submodule_search_locations or [])
    return True
