"""The interleavings behind the rules, written out one by one, with the real cores and services."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from everstep_adjudicator.policy import Policy
from everstep_bus.memory import Mischief
from everstep_contract.queries import CommandAccepted, ResumeJob, SuspendJob
from sim.world import World
from support.virtual_time import in_virtual_time


@asynccontextmanager
async def running(
    members: int = 4,
    min_member: int = 2,
    *,
    policy: Policy | None = None,
    mischief: Mischief | None = None,
) -> AsyncIterator[World]:
    """A world whose members all step."""
    world = World(1, members=members, min_member=min_member, policy=policy, mischief=mischief)
    try:
        world.start_services()
        world.start_members()
        await world.steps()
        await world.go_on(4)
        yield world
        world.ledger.check()
    except AssertionError:
        print("\n".join(world.ledger.lines))
        raise
    finally:
        await world.close()


def only_record(world: World) -> list[str]:
    record = world.record()
    assert record is not None
    return list(record.incarnations)


# --- R1, R2: incarnations -----------------------------------------------------------------------


@in_virtual_time
async def test_r1_a_remade_pod_of_the_same_name_joins_as_a_newcomer() -> None:
    async with running() as world:
        world.crash(0)
        await world.steps(members=3)
        world.start_member(0)
        await world.steps(members=4)
        assert only_record(world) == ["trainer-1.1", "trainer-2.1", "trainer-3.1", "trainer-0.2"]
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
        assert "trainer-2.2" in only_record(world)
        assert "trainer-2.1" not in only_record(world)


# --- R4-R6: the record, whoever dies when -------------------------------------------------------


@in_virtual_time
async def killed_at(service: str, call: int, *, after: bool) -> None:
    """The service dies at one of its calls to the bus while a member dies, and is started again."""
    async with running() as world:
        world.kill_service(service)
        await world.go_on(0.5)
        world.start_service(service, die_at=call, after=after)
        await world.go_on(0.3)
        world.crash(3)
        await world.go_on(1.5)
        if service not in world.services:
            world.start_service(service)
        await world.steps(members=3, within_seconds=40)
        await world.quiet()
        await world.go_on(1)
        assert world.verdicts() == ["form", "shrink"], call
        assert [i.outcome for i in world.incidents()] == ["resumed"], call


@pytest.mark.parametrize("call", range(3, 24, 3))
def test_r4_r6_an_adjudicator_killed_at_one_of_its_calls_heals_once(call: int) -> None:
    killed_at("adjudicator", call, after=call % 2 == 0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("service", ["adjudicator", "rescaler", "node_watcher"])
def test_r4_r6_r8_a_service_killed_at_any_of_its_calls_heals_once(
    service: str, *, after: bool
) -> None:
    for call in range(1, 40):
        killed_at(service, call, after=after)


@in_virtual_time
async def test_r5_a_standby_takes_over_and_the_old_leader_writes_nothing_more() -> None:
    async with running() as world:
        world.start_service("adjudicator-standby")
        await world.go_on(1)
        world.connections.sever(world.clients["adjudicator"])
        world.crash(3)
        await world.steps(members=3, within_seconds=20)
        world.connections.mend(world.clients["adjudicator"])
        await world.go_on(10)
        assert world.verdicts() == ["form", "shrink"]


@in_virtual_time
async def test_r5_two_adjudicators_never_rule_twice_on_one_loss() -> None:
    async with running() as world:
        world.start_service("adjudicator-standby")
        for victim in (3, 2):
            world.crash(victim)
            await world.go_on(6)
        assert world.verdicts() == ["form", "shrink", "shrink"]


@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_r5_a_record_that_lost_its_newest_writes_heals_with_a_newer_number(lost: int) -> None:
    @in_virtual_time
    async def history() -> None:
        async with running() as world:
            world.crash(3)
            await world.steps(members=3)
            world.broker.stop()
            world.broker.lose_tail("KV_jobs", lost)
            await world.go_on(1)
            world.broker.start()
            await world.go_on(20)
            await world.steps(members=3)
            await world.quiet()
            assert world.ledger.reused == []

    history()


@in_virtual_time
async def test_r5_a_bucket_that_is_lost_altogether_heals_with_a_newer_number() -> None:
    async with running() as world:
        before = world.ledger.newest_stepping
        world.broker.lose_stream("KV_jobs")
        await world.go_on(20)
        await world.steps(members=4)
        assert world.ledger.newest_stepping > before
        assert world.ledger.reused == []


@in_virtual_time
async def test_r5_an_answer_that_was_lost_is_read_back_and_not_repeated() -> None:
    async with running(mischief=Mischief(seed=3, lose_reply=0.5)) as world:
        world.crash(3)
        await world.steps(members=3, within_seconds=60)
        await world.go_on(5)
        assert world.verdicts() == ["form", "shrink"]


# --- R7-R9: orders ------------------------------------------------------------------------------


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
        assert only_record(world) == ["trainer-0.1", "trainer-1.1", "trainer-2.1"]
        await world.quiet()


# --- R12-R14: evidence --------------------------------------------------------------------------


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


# --- R16-R18, R20-R22: forming ------------------------------------------------------------------


@in_virtual_time
async def test_r16_ec12_a_worker_that_does_not_leave_is_killed_and_comes_back() -> None:
    async with running() as world:
        world.members[1].stick()
        world.crash(3)
        await world.steps(members=3, within_seconds=60)
        assert "trainer-1.1" in only_record(world)


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
        assert "trainer-1.1" not in only_record(world)


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


# --- the cases ----------------------------------------------------------------------------------


@in_virtual_time
async def test_ec43_thirty_deaths_in_three_seconds_are_few_generations() -> None:
    async with running(members=32, min_member=2) as world:
        for index in range(2, 32):
            world.crash(index)
            await world.go_on(0.1)
        await world.steps(members=2, within_seconds=40)
        assert len(world.verdicts()) <= 12


@in_virtual_time
async def test_ec33_a_replacement_does_not_inherit_the_dead_pods_clock() -> None:
    async with running() as world:
        world.crash(1)
        await world.steps(members=3)
        world.start_member(1)
        await world.steps(members=4)
        await world.go_on(20)
        assert world.verdicts() == ["form", "shrink", "grow"]


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
async def test_a_dead_worker_costs_no_member() -> None:
    async with running() as world:
        world.members[1].kill_worker(0)
        await world.go_on(0.2)
        await world.steps(members=4)
        assert world.verdicts() == ["form", "restart_workers"]
        assert world.ledger.steps_lost == 0


@in_virtual_time
async def test_an_undisturbed_job_is_left_alone() -> None:
    async with running() as world:
        await world.go_on(60)
        assert world.verdicts() == ["form"]
        assert world.incidents() == []
