"""nats-server as a child process, and the inventory of several of them."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, closing
from pathlib import Path

import pytest
from everstep_bus.errors import ServerNotStartedError
from everstep_bus.nats import connect, connect_server_events
from everstep_bus.nats.config import ServerSettings, server_config
from everstep_bus.nats.credentials import (
    agent_seed_path,
    public_key,
    role_seed_path,
    system_seed_path,
)
from everstep_bus.nats.server import NatsServer, executable, main
from everstep_contract.clients import service_client_name
from everstep_contract.identity import JobKey
from support.messages import JOB
from support.polling import eventually


def settings(directory: Path, **changes: object) -> ServerSettings:
    return ServerSettings(directory / "server", directory / "credentials", **changes)  # type: ignore[arg-type]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(settings(tmp_path))
    server.start()
    yield server
    server.kill()


def answers(server: NatsServer) -> bool:
    host, port = server.url.removeprefix("nats://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        return connection.recv(4) == b"INFO"


def test_a_server_chooses_a_free_port_and_keeps_it_through_a_kill(server: NatsServer) -> None:
    url, pid = server.url, server.pid
    assert answers(server)
    server.kill()
    server.start()
    assert (server.url, answers(server)) == (url, True)
    assert server.pid != pid


def test_a_stopped_server_leaves_no_process_behind(server: NatsServer) -> None:
    pid = server.pid
    server.stop()
    assert not Path(f"/proc/{pid}").exists()


def test_a_port_in_use_is_said_so(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        server = NatsServer(settings(tmp_path, port=port))
        with pytest.raises(ServerNotStartedError, match="address already in use"):
            server.start()


def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys\n"
        "from everstep_bus.nats.config import ServerSettings\n"
        "from everstep_bus.nats.server import NatsServer\n"
        "directory = pathlib.Path(sys.argv[1])\n"
        "server = NatsServer(ServerSettings(directory / 's', directory / 'c'))\n"
        "server.start()\n"
        "print(server.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    asyncio.run(eventually(lambda: not alive(child)))


def alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and ") Z " not in status.read_text()


def test_credentials_are_readable_by_their_owner_only(server: NatsServer, tmp_path: Path) -> None:
    seeds = list((tmp_path / "credentials").iterdir())
    assert {seed.name for seed in seeds} >= {"everstep-adjudicator.nk", "everstep-system.nk"}
    assert {seed.stat().st_mode & 0o777 for seed in seeds} == {0o600}
    config = (tmp_path / "server" / "nats-server.conf").read_text()
    assert not any(seed.read_text().strip() in config for seed in seeds)


def test_the_files_for_a_server_elsewhere_can_be_written_without_starting_one(
    tmp_path: Path,
) -> None:
    directory, credentials = tmp_path / "server", tmp_path / "credentials"
    arguments = ["--directory", str(directory), "--credentials", str(credentials)]
    assert main([*arguments, "--job", str(JOB), "--write-only"]) == 0
    config = json.loads((directory / "nats-server.conf").read_text())
    users = {user["nkey"] for user in config["accounts"]["EVERSTEP"]["users"]}
    assert public_key(agent_seed_path(credentials, JOB)) in users


def test_a_job_that_is_none_is_refused_by_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--directory", str(tmp_path), "--credentials", str(tmp_path), "--job", "alone"])
    assert "'alone' is not NAMESPACE/NAME" in capsys.readouterr().err


def test_a_server_in_the_foreground_says_why_it_cannot_start(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        folders = ("--directory", str(tmp_path / "server"), "--credentials", str(tmp_path / "keys"))
        command = [sys.executable, "-m", "everstep_bus.nats.server", *folders, "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "address already in use" in done.stderr


def test_a_servers_folder_that_cannot_be_made_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--directory", "/proc/none", "--credentials", "/proc/none"])
    assert "'/proc/none'" in capsys.readouterr().err


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two servers that know each other; without JetStream, which needs three."""
    with ExitStack() as stack:
        one = stack.enter_context(Routed(tmp_path, "one", routes=[]))
        two = stack.enter_context(Routed(tmp_path, "two", routes=one.ports()["cluster"]))
        yield one.ports()["nats"][0], two.ports()["nats"][0]


class Routed:
    """One server of a cluster."""

    def __init__(self, directory: Path, name: str, *, routes: list[str]) -> None:
        self._directory = directory / name
        config = server_config(
            ServerSettings(self._directory, directory / "credentials", jobs=(JOB,))
        )
        del config["jetstream"], config["accounts"]["EVERSTEP"]["jetstream"]
        config["server_name"] = name
        config["cluster"] = {"name": "everstep", "listen": "127.0.0.1:-1", "routes": routes}
        self._directory.mkdir()
        self._config = self._directory / "conf"
        self._config.write_text(json.dumps(config))

    def __enter__(self) -> "Routed":
        self._process = subprocess.Popen([executable(), "-c", str(self._config)])
        asyncio.run(eventually(self._known))
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def ports(self) -> dict[str, list[str]]:
        [file] = self._directory.glob("*.ports")
        found: dict[str, list[str]] = json.loads(file.read_text())
        return found

    def _known(self) -> bool:
        try:
            return bool(self.ports()["nats"])
        except (ValueError, KeyError):
            return False


def test_r10_the_inventory_covers_every_server_of_a_cluster(
    cluster: tuple[str, str], tmp_path: Path
) -> None:
    asyncio.run(_inventory(cluster, tmp_path / "credentials"))


async def _inventory(cluster: tuple[str, str], credentials: Path) -> None:
    async with AsyncExitStack() as stack:
        for number, url in enumerate(cluster):
            for index in range(5):
                name = service_client_name("canary", f"{number}.{index}")
                seed = role_seed_path(credentials, "canary")
                await stack.enter_async_context(connect((url,), name, seed_path=seed))
        events = await stack.enter_async_context(
            connect_server_events(
                cluster[:1],
                service_client_name("node_watcher", "system"),
                seed_path=system_seed_path(credentials),
                page=2,
            )
        )

        async def complete() -> bool:
            found = await events.connections()
            canaries = [one for one in found if "canary" in one.name]
            return len(canaries) == 10 and len({one.server_id for one in canaries}) == 2

        await eventually(complete)


async def test_a_server_without_tls_is_not_taken_for_one_that_was_to_have_it(
    tmp_path: Path, server: NatsServer
) -> None:
    url = server.url.replace("nats://", "tls://")
    name = service_client_name("adjudicator", "1")
    seed = role_seed_path(tmp_path / "credentials", "adjudicator")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5), connect((url,), name, seed_path=seed):
            pytest.fail("it was")


def test_the_accounts_alone_are_what_the_whole_configuration_has(tmp_path: Path) -> None:
    folders = ["--directory", str(tmp_path / "server"), "--credentials", str(tmp_path / "c")]
    assert main([*folders, "--accounts-only", "--job", "training/llama"]) == 0
    written = json.loads((tmp_path / "server" / "accounts.json").read_text())
    whole = server_config(settings(tmp_path, jobs=(JobKey(namespace="training", name="llama"),)))
    assert written.keys() == {"accounts", "system_account"}
    assert not (tmp_path / "server" / "nats-server.conf").exists()
    assert written["accounts"].keys() == whole["accounts"].keys()
