"""Pods whose command begins with the prefix are forked by a template server."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.errors import LaunchError
from everstep_simcluster.launcher import PodCommand, TemplateLauncher
from everstep_simcluster.resources import PODS
from everstep_simcluster.settings import ClusterSettings
from support.polling import eventually
from support.simcluster import NAMESPACE, phases, pod_manifest

SERVER = Path(__file__).parents[2] / "support" / "template_server.py"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, str(SERVER), str(tmp_path / "socket")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        yield process
        process.kill()


def command(tmp_path: Path, *argv: str) -> PodCommand:
    env = {"PATH": "/usr/bin:/bin", "GREETING": "hello"}
    return PodCommand(argv=argv, env=env, cwd=tmp_path, netns=None, log=tmp_path / "log")


@pytest.mark.usefixtures("server")
async def test_a_forked_process_has_its_environment_log_and_exit_code(tmp_path: Path) -> None:
    launcher = TemplateLauncher(tmp_path / "socket")
    process = await launcher.start(command(tmp_path, "sh", "-c", "echo $GREETING; exit 5"))
    assert await process.wait() == 5
    assert (tmp_path / "log").read_text() == "hello\n"
    await launcher.close()


@pytest.mark.usefixtures("server")
async def test_many_start_at_once_and_each_end_is_told_apart(tmp_path: Path) -> None:
    launcher = TemplateLauncher(tmp_path / "socket")
    processes = await asyncio.gather(
        *(launcher.start(command(tmp_path, "sh", "-c", f"exit {code}")) for code in range(6))
    )
    assert await asyncio.gather(*(process.wait() for process in processes)) == list(range(6))
    await launcher.close()


@pytest.mark.usefixtures("server")
async def test_a_signal_reaches_the_forked_process(tmp_path: Path) -> None:
    launcher = TemplateLauncher(tmp_path / "socket")
    process = await launcher.start(command(tmp_path, "sleep", "1000"))
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == -signal.SIGTERM
    await launcher.close()


@pytest.mark.usefixtures("server")
async def test_a_refusal_of_the_server_is_a_launch_error(tmp_path: Path) -> None:
    launcher = TemplateLauncher(tmp_path / "socket")
    nowhere = PodCommand(("true",), {}, tmp_path / "nowhere", None, tmp_path / "log")
    with pytest.raises(LaunchError, match="no folder"):
        await launcher.start(nowhere)
    await launcher.close()


async def test_an_absent_server_is_a_launch_error(tmp_path: Path) -> None:
    with pytest.raises(LaunchError):
        await TemplateLauncher(tmp_path / "nobody").start(command(tmp_path, "true"))


async def test_processes_of_a_server_that_dies_count_as_killed(
    tmp_path: Path, server: subprocess.Popen[str]
) -> None:
    launcher = TemplateLauncher(tmp_path / "socket")
    process = await launcher.start(command(tmp_path, "sleep", "1000"))
    server.kill()
    assert await process.wait() == -signal.SIGKILL
    psutil.Process(process.pid).kill()
    await launcher.close()


async def test_a_cluster_forks_what_has_the_prefix_and_execs_the_rest(
    tmp_path: Path, server: subprocess.Popen[str]
) -> None:
    settings = ClusterSettings(
        nodes=1, networks="none", namespaces=(NAMESPACE,), template_socket=tmp_path / "socket",
        template_prefix=("sleep",),
    )  # fmt: skip
    async with Cluster(settings) as cluster:
        for name, argv in {
            "forked": ("sleep", "999"),
            "fresh": ("tail", "-f", "/dev/null"),
        }.items():
            cluster.objects.create(PODS, NAMESPACE, pod_manifest(name, argv))
        await cluster.wait_for(lambda: set(phases(cluster).values()) == {"Running"})
        children = psutil.Process(server.pid).children()
        await eventually(lambda: [c.cmdline() for c in children] == [["sleep", "999"]])
    await eventually(lambda: not any(child.is_running() for child in children))
