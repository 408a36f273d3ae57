"""The cluster as a process of its own: its ready line, and that nothing outlives it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from support.polling import eventually
from support.simcluster import NAMESPACE, pod_manifest

STUBBORN = ("sh", "-c", "trap '' TERM; sleep 1000 & while :; do sleep 1; done")
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Process:
    """A running cluster and what its ready line said."""

    def __init__(self, *flags: str) -> None:
        command = [sys.executable, "-m", "everstep_simcluster", "--namespaces", NAMESPACE]
        self.popen = subprocess.Popen(
            [*command, "--nodes", "2", "--heartbeat-seconds", "0.1", *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.popen.stdout is not None
        self.ready: dict[str, Any] = json.loads(self.popen.stdout.readline() or "{}")

    def close(self) -> None:
        """End it if it has not ended."""
        self.popen.kill()
        self.popen.wait(20)
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def leftover_paths(self) -> list[str]:
        """What of its namespaces and files is there."""
        paths = [*(node["netns"] for node in self.ready["nodes"]), self.ready["folder"]]
        return [path for path in paths if path and Path(path).exists()]

    @property
    def pids(self) -> set[int]:
        children = psutil.Process(self.popen.pid).children(recursive=True)
        return {child.pid for child in children}


@pytest.fixture
def process() -> Iterator[Process]:
    process = Process("--networks", "auto", "--until-stdin-ends")
    yield process
    process.close()


async def start_pod(session: aiohttp.ClientSession) -> None:
    manifest = pod_manifest("one", STUBBORN, nodeName="node-0")
    async with session.post(PODS, json=manifest) as response:
        assert response.status == 201

    async def is_running() -> bool:
        async with session.get(f"{PODS}/one") as response:
            return bool((await response.json())["status"]["phase"] == "Running")

    await eventually(is_running)


async def all_gone(process: Process, pids: set[int]) -> None:
    await eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    await eventually(lambda: not process.leftover_paths)


async def test_the_ready_line_says_where_everything_is(process: Process) -> None:
    assert process.ready["pid"] == process.popen.pid
    assert [node["name"] for node in process.ready["nodes"]] == ["node-0", "node-1"]
    async with (
        aiohttp.ClientSession(process.ready["url"]) as session,
        session.get("/everstep-sim/state") as response,
    ):
        state = await response.json()
    assert state == {key: process.ready[key] for key in state}


async def test_it_ends_with_everything_when_its_input_ends(process: Process) -> None:
    async with aiohttp.ClientSession(process.ready["url"]) as session:
        await start_pod(session)
    pids = process.pids
    assert process.popen.stdin is not None
    process.popen.stdin.close()
    assert process.popen.wait(20) == 0
    await all_gone(process, pids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_nothing_outlives_it_even_when_it_is_killed(
    number: signal.Signals, process: Process
) -> None:
    async with aiohttp.ClientSession(process.ready["url"]) as session:
        await start_pod(session)
    pids = process.pids
    os.kill(process.popen.pid, number)
    process.popen.wait(20)
    await all_gone(process, pids)


def test_a_wrong_setting_is_one_line_on_stderr() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "everstep_simcluster", "--networks", "magic"],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "everstep_simcluster: networks 'magic'; possible: ('auto', 'namespaces', 'none')"
    ]
