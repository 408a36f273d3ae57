"""One house of ranks for the session, emptied after each test."""

from collections.abc import Iterator

import pytest
from support.ranks import RankHouse


@pytest.fixture(scope="session")
def _house() -> Iterator[RankHouse]:
    with RankHouse() as house:
        yield house


@pytest.fixture
def house(_house: RankHouse) -> Iterator[RankHouse]:
    yield _house
    _house.end_ranks()
