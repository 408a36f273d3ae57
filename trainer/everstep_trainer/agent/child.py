"""What runs in a process that the zygote made: a worker's script, or a store host."""

import atexit
import faulthandler
import json
import os
import random
import runpy
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from everstep_trainer.agent.environment import STORE_PREFIX_VARIABLE
from everstep_trainer.agent.process import die_with, flush_streams, go_first, name_process
from everstep_trainer.agent.spawning import Program, StoreRequest, WorkerRequest, decode, encode
from everstep_trainer.link import WORKER_FD_VARIABLES

_LAUNCHER_FRAMES = (__file__, runpy.__file__, "<frozen runpy>")


def run(
    request: WorkerRequest | StoreRequest, program: Program, descriptors: tuple[int, ...]
) -> NoReturn:
    """Be the child until it ends; never returns into the code that forked it."""
    code = 1
    try:
        code = _run(request, program, descriptors)
    except BaseException as error:  # noqa: BLE001 - told, and never into the zygote's code
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        _leave(code)


def _run(
    request: WorkerRequest | StoreRequest, program: Program, descriptors: tuple[int, ...]
) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the agent's to handle
    if isinstance(request, StoreRequest):
        return _host_store(request.host, descriptors[0])
    _prepare_worker(request, descriptors)
    return run_program(program)


def _leave(code: int) -> NoReturn:
    """End as an interpreter does, but for the destruction of what was inherited."""
    threading._shutdown()  # type: ignore[attr-defined]  # as multiprocessing's children do
    atexit._run_exitfuncs()
    flush_streams()
    os._exit(code)


def _host_store(host: str, port_pipe: int) -> int:
    from everstep_trainer.backend.store import host_store  # imports torch: not in the agent

    name_process("everstep-store")
    go_first()
    store = host_store(host)
    os.write(port_pipe, f"{store.port}\n".encode())
    os.close(port_pipe)
    while True:
        signal.pause()


def _prepare_worker(request: WorkerRequest, descriptors: tuple[int, ...]) -> None:
    name_process("everstep-worker")
    for variable in request.unset:
        os.environ.pop(variable, None)
    os.environ.update(request.set)
    if STORE_PREFIX_VARIABLE in request.set:
        from everstep_trainer.agent.rendezvous import meet_on_the_generations_store  # has torch

        meet_on_the_generations_store()
    os.environ.update(zip(WORKER_FD_VARIABLES, map(str, descriptors), strict=True))
    _redirect(request.log_dir)
    faulthandler.enable()  # a crash in native code shows where the script was
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules and os.environ.get("OMP_NUM_THREADS", "").isdigit():
        sys.modules["torch"].set_num_threads(max(1, int(os.environ["OMP_NUM_THREADS"])))


def _redirect(log_dir: str) -> None:
    """Standard input is nobody's; output goes where the agent's goes, or into files."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if log_dir:
        Path(log_dir).mkdir(parents=True, exist_ok=True)
        for target, name in ((1, "stdout.log"), (2, "stderr.log")):
            file = os.open(Path(log_dir) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(file, target)
            os.close(file)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # whatever the agent had there
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]  # as `python -u` does


def run_program(program: Program) -> int:
    """Run the script as ``__main__``; its exit status, with the traceback told if it failed."""
    sys.argv = [program.target, *program.args]
    try:
        if program.module:
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(program.target, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(program.target).resolve().parent))
            runpy.run_path(program.target, run_name="__main__")
    except SystemExit as end:
        return _status(end.code)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it ends the process as in Python
        told = error.with_traceback(_own_frames(error.__traceback__))
        sys.excepthook(type(told), told, told.__traceback__)
        return 1
    return 0


def _status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the script's first frame on."""
    while traceback and traceback.tb_frame.f_code.co_filename in _LAUNCHER_FRAMES:
        traceback = traceback.tb_next
    return traceback


def spawn_arguments(
    request: WorkerRequest | StoreRequest, program: Program, descriptors: tuple[int, ...]
) -> list[str]:
    """The command line of a child that is spawned and not forked."""
    given = [encode(request).decode(), json.dumps(asdict(program)), json.dumps(descriptors)]
    return [sys.executable, "-m", __spec__.name, str(os.getpid()), *given]


def main(arguments: list[str]) -> NoReturn:
    """Be a spawned child."""
    parent, request, program, descriptors = arguments
    die_with(int(parent))
    asked = decode(request.encode())
    assert isinstance(asked, WorkerRequest | StoreRequest)
    run(asked, Program(**json.loads(program)), tuple(json.loads(descriptors)))


if __name__ == "__main__":
    main(sys.argv[1:])
