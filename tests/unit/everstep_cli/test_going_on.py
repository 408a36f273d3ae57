"""EC-74: what an operator reads of a job that was given up."""

from datetime import UTC, datetime
from typing import cast

import pytest
from everstep_bus.memory import CALM, MemoryBroker, MemoryBus
from everstep_cli.going_on import UNASKED, to_go_on
from everstep_contract.examples import EXAMPLES
from everstep_contract.queries import LatestCheckpoint, LatestCheckpointReply
from everstep_contract.record import CheckpointRecord
from everstep_contract.verdicts import GiveUp
from support.jobs import member, record
from support.virtual_time import in_virtual_time

GIVEN_UP = record(7, (member(0),), verdict=GiveUp(), phase="ended")
NEWEST = cast("LatestCheckpointReply", EXAMPLES[LatestCheckpointReply.TYPE]).record


def broker() -> MemoryBroker:
    return MemoryBroker(CALM, now=lambda: datetime.now(UTC))


@pytest.mark.parametrize(
    ("newest", "said"),
    [
        (NEWEST, "it would begin at step 12000, from g7-s12000 (not read back yet)"),
        (None, "it has no checkpoint, and would begin at step 0"),
    ],
)
def test_ec74_it_says_from_where_the_job_would_go_on_and_how(
    newest: CheckpointRecord | None, said: str
) -> None:
    async def answer(_query: LatestCheckpoint) -> LatestCheckpointReply:
        return LatestCheckpointReply(record=newest)

    @in_virtual_time
    async def live() -> None:
        here = broker()
        indexer = MemoryBus(here, "everstep.checkpoint_indexer.1")
        async with indexer.answer(LatestCheckpoint, answer):
            hint = await to_go_on(MemoryBus(here, "everstep.operator.1"), GIVEN_UP)
        assert hint.startswith(said)
        assert f"delete jobs.batch.volcano.sh {GIVEN_UP.job.name}" in hint

    live()


@in_virtual_time
async def test_ec74_without_an_indexer_it_says_where_to_look() -> None:
    hint = await to_go_on(MemoryBus(broker(), "everstep.operator.1"), GIVEN_UP)
    assert hint.startswith(UNASKED)


@in_virtual_time
async def test_a_job_that_runs_needs_no_way_to_go_on() -> None:
    assert await to_go_on(MemoryBus(broker(), "everstep.operator.1"), record(7, (member(0),))) == ""
