"""Everything that checkpoints can lie on, and what a test needs of each."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from everstep_checkpoint.storage import Storage
from support.s3 import S3, SITE, s3_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("s3") / "server.log") as running:
        yield running


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """With its variables in this process."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(SITE)
    return server


@pytest.fixture(params=["folder", "memory", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """memory: fsspec's own store, which has no conditional write of its own."""
    match request.param:
        case "folder":
            return str(tmp_path)
        case "memory":
            return f"memory://{uuid4().hex}"
        case _:
            found: S3 = request.getfixturevalue("s3")
            return found.root(uuid4().hex)


@pytest.fixture(params=["memory", "s3"])
def bucket_root(request: pytest.FixtureRequest) -> str:
    if request.param == "memory":
        return f"memory://{uuid4().hex}"
    found: S3 = request.getfixturevalue("s3")
    return found.root(uuid4().hex)


@pytest.fixture
def storage(root: str) -> Storage:
    return Storage(root)
