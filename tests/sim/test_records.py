"""The record heals once, whichever service dies when, and whatever the bus lost of it."""

import pytest
from everstep_bus.memory import Mischief
from sim.running import running
from support.virtual_time import in_virtual_time


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
