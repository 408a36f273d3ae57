"""What the loss of members or workers costs, and what waits until a loss is certain."""

import pytest
from sim.running import running
from sim.world import World
from support.virtual_time import in_virtual_time


@in_virtual_time
async def test_a_dead_worker_costs_no_member() -> None:
    async with running() as world:
        world.members[1].kill_worker(0)
        await world.go_on(0.2)
        await world.steps(members=4)
        assert world.verdicts() == ["form", "restart_workers"]
        assert world.ledger.steps_lost == 0


@in_virtual_time
async def test_ec20_a_member_that_is_drained_takes_nobody_with_it() -> None:
    async with running(members=3, min_member=2) as world:
        world.members[2].terminate()
        await world.steps(members=2)
        await world.go_on(15)
        world.start_member(2)
        await world.steps(members=3)
        assert world.verdicts() == ["form", "shrink", "grow"]


@in_virtual_time
async def test_ec43_thirty_deaths_in_three_seconds_are_few_generations() -> None:
    async with running(members=32, min_member=2) as world:
        for index in range(2, 32):
            world.crash(index)
            await world.go_on(0.1)
        await world.steps(members=2, within_seconds=40)
        assert len(world.verdicts()) <= 12


@in_virtual_time
async def test_r20_below_the_floor_no_step_is_taken_until_a_replacement_is_there() -> None:
    async with running(members=4, min_member=4) as world:
        world.crash(3)
        await world.go_on(3)
        steps = world.ledger.highest_step
        await world.go_on(20)
        assert world.ledger.highest_step == steps
        world.start_member(3)
        await world.steps(members=4)
        assert world.verdicts() == ["form", "await_replacement", "grow"]
        assert world.ledger.steps_lost == 0


@in_virtual_time
async def test_r21_all_gone_in_silence_nothing_is_formed_until_there_is_proof() -> None:
    async with running(members=2, min_member=1) as world:
        nodes = [world.members[index].member.node for index in (0, 1)]
        for index in (0, 1):
            world.power_off(index)
        await world.go_on(2)
        for index in (2, 3):
            world.start_member(index)
        await world.go_on(60)
        assert world.verdicts() == ["form"]
        await world.fence(nodes[1])
        await world.steps(members=2)


@in_virtual_time
async def test_r21_a_generation_cut_off_from_the_bus_is_never_doubled() -> None:
    async with running(members=2, min_member=1) as world:
        for index in (0, 1):
            world.cut_bus(index)
        world.start_member(2)
        world.start_member(3)
        await world.go_on(60)
        assert world.verdicts() == ["form"]
        for index in (0, 1):
            world.mend_bus(world.members[index])
        await world.go_on(10)
        assert world.verdicts() == ["form"]


@in_virtual_time
async def test_r22_survivors_a_step_apart_agree_on_the_newest() -> None:
    for hundredths in range(0, 40, 8):
        async with running(members=4, min_member=2) as world:
            await world.go_on(hundredths / 100)
            world.crash(3)
            await world.steps(members=3)
            assert world.ledger.steps_lost == 0


def crash_all(world: World) -> int:
    """Every member at one instant; the generation that ended so."""
    record = world.record()
    assert record is not None
    for index in range(len(record.seats)):
        world.crash(index)
    return record.generation


@pytest.mark.parametrize("away_seconds", [0.0, 0.5, 3.0, 30.0])
def test_a_whole_job_that_died_at_once_begins_anew_as_a_whole(away_seconds: float) -> None:
    @in_virtual_time
    async def history() -> None:
        async with running(members=4, min_member=3) as world:
            generation = crash_all(world)
            await world.go_on(away_seconds)
            for index in range(4):
                world.start_member(index)
                await world.go_on(0.3)
            await world.steps(members=4, after=generation)
            await world.quiet()
            assert world.verdicts() == ["form", "await_replacement", "form"]

    history()


@in_virtual_time
async def test_a_whole_job_that_died_does_not_wait_for_ever_for_its_last_member() -> None:
    async with running(members=4, min_member=3) as world:
        generation = crash_all(world)
        for index in range(3):
            world.start_member(index)
        await world.steps(members=3, after=generation)
        assert world.verdicts()[-1] == "form"
