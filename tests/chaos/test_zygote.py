"""The zygote: what it forks, what it spawns instead, and that nothing outlives its agent."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from everstep_trainer.agent import spawning
from everstep_trainer.agent.spawning import (
    MAX_DESCRIPTORS,
    Ended,
    Packet,
    Program,
    Ready,
    Started,
    WorkerRequest,
)
from everstep_trainer.agent.zygote import Zygote, start_zygote
from support.agent_home import gone


@contextmanager
def zygote_of(folder: Path, text: str, preload: tuple[str, ...] = ()) -> Iterator[Zygote]:
    script = folder / "train.py"
    script.write_text(text)
    zygote = start_zygote(Program(str(script), ("--x",)), preload)
    try:
        yield zygote
    finally:
        zygote.control.close()
        os.waitpid(zygote.pid, 0)


def hear(zygote: Zygote) -> tuple[Packet, tuple[int, ...]]:
    ready, _, _ = select.select([zygote.control], [], [], 60)
    assert ready, "the zygote says nothing"
    heard = spawning.receive(zygote.control)
    assert heard is not None, "the zygote ended"
    return heard


def start(zygote: Zygote, request: WorkerRequest) -> Started:
    ours, theirs = socket.socketpair()
    spawning.send(zygote.control, request, (theirs.fileno(),) * MAX_DESCRIPTORS)
    ours.close()
    theirs.close()
    started, descriptors = hear(zygote)
    for descriptor in descriptors:
        os.close(descriptor)
    assert isinstance(started, Started)
    return started


def test_a_worker_gets_its_changes_of_the_environment_and_its_log(tmp_path: Path) -> None:
    os.environ["STALE_RANK"] = "3"
    text = "import os, sys; print(os.environ['FRESH'], 'STALE_RANK' in os.environ, sys.argv[1:])"
    with zygote_of(tmp_path, text) as zygote:
        assert isinstance(hear(zygote)[0], Ready)
        log = tmp_path / "logs" / "0"
        request = WorkerRequest(1, {"FRESH": "yes"}, ("STALE_RANK",), str(log))
        start(zygote, request)
        assert hear(zygote)[0] == Ended(1, 0, None)
    del os.environ["STALE_RANK"]
    assert (log / "stdout.log").read_text() == "yes False ['--x']\n"


def test_a_zygote_that_has_threads_spawns_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    (tmp_path / "starts_a_thread.py").write_text(f"import threading\n{wait}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "import sys; print('starts_a_thread' in sys.modules, sys.argv[1:])"
    with zygote_of(tmp_path, text, ("starts_a_thread",)) as zygote:
        ready, _ = hear(zygote)
        assert isinstance(ready, Ready)
        assert ready.why_spawn == "2 threads"
        start(zygote, WorkerRequest(1, log_dir=str(tmp_path)))
        assert hear(zygote)[0] == Ended(1, 0, None)
    assert (tmp_path / "stdout.log").read_text() == "False ['--x']\n"


def test_workers_do_not_share_their_random_numbers(tmp_path: Path) -> None:
    with zygote_of(tmp_path, "import random; print(random.random())") as zygote:
        hear(zygote)
        for rank in (1, 2):
            start(zygote, WorkerRequest(rank, log_dir=str(tmp_path / str(rank))))
            assert hear(zygote)[0] == Ended(rank, 0, None)
    drawn = [(tmp_path / rank / "stdout.log").read_text() for rank in ("1", "2")]
    assert drawn[0] != drawn[1]


def test_a_worker_ends_with_its_exit_handlers_and_the_signal_that_killed_it(
    tmp_path: Path,
) -> None:
    text = (
        "import atexit, os, signal; atexit.register(print, 'handled'); "
        "os.environ.get('DIE') and os.kill(os.getpid(), signal.SIGKILL)"
    )
    with zygote_of(tmp_path, text) as zygote:
        hear(zygote)
        start(zygote, WorkerRequest(1, log_dir=str(tmp_path)))
        assert hear(zygote)[0] == Ended(1, 0, None)
        start(zygote, WorkerRequest(2, {"DIE": "1"}, log_dir=str(tmp_path)))
        assert hear(zygote)[0] == Ended(2, None, signal.SIGKILL)
    assert (tmp_path / "stdout.log").read_text() == "handled\n"


def test_a_worker_whose_log_cannot_be_written_says_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").touch()
    with zygote_of(tmp_path, "") as zygote:
        hear(zygote)
        start(zygote, WorkerRequest(1, log_dir=str(tmp_path / "taken")))
        assert hear(zygote)[0] == Ended(1, 1, None)
    assert "FileExistsError" in capfd.readouterr().err


AGENT = """
import os, sys, time
from everstep_trainer.agent import spawning
from everstep_trainer.agent.spawning import Program, WorkerRequest
from everstep_trainer.agent.zygote import start_zygote
zygote = start_zygote(Program(sys.argv[1]), ())
zygote.control.settimeout(60)
spawning.receive(zygote.control)
null = os.open(os.devnull, os.O_RDWR)
spawning.send(zygote.control, WorkerRequest(1), (null,) * spawning.MAX_DESCRIPTORS)
started, _ = spawning.receive(zygote.control)
print(zygote.pid, started.pid, flush=True)
time.sleep(3600)
"""


async def test_a_killed_agent_takes_its_zygote_and_its_workers_with_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time; time.sleep(3600)")
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", AGENT, str(script), stdout=subprocess.PIPE
    )
    assert agent.stdout is not None
    pids = [int(pid) for pid in (await agent.stdout.readline()).split()]
    agent.kill()
    await agent.wait()
    assert len(pids) == 2
    for pid in pids:
        await gone(pid)
