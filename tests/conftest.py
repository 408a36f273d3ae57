"""Options of the test suite, and the ground it stands on."""

import signal
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("everstep", deadline=None)  # never on absolute time
hypothesis.settings.load_profile("everstep")

# Whatever a shell starts in the background is deaf to SIGINT, and so would be all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

SHORT_SIMULATION_SEEDS = 30
"""Histories of a run before a commit; `make sim SEEDS=n` asks for more."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds",
        type=int,
        default=SHORT_SIMULATION_SEEDS,
        help="how many simulated histories tests/sim runs",
    )
    parser.addoption(
        "--kubeconfig",
        type=Path,
        default=None,
        help="run tests/conformance on that cluster, not on a simulated one",
    )


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> int:
    """How many simulated histories to run."""
    return int(request.config.getoption("--seeds"))
