"""An undisturbed job on a machine that is kept busy by others."""

from pathlib import Path

import pytest
from bench.quiet import watch_undisturbed
from everstep_contract.facts.incident import IncidentOpened
from everstep_contract.facts.job import OrderIssued, VerdictReached

MINUTES = 1.0


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_a_job_on_busy_cores_is_left_alone(tmp_path: Path) -> None:
    events, _ = await watch_undisturbed(MINUTES, tmp_path)
    decided = (IncidentOpened, VerdictReached, OrderIssued)
    assert [event for event in events if isinstance(event, decided)] == []
