"""Silence of the bus bereaves nobody, and a real death is found out."""

from sim.running import running
from support.virtual_time import in_virtual_time


@in_virtual_time
async def test_r12_a_member_that_lost_only_the_bus_is_left_alone() -> None:
    async with running() as world:
        world.cut_bus(1)
        await world.go_on(30)
        world.mend_bus(world.members[1])
        await world.go_on(10)
        assert world.verdicts() == ["form"]
        assert [i.outcome for i in world.incidents()] == ["dismissed"]
        assert world.incidents()[0].verdict == "tolerate"


@in_virtual_time
async def test_r12_a_tolerated_member_that_dies_later_is_found_out() -> None:
    async with running() as world:
        world.cut_bus(1)
        await world.go_on(20)
        world.power_off(1)
        await world.steps(members=3, within_seconds=40)


@in_virtual_time
async def test_r13_failures_of_those_who_leave_start_nothing_new() -> None:
    async with running(members=8, min_member=4) as world:
        for victim in (7, 6):
            world.crash(victim)
            await world.steps(members=victim)
            await world.go_on(5)
        assert world.verdicts() == ["form", "shrink", "shrink"]


@in_virtual_time
async def test_r14_a_bus_that_dies_bereaves_nobody() -> None:
    async with running() as world:
        steps = world.ledger.highest_step
        world.broker.stop()
        await world.go_on(20)
        assert world.ledger.highest_step > steps + 10
        world.broker.start()
        await world.go_on(20)
        assert world.verdicts() == ["form"]


@in_virtual_time
async def test_r14_a_member_that_dies_while_the_bus_is_away_is_missed_when_it_is_back() -> None:
    async with running() as world:
        world.broker.stop()
        await world.go_on(2)
        world.crash(3)
        await world.go_on(2)
        world.broker.start()
        await world.steps(members=3, within_seconds=40)


@in_virtual_time
async def test_an_undisturbed_job_is_left_alone() -> None:
    async with running() as world:
        await world.go_on(60)
        assert world.verdicts() == ["form"]
        assert world.incidents() == []
