"""The leader lease: one leads, the lost one stops at once, a standby follows in about 2 s."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from everstep_bus.background import background
from everstep_bus.memory import CALM, MemoryBroker, MemoryBus, Mischief
from everstep_contract.layout import LEASES
from everstep_runtime.errors import LeaseLostError
from everstep_runtime.lease import Lease, LeaseTiming
from support.virtual_time import VirtualClock, in_virtual_time

TIMING = LeaseTiming()


class World:
    """One server, candidates for one lease, and who led when."""

    def __init__(self, mischief: Mischief = CALM) -> None:
        self.broker = MemoryBroker(mischief, now=lambda: datetime.now(UTC))
        self.leading: set[str] = set()
        self.terms: list[tuple[str, int, float]] = []
        self.overlaps = 0

    def candidate(self, holder: str) -> tuple[MemoryBus, Lease]:
        bus = MemoryBus(self.broker, f"everstep.adjudicator.{holder}")
        return bus, Lease(bus, VirtualClock(), name="adjudicator", holder=holder)

    def work(self, holder: str) -> Callable[[int], Awaitable[None]]:
        async def lead(revision: int) -> None:
            self.overlaps += bool(self.leading)
            self.leading.add(holder)
            self.terms.append((holder, revision, asyncio.get_running_loop().time()))
            try:
                await asyncio.sleep(1_000_000)
            finally:
                self.leading.discard(holder)

        return lead


@in_virtual_time
async def test_r5_one_leads_and_the_others_stand_by() -> None:
    world = World()
    (_, first), (_, second) = world.candidate("first"), world.candidate("second")
    async with background(first.lead(world.work("first")), second.lead(world.work("second"))):
        await asyncio.sleep(60)
    assert [holder for holder, *_ in world.terms] == ["first"]


@in_virtual_time
async def test_r5_a_standby_takes_over_about_two_seconds_after_the_leader_vanished() -> None:
    world = World()
    (bus, first), (_, second) = world.candidate("first"), world.candidate("second")
    async with background(first.lead(world.work("first"))):
        await asyncio.sleep(5)
        async with background(second.lead(world.work("second"))):
            bus.close()
            await asyncio.sleep(TIMING.lost_seconds)
            assert world.leading == set()
            await asyncio.sleep(2.2 - TIMING.lost_seconds)
            assert world.leading == {"second"}
    assert world.overlaps == 0


@in_virtual_time
async def test_r5_the_revision_given_to_a_leader_only_grows() -> None:
    world = World()
    (bus, first), (_, second) = world.candidate("first"), world.candidate("second")
    async with background(first.lead(world.work("first"))):
        await asyncio.sleep(5)
        bus.close()
        async with background(second.lead(world.work("second"))):
            await asyncio.sleep(5)
    (_, earlier, _), (_, later, _) = world.terms
    assert later > earlier


@in_virtual_time
async def test_a_leader_that_ends_gives_the_lease_back_so_that_nobody_waits() -> None:
    world = World()
    (_, first), (_, second) = world.candidate("first"), world.candidate("second")
    async with background(first.lead(world.work("first"))):
        await asyncio.sleep(5)
    ended_at = asyncio.get_running_loop().time()
    async with background(second.lead(world.work("second"))):
        await asyncio.sleep(1)
    assert world.terms[-1][0] == "second"
    assert world.terms[-1][2] - ended_at < TIMING.look_seconds


@in_virtual_time
async def test_work_that_finishes_ends_the_term_for_good() -> None:
    _, lease = World().candidate("first")
    revisions: list[int] = []

    async def once(revision: int) -> None:
        revisions.append(revision)

    await lease.lead(once)
    assert len(revisions) == 1


@in_virtual_time
async def test_an_error_of_the_work_is_raised_and_the_lease_given_back() -> None:
    world = World()
    bus, lease = world.candidate("first")

    async def fail(_revision: int) -> None:
        raise LookupError("broken")

    with pytest.raises(ExceptionGroup) as caught:
        await lease.lead(fail)
    assert isinstance(caught.value.exceptions[0], LookupError)
    assert await bus.kv(LEASES).get("adjudicator") is None


@in_virtual_time
async def test_r5_the_lost_leader_stops_at_once_and_takes_its_own_lease_back_after_the_outage() -> (
    None
):
    world = World()
    _, lease = world.candidate("first")
    async with background(lease.lead(world.work("first"))):
        await asyncio.sleep(5)
        world.broker.stop()
        await asyncio.sleep(TIMING.lost_seconds)
        assert world.leading == set()
        world.broker.start()
        await asyncio.sleep(5)
        assert world.leading == {"first"}
    assert len(world.terms) == 2


@pytest.mark.parametrize("seed", range(10))
def test_r5_two_never_lead_at_once_on_a_bus_that_loses_and_delays(seed: int) -> None:
    mischief = Mischief(
        seed=seed, delay_seconds=0.3, refuse=0.1, lose_reply=0.1, drop_connection=0.02
    )
    world = World(mischief)

    @in_virtual_time
    async def live() -> None:
        leases = {holder: world.candidate(holder)[1] for holder in ("a", "b", "c")}
        work = (lease.lead(world.work(holder)) for holder, lease in leases.items())
        async with background(*work):
            await asyncio.sleep(300)

    live()
    assert world.terms
    assert world.overlaps == 0


def test_a_timing_under_which_two_could_lead_is_refused() -> None:
    with pytest.raises(ValueError, match="two could lead"):
        LeaseTiming(lost_seconds=2.0, expiry_seconds=1.8)


@in_virtual_time
async def test_a_leader_that_is_to_end_while_it_loses_the_lease_ends() -> None:
    world = World()
    _, lease = world.candidate("first")

    async def lead(_: int) -> None:
        try:
            await asyncio.sleep(1_000_000)
        finally:
            await asyncio.sleep(5)

    leading = asyncio.create_task(lease.lead(lead))
    await asyncio.sleep(5)
    world.broker.stop()
    await asyncio.sleep(TIMING.lost_seconds + 1)
    leading.cancel()
    await asyncio.sleep(10)
    assert leading.cancelled()


class JumpingClock(VirtualClock):
    """As the clock of a process that is paused at times: it goes on, and nobody has noticed."""

    def __init__(self) -> None:
        self.paused_seconds = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.paused_seconds


@in_virtual_time
async def test_ec25_a_leader_that_was_paused_past_its_lease_is_stopped_before_its_next_effect() -> (
    None
):
    world, clock = World(), JumpingClock()
    bus = MemoryBus(world.broker, "everstep.adjudicator.first")
    lease = Lease(bus, clock, name="adjudicator", holder="first")
    effects: list[int] = []

    async def work(revision: int) -> None:
        lease.check()
        if not effects:
            effects.append(revision)
            clock.paused_seconds += TIMING.lost_seconds
            lease.check()
        effects.append(revision)

    await lease.lead(work)
    first, second = effects
    assert second > first


@in_virtual_time
async def test_ec25_nobody_may_act_without_having_the_lease() -> None:
    _, lease = World().candidate("first")
    with pytest.raises(LeaseLostError):
        lease.check()


@in_virtual_time
async def test_ec25_a_standby_waits_as_long_as_the_holder_was_promised() -> None:
    world = World()
    bus = MemoryBus(world.broker, "everstep.adjudicator.first")
    patient = LeaseTiming(lost_seconds=8.0, expiry_seconds=10.0)
    first = Lease(bus, VirtualClock(), name="adjudicator", holder="first", timing=patient)
    _, second = world.candidate("second")
    async with background(first.lead(world.work("first"))):
        await asyncio.sleep(5)
        async with background(second.lead(world.work("second"))):
            bus.close()
            await asyncio.sleep(patient.lost_seconds)
            assert world.leading == set()
            await asyncio.sleep(3)
            assert world.leading == {"second"}
    assert world.overlaps == 0
