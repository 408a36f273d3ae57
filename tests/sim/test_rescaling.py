"""Rescales through crashes of whoever has a part in them: EC-09, EC-19, R5, R6."""

import pytest
from everstep_bus.errors import QueryRefusedError
from everstep_contract.rescaling import JobSize
from sim.running import incarnations, running
from sim.world import World
from support.virtual_time import in_virtual_time


async def over(world: World, stage: str, within_seconds: float = 60) -> None:
    """Until the wish has ended so."""

    def ended() -> bool:
        record = world.record()
        return bool(record and record.rescale and record.rescale.stage == stage)

    await world.until(ended, within_seconds=within_seconds, what=f"the wish is {stage}")


@in_virtual_time
async def test_ec09_a_smaller_and_a_larger_size_cost_no_step() -> None:
    async with running() as world:
        await world.rescale(2)
        await over(world, "done")
        assert incarnations(world) == ["trainer-0.1", "trainer-1.1"]
        await world.rescale(4)
        await world.steps(members=4)
        assert world.ledger.steps_lost == 0
        assert world.incidents() == []


@in_virtual_time
async def test_ec09_a_dead_low_index_is_made_anew_and_only_the_highest_go() -> None:
    async with running(min_member=1) as world:
        world.crash(1)
        await world.steps(members=3)
        await world.rescale(2, 1)
        await over(world, "done")
        assert incarnations(world) == ["trainer-0.1"]
        await world.steps(members=2)
        assert incarnations(world) == ["trainer-0.1", "trainer-1.2"]
        assert world.ledger.steps_lost == 0


@in_virtual_time
async def test_r6_an_adjudicator_that_dies_between_move_and_change_is_followed() -> None:
    async with running() as world:
        await world.rescale(2)
        await world.steps(members=2)
        world.kill_service("adjudicator")
        await world.go_on(5)
        assert world.job.size.replicas == 2
        world.start_service("adjudicator")
        await over(world, "done")
        await world.go_on(20)
        assert incarnations(world) == ["trainer-0.1", "trainer-1.1"]


@in_virtual_time
async def test_r8_a_rescaler_that_dies_at_any_call_changes_the_job_once() -> None:
    for calls in range(2, 12):
        async with running() as world:
            world.kill_service("rescaler")
            world.start_service("rescaler", die_at=calls, after=True)
            await world.rescale(2)
            await world.go_on(4)
            if "rescaler" not in world.services:
                world.start_service("rescaler")
            await over(world, "done")
            assert sum("the Job has" in line for line in world.ledger.lines) == 1


@in_virtual_time
async def test_a_member_that_dies_in_the_middle_of_a_rescale_leaves_the_others_whole() -> None:
    async with running() as world:
        await world.rescale(3)
        world.crash(1)
        await over(world, "done")
        assert incarnations(world) == ["trainer-0.1", "trainer-2.1"]
        world.start_member(1)
        await world.steps(members=3)
        assert world.ledger.steps_lost == 0


@in_virtual_time
async def test_ec19_a_denied_change_seats_everybody_again() -> None:
    async with running() as world:
        world.job.denial = "admission webhook denied the request"
        await world.rescale(2)
        await over(world, "refused")
        await world.steps(members=4)
        record = world.record()
        assert record is not None
        assert record.rescale is not None
        assert "admission webhook denied the request" in record.rescale.detail
        assert world.job.size == JobSize(replicas=4, min_available=2)
        assert world.ledger.steps_lost == 0


@in_virtual_time
async def test_a_second_wish_waits_for_the_first() -> None:
    async with running() as world:
        await world.rescale(3)
        with pytest.raises(QueryRefusedError, match="is under way"):
            await world.rescale(2)
        await over(world, "done")
        await world.rescale(2)
        await over(world, "done")
