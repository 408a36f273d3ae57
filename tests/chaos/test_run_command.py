"""`everstep run` as a process: clear words for a user's mistake, and an agent without torch."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.agent_fleet import Fleet
from support.agent_home import FAKE_WORKER
from support.polling import eventually


@asynccontextmanager
async def running(
    *arguments: str, environment: dict[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command, killed at the end if it still runs."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("EVERSTEP_")}
    command = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "everstep_trainer.run",
        *arguments,
        env=clean | (environment or {}),
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield command
    finally:
        if command.returncode is None:
            command.kill()
        await command.wait()


async def complaint(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """How a command that cannot run ends, and what it says."""
    async with running(*arguments, environment=environment) as command:
        assert command.stderr is not None
        said = (await command.stderr.read()).decode()
        return await command.wait(), said


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port: int = closed.getsockname()[1]
        return port


SCRIPT = str(FAKE_WORKER)
MISTAKES = {
    "no members": (["--nnodes", "8:6", SCRIPT], {}, "the least, 8, is above the most, 6"),
    "no workers": (["--nproc-per-node", "0", SCRIPT], {}, "--nproc-per-node 0"),
    "no script": (["nowhere.py"], {}, "'nowhere.py' does not exist"),
    "a folder for a script": (["/proc"], {}, "script '/proc' is no file"),
    "no such flag": (["--fast", SCRIPT], {}, "--fast"),
    "no name": ([SCRIPT], {}, "the job has no name"),
    "a misspelt setting": (
        ["--job", "a", SCRIPT],
        {"EVERSTEP_NATS_ULR": "nats://127.0.0.1:1"},
        "did you mean EVERSTEP_NATS_URL?",
    ),
    "a bad setting": (
        ["--job", "a", SCRIPT],
        {"EVERSTEP_LEAVE_SECONDS": "soon"},
        "EVERSTEP_LEAVE_SECONDS='soon'",
    ),
    "an address that is not ours": (
        ["--job", "a", SCRIPT],
        {"EVERSTEP_POD_IP": "203.0.113.7"},
        "EVERSTEP_POD_IP=203.0.113.7",
    ),
    "an address that is none": (
        ["--job", "a", SCRIPT],
        {"EVERSTEP_POD_IP": "here"},
        "EVERSTEP_POD_IP=here",
    ),
    "credentials that are none": (
        ["--job", "a", SCRIPT],
        {"EVERSTEP_NATS_SEED_PATH": "/dev/null"},
        "/dev/null holds no nkey seed",
    ),
    "a port that is none": (
        ["--job", "a", SCRIPT],
        {"EVERSTEP_NATS_URL": "nats://127.0.0.1:x"},
        "EVERSTEP_NATS_URL='nats://127.0.0.1:x': 'nats://",
    ),
    "no folder for logs": (
        ["--job", "a", "--log-dir", "/proc/logs", SCRIPT],
        {},
        "--log-dir /proc/logs",
    ),
    "no folder for steps": (
        ["--job", "a", SCRIPT],
        {"EVERSTEP_STEP_LOG": "/proc/steps"},
        "EVERSTEP_STEP_LOG=/proc/steps",
    ),
    "no folder for checkpoints": (
        ["--job", "a", SCRIPT],
        {"EVERSTEP_CHECKPOINT_ROOT": "/nowhere"},
        "EVERSTEP_CHECKPOINT_ROOT=/nowhere: cannot write there",
    ),
    "a folder for checkpoints that cannot be written": (
        ["--job", "a", SCRIPT],
        {"EVERSTEP_CHECKPOINT_ROOT": "/proc/fs"},
        "EVERSTEP_CHECKPOINT_ROOT=/proc/fs: cannot write there",
    ),
    "no credentials": (
        ["--job", "a", SCRIPT],
        {"EVERSTEP_NATS_SEED_PATH": "/nowhere/agent.nk", "EVERSTEP_CONNECT_SECONDS": "1"},
        "/nowhere/agent.nk",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_ends_in_one_line_that_names_it(mistake: str) -> None:
    arguments, environment, words = MISTAKES[mistake]
    status, said = await complaint(*arguments, environment=environment)
    assert status == 2
    assert words in said
    assert said.startswith("everstep run: ")
    assert len(said.splitlines()) == 1


async def test_checkpoints_that_cannot_be_looked_for_end_it_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "default.a").write_text("no folder")
    root = {"EVERSTEP_CHECKPOINT_ROOT": str(tmp_path)}
    status, said = await complaint("--job", "a", SCRIPT, environment=root)
    assert status == 2
    assert f"EVERSTEP_CHECKPOINT_ROOT={tmp_path}: cannot look for checkpoints there" in said
    assert "Traceback" not in said


async def test_a_server_that_does_not_answer_is_named_in_the_end() -> None:
    url = f"nats://someone:secret@127.0.0.1:{free_port()}"
    environment = {"EVERSTEP_NATS_URL": url, "EVERSTEP_CONNECT_SECONDS": "0.5"}
    status, said = await complaint("--job", "a", SCRIPT, environment=environment)
    assert status == 2
    last = said.splitlines()[-1]
    assert "no NATS server answers at nats://***@127.0.0.1" in last
    assert "Traceback" not in said
    assert "zygote" not in said


async def test_an_interrupt_while_it_connects_ends_it_quietly() -> None:
    environment = {"EVERSTEP_NATS_URL": f"nats://127.0.0.1:{free_port()}"}
    async with running("--job", "a", SCRIPT, environment=environment) as command:
        assert command.stderr is not None
        await command.stderr.readline()  # it says that the server is not reached
        command.send_signal(signal.SIGINT)
        rest = await command.stderr.read()
        assert await command.wait() == 143
        assert b"Traceback" not in rest


async def test_an_agent_that_is_started_plainly_never_imports_torch(
    agents: Fleet, tmp_path: Path
) -> None:
    environment = agents.environment(EVERSTEP_POD_NAME="trainer-0")
    arguments = ("--nnodes", "1:1", SCRIPT, "steps", str(tmp_path))
    async with running(*arguments, environment=environment) as command:
        await eventually(lambda: agents.report(0) is not None, within_seconds=60)
        await agents.order(1, (0,))
        await eventually(lambda: agents.report(0).phase == "stepping")  # type: ignore[union-attr]
        (zygote,) = children(command.pid)
        assert "libtorch" not in maps(command.pid)
        assert "libtorch" in maps(zygote)


def children(pid: int) -> list[int]:
    """Processes that this one has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def maps(pid: int) -> str:
    """What a process has loaded."""
    return Path(f"/proc/{pid}/maps").read_text()
