"""A real nats-server as a child process: the embedded default, and what tests run against.

``python -m everstep_bus.nats.server --directory DIR --credentials DIR --job NAMESPACE/NAME``
runs one in the foreground.
"""

import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from everstep_contract.identity import JobKey

from everstep_bus.errors import ServerNotStartedError
from everstep_bus.nats.config import (
    ANY_PORT,
    ServerSettings,
    accounts_config,
    log_path,
    server_config,
)

START_SECONDS: Final = 15.0
STOP_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.01
START_ATTEMPTS: Final = 5
RETRY_SECONDS: Final = 0.6
"""Between attempts: a client that tries to reconnect may, on loopback, connect to itself and so
occupy the very port for as long as it waits for a server's hello (2 s)."""
PR_SET_PDEATHSIG: Final = 1
RELOADED: Final = b"Reloaded server configuration"


class NatsServer:
    """One nats-server on one directory; killed and started again, it keeps its port and store."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients connect; known once it was started."""
        assert self._settings.port != ANY_PORT
        return f"nats://{self._settings.host}:{self._settings.port}"

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it takes connections; it dies with the thread that called.

        Raises:
            ServerNotStartedError: There is no nats-server, or it ended, or it took too long.
        """
        assert self._process is None, "it is running"
        for attempt in range(1, START_ATTEMPTS + 1):
            self._process = self._spawn()
            try:
                self._settings = replace(self._settings, port=self._await_port())
            except ServerNotStartedError:
                self.kill()
                if attempt == START_ATTEMPTS:
                    raise
                time.sleep(RETRY_SECONDS)
            else:
                return

    def stop(self) -> None:
        """Ask it to end, and kill it if it does not."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, as a lost machine does."""
        self._end(signal.SIGKILL)

    def admit(self, job: JobKey) -> None:
        """Admit the agents of one more job, without a restart."""
        if job not in self._settings.jobs:
            self._settings = replace(self._settings, jobs=(*self._settings.jobs, job))
            write_config(self._settings)
            if self._process is not None:
                self.reload()

    def reload(self) -> None:
        """Make the running server read its configuration again, and wait until it has.

        Raises:
            ServerNotStartedError: It did not in time; its log says why.
        """
        assert self._process is not None
        read_before = self._log_path.stat().st_size
        self._process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + START_SECONDS
        while RELOADED not in self._log_path.read_bytes()[read_before:]:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise ServerNotStartedError(why=self._last_words())
            time.sleep(LOOK_SECONDS)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._ports_file(self._process.pid).unlink(missing_ok=True)
        self._process = None

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [executable(), "-c", str(write_config(self._settings))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with(os.getpid()),  # two system calls, no lock taken
        )

    def _await_port(self) -> int:
        """The port that the server itself chose and wrote down."""
        assert self._process is not None
        ports_file = self._ports_file(self._process.pid)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise ServerNotStartedError(why=self._last_words())
            try:
                return int(json.loads(ports_file.read_text())["nats"][0].rpartition(":")[2])
            except (FileNotFoundError, json.JSONDecodeError):
                time.sleep(LOOK_SECONDS)
        raise ServerNotStartedError(why=f"not ready within {START_SECONDS:g} s")

    def _ports_file(self, pid: int) -> Path:
        return self._settings.directory / f"{Path(executable()).name}_{pid}.ports"

    @property
    def _log_path(self) -> Path:
        return log_path(self._settings)

    def _last_words(self) -> str:
        log = self._log_path
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return lines[-1] if lines else "it ended without a word"


def write_config(settings: ServerSettings) -> Path:
    """Write the configuration, and credentials that are missing; returns the file."""
    return _write(settings.directory / "nats-server.conf", server_config(settings))


def write_accounts(settings: ServerSettings) -> Path:
    """Write the accounts alone, for the ``include`` of a configuration that somebody else keeps."""
    return _write(settings.directory / "accounts.json", accounts_config(settings))


def _write(path: Path, config: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(config, indent=1))
    return temporary.replace(path)


def executable() -> str:
    """Where nats-server is: beside the interpreter (the ``local`` extra), or on the path.

    Raises:
        ServerNotStartedError: Nowhere.
    """
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise ServerNotStartedError(why="nats-server is not installed (extra 'local')")
    return found


def _die_with(parent: int) -> Callable[[], None]:
    """What the child does first: it shall end when its parent does, and now if that has ended."""
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def main(arguments: list[str] | None = None) -> int:
    """Run one server in the foreground, or only write its configuration and credentials."""
    parser = argparse.ArgumentParser(prog="python -m everstep_bus.nats.server")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--credentials", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=4222)
    parser.add_argument(
        "--job", action="append", default=[], type=_job_key, metavar="NAMESPACE/NAME"
    )
    parser.add_argument("--write-only", action="store_true", help="write the files and end")
    parser.add_argument(
        "--accounts-only", action="store_true", help="write accounts.json and credentials, and end"
    )
    options = parser.parse_args(arguments)
    settings = ServerSettings(
        options.directory,
        options.credentials,
        options.host,
        options.port,
        tuple(options.job),
    )
    try:
        write = write_accounts if options.accounts_only else write_config
        config = write(settings)
    except OSError as error:
        parser.error(str(error))
    if not (options.write_only or options.accounts_only):
        command = [executable(), "-c", str(config), "--log", "/dev/stderr"]
        os.execv(command[0], command)  # noqa: S606  # none is wanted
    return 0


def _job_key(text: str) -> JobKey:
    namespace, slash, name = text.partition("/")
    if not slash:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return JobKey(namespace=namespace, name=name)


if __name__ == "__main__":
    sys.exit(main())
