"""A real S3 API on loopback: moto's server as a process, and the variables by which to reach it."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SITE = Path(sys.prefix) / "s3"
"""Where `make setup` puts tests/s3.txt, beside all else."""
BUCKET = "everstep-tests"
START_SECONDS = 30


def python_path() -> str:
    """Where a process finds the library for S3, and all that this one finds."""
    return os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(SITE)]))


@dataclass
class S3:
    """A server, and one bucket on it."""

    process: "subprocess.Popen[bytes]"
    url: str

    @property
    def variables(self) -> dict[str, str]:
        """By which every process finds it, and the library for it."""
        return {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_MAX_ATTEMPTS": "1",
            "PYTHONPATH": python_path(),
        }

    def root(self, name: str) -> str:
        """Of checkpoints that no other test has."""
        return f"s3://{BUCKET}/{name}"

    def stop(self) -> None:
        """From now on nothing answers."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def s3_server(log: Path) -> Iterator[S3]:
    """Running while the context is open; skips where it is not installed."""
    if not SITE.is_dir():
        pytest.skip(f"no S3 server in {SITE}: make setup installs it")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-p", str(port)],
            env={**os.environ, "PYTHONPATH": str(SITE)},
            stdout=out,
            stderr=out,
        )
    server = S3(process, f"http://127.0.0.1:{port}")
    try:
        _make_bucket(server, log)
        yield server
    finally:
        server.stop()


def _make_bucket(server: S3, log: Path) -> None:
    """As soon as it answers."""
    deadline = time.monotonic() + START_SECONDS
    request = urllib.request.Request(f"{server.url}/{BUCKET}", method="PUT")  # noqa: S310
    while True:
        try:
            with urllib.request.urlopen(request, timeout=START_SECONDS):  # noqa: S310
                return
        except urllib.error.URLError:
            assert server.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
