"""Orders reach every member, though the rescaler, the stream or a member's bus is gone."""

from everstep_contract.queries import CommandAccepted, ResumeJob, SuspendJob
from sim.running import incarnations, running
from support.virtual_time import in_virtual_time


@in_virtual_time
async def test_r7_suspending_and_resuming_are_new_generations() -> None:
    async with running() as world:
        held = await world.command(SuspendJob, world.ledger.records[-1].generation)
        assert isinstance(held, CommandAccepted)
        await world.go_on(3)
        steps = world.ledger.highest_step
        await world.go_on(30)
        assert world.ledger.highest_step == steps
        await world.command(ResumeJob, held.generation)
        await world.steps(members=4)
        assert world.verdicts() == ["form", "suspend", "form"]
        assert world.ledger.steps_lost == 0


@in_virtual_time
async def test_r8_a_lost_tail_of_orders_is_ordered_again() -> None:
    async with running() as world:
        world.crash(3)
        await world.steps(members=3)
        world.broker.lose_tail("ORDERS", 1)
        await world.go_on(3)
        world.crash(2)
        await world.steps(members=2)


@in_virtual_time
async def test_r8_the_order_waits_for_a_rescaler_and_no_deadline_runs_meanwhile() -> None:
    async with running() as world:
        world.kill_service("rescaler")
        world.crash(3)
        await world.go_on(4 * world.policy.form_seconds)
        world.start_service("rescaler")
        await world.steps(members=3)
        assert world.verdicts() == ["form", "shrink"]


@in_virtual_time
async def test_r9_a_member_without_the_bus_hears_the_order_from_its_peers() -> None:
    async with running() as world:
        world.cut_bus(1)
        world.crash(3)
        await world.steps(members=3)
        assert incarnations(world) == ["trainer-0.1", "trainer-1.1", "trainer-2.1"]
        await world.quiet()
