"""A member that comes back under an old name, or thaws, is not the one that was lost."""

from sim.running import incarnations, running
from support.virtual_time import in_virtual_time


@in_virtual_time
async def test_r1_a_remade_pod_of_the_same_name_joins_as_a_newcomer() -> None:
    async with running() as world:
        world.crash(0)
        await world.steps(members=3)
        world.start_member(0)
        await world.steps(members=4)
        assert incarnations(world) == ["trainer-1.1", "trainer-2.1", "trainer-3.1", "trainer-0.2"]
        assert world.verdicts() == ["form", "shrink", "grow"]


@in_virtual_time
async def test_r1_a_frozen_member_that_thaws_does_not_step_in_the_new_generation() -> None:
    async with running() as world:
        world.freeze(3)
        await world.steps(members=3)
        stepping = world.ledger.newest_stepping
        world.thaw(world.members[3])
        await world.go_on(3)
        assert world.ledger.newest_stepping == stepping
        assert world.members[3].order is not None
        assert world.members[3].order.seat_of("trainer-3.1") is None


@in_virtual_time
async def test_r2_an_agent_that_comes_back_under_its_old_name_ends_its_old_incarnation() -> None:
    async with running() as world:
        world.kill_service("node_watcher")
        world.crash(2)
        world.start_member(2)
        await world.go_on(10)
        await world.steps(members=4)
        assert "trainer-2.2" in incarnations(world)
        assert "trainer-2.1" not in incarnations(world)


@in_virtual_time
async def test_ec33_a_replacement_does_not_inherit_the_dead_pods_clock() -> None:
    async with running() as world:
        world.crash(1)
        await world.steps(members=3)
        world.start_member(1)
        await world.steps(members=4)
        await world.go_on(20)
        assert world.verdicts() == ["form", "shrink", "grow"]
