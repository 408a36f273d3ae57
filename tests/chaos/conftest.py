"""One template server for all tests here: agents fork from it in milliseconds."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.agent_fleet import Fleet, fleet, template


@pytest.fixture(scope="session")
def template_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a template server listens."""
    with template(tmp_path_factory.mktemp("template")) as socket:
        yield socket


@pytest.fixture
async def agents(tmp_path: Path, template_socket: Path) -> AsyncIterator[Fleet]:
    """A server of its own, and no agent yet."""
    async with fleet(tmp_path, template_socket) as found:
        yield found
