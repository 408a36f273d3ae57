"""The template that simulated pods fork from, by the launcher's own client."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from everstep_simcluster.errors import LaunchError
from everstep_simcluster.launcher import PodCommand, TemplateLauncher
from support.agent_home import gone
from support.polling import eventually


def command(folder: Path, *argv: str, **environ: str) -> PodCommand:
    return PodCommand(
        argv=argv, env={"PATH": os.environ["PATH"], **environ}, cwd=folder, netns=None,
        log=folder / "log",
    )  # fmt: skip


async def test_a_pod_ends_with_its_own_status_and_writes_its_own_log(
    template_socket: Path, tmp_path: Path
) -> None:
    launcher = TemplateLauncher(template_socket)
    pod = await launcher.start(command(tmp_path, "everstep", "run", "nowhere.py"))
    assert await pod.wait() == 2
    assert "'nowhere.py' does not exist" in (tmp_path / "log").read_text()
    await launcher.close()


async def test_a_pod_has_its_own_environment_folder_and_session(
    template_socket: Path, tmp_path: Path
) -> None:
    launcher = TemplateLauncher(template_socket)
    (tmp_path / "train.py").touch()
    pod = await launcher.start(command(tmp_path, "everstep", "run", "train.py"))
    assert await pod.wait() == 2
    assert "the job has no name" in (tmp_path / "log").read_text()
    waiting = command(
        tmp_path,
        *("everstep", "run", "--job", "a", "train.py"),
        EVERSTEP_NATS_URL="nats://127.0.0.1:1",
    )
    pod = await launcher.start(waiting)
    await eventually(lambda: os.getsid(pod.pid) == pod.pid)
    await eventually(lambda: "bus not reached" in (tmp_path / "log").read_text())
    pod.send_signal(signal.SIGKILL)
    assert await pod.wait() == -signal.SIGKILL
    await launcher.close()


async def test_what_is_no_agent_is_refused(template_socket: Path, tmp_path: Path) -> None:
    launcher = TemplateLauncher(template_socket)
    with pytest.raises(LaunchError, match="not 'everstep run'"):
        await launcher.start(command(tmp_path, "sleep", "1"))
    await launcher.close()


async def test_a_client_that_hangs_up_takes_its_pods_with_it(
    template_socket: Path, tmp_path: Path
) -> None:
    launcher = TemplateLauncher(template_socket)
    (tmp_path / "train.py").touch()
    waiting = command(
        tmp_path,
        *("everstep", "run", "--job", "a", "train.py"),
        EVERSTEP_NATS_URL="nats://127.0.0.1:1",
    )
    pod = await launcher.start(waiting)
    async with asyncio.timeout(10):
        await launcher.close()
    await gone(pod.pid)
