"""A generation forms, though a worker sticks, a member is deaf, or another dies meanwhile."""

import pytest
from sim.running import incarnations, running
from support.virtual_time import in_virtual_time


@in_virtual_time
async def test_r16_ec12_a_worker_that_does_not_leave_is_killed_and_comes_back() -> None:
    async with running() as world:
        world.members[1].stick()
        world.crash(3)
        await world.steps(members=3, within_seconds=60)
        assert "trainer-1.1" in incarnations(world)


@pytest.mark.parametrize("victim", [0, 1, 2, 3])
def test_r17_ec11_whoever_dies_the_store_lives_on_elsewhere(victim: int) -> None:
    @in_virtual_time
    async def history() -> None:
        async with running() as world:
            world.crash(victim)
            await world.steps(members=3)
            record = world.record()
            assert record is not None
            assert record.store_host in record.incarnations

    history()


@in_virtual_time
async def test_r17_a_store_host_that_dies_while_forming_is_replaced() -> None:
    async with running(members=5, min_member=2) as world:
        world.crash(4)
        await world.go_on(0.015)
        world.crash(0)
        await world.steps(members=3)


@in_virtual_time
async def second_death(after_seconds: float, *, silent: bool) -> None:
    async with running(members=5, min_member=2) as world:
        world.crash(4)
        await world.go_on(after_seconds)
        world.power_off(2) if silent else world.crash(2)
        await world.steps(members=3)
        assert world.ledger.steps_lost == 0


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("after_seconds", [0.001, 0.02, 0.05, 0.15, 0.4])
def test_r18_ec32_a_second_death_while_forming_heals(after_seconds: float, *, silent: bool) -> None:
    second_death(after_seconds, silent=silent)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("silent", [False, True])
def test_r18_ec32_a_second_death_at_any_moment_heals(*, silent: bool) -> None:
    for hundredths in range(100):
        second_death(hundredths / 100 + 0.001, silent=silent)


@in_virtual_time
async def test_r18_who_neither_joins_nor_dies_is_left_out_at_the_deadline() -> None:
    async with running() as world:
        world.members[1].deaf = True
        world.crash(3)
        await world.steps(members=2, within_seconds=60)
        assert "trainer-1.1" not in incarnations(world)
