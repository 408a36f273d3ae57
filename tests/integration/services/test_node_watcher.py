"""The node watcher on a bus: who is told of as suspected, when connections come and go."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from everstep_bus.background import background
from everstep_bus.interface import Bus
from everstep_contract.base import Event
from everstep_contract.clients import ServiceClient
from everstep_contract.envelope import decode
from everstep_contract.facts.member import MemberLeft, MemberRecovered, MemberSuspected
from everstep_contract.identity import Member
from everstep_contract.layout import EVENTS, JOBS
from everstep_node_watcher.model import Duty, Policy
from everstep_node_watcher.service import serve
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from prometheus_client import REGISTRY
from support.bus_worlds import BusWorld
from support.jobs import JOB, NOW, member, record, report
from support.polling import eventually

ONE, TWO, THREE = member(1), member(2), member(3)
CANARY = ServiceClient("canary", "mine")
POLICY = Policy(
    witness="watcher",
    node="here",
    canaries=frozenset({CANARY}),
    inventory_seconds=0.2,
    reassert_seconds=0.5,
    reconnect_grace_seconds=1.0,
)
E = TypeVar("E", bound=Event)


class Scene:
    """A world with a canary, and members 1 and 2 seated and connected."""

    def __init__(self, world: BusWorld) -> None:
        self.world = world
        self.agents: dict[str, Bus] = {}

    async def connect(self, of: Member) -> Bus:
        self.agents[of.incarnation] = await self.world.agent(JOB, of.incarnation)
        return self.agents[of.incarnation]

    async def lose(self, of: Member) -> None:
        """The agent's process is gone."""
        await self.world.disconnect(self.agents.pop(of.incarnation))

    async def told(self, kind: type[E]) -> list[E]:
        """The facts of one kind that were published so far."""
        stored = await self.world.stored(EVENTS.name)
        facts = [decode(headers, payload) for _, headers, payload in stored]
        return [fact for fact in facts if isinstance(fact, kind)]

    async def suspects(self) -> set[str]:
        """Incarnations suspected so far."""
        return {fact.member.incarnation for fact in await self.told(MemberSuspected)}


@asynccontextmanager
async def watching(world: BusWorld, *absent: Member) -> AsyncIterator[Scene]:
    """A watcher at work on a `Scene`, which has seen the connections once.

    Members in ``absent`` have seats and never connected.
    """
    scene, clock = Scene(world), SystemClock()
    await world.service(CANARY.role, CANARY.instance)
    for each in (ONE, TWO):
        await scene.connect(each)
    bus, adjudicator = await world.service("node_watcher"), await world.service("adjudicator")
    await adjudicator.kv(JOBS).put(JOB.token, record(1, (ONE, TWO, *absent)), expected=0)
    readiness = Readiness(clock)
    events = await world.server_events()
    async with background(serve(bus, events, Duty(POLICY, clock, readiness))):
        await eventually(lambda: not readiness.unproven())
        yield scene


async def has_reasserted(scene: Scene, times: int) -> bool:
    return any(fact.reassertion == times for fact in await scene.told(MemberSuspected))


def goodbyes() -> float:
    return REGISTRY.get_sample_value("everstep_node_watcher_goodbyes_total") or 0.0


async def test_r10_an_agent_that_dies_is_suspected_by_its_connection(world: BusWorld) -> None:
    async with watching(world) as scene:
        await scene.lose(ONE)
        await eventually(scene.suspects)
        (first, *_) = await scene.told(MemberSuspected)
        assert (first.member, first.reason, first.witness) == (ONE, "connection_closed", "watcher")


async def test_r10_who_died_before_the_watcher_started_is_found_in_the_lists(
    world: BusWorld,
) -> None:
    async with watching(world, THREE) as scene:
        await eventually(scene.suspects)
        assert {fact.reason for fact in await scene.told(MemberSuspected)} == {"not_connected"}
        assert await scene.suspects() == {THREE.incarnation}


async def test_r10_a_standing_suspicion_is_told_again(world: BusWorld) -> None:
    async with watching(world) as scene:
        await scene.lose(ONE)
        await eventually(partial(has_reasserted, scene, 2))
    reassertions = [fact.reassertion for fact in await scene.told(MemberSuspected)]
    assert reassertions == list(range(len(reassertions)))


async def test_r12_the_same_incarnation_connected_again_is_told_as_recovered(
    world: BusWorld,
) -> None:
    async with watching(world) as scene:
        await scene.lose(ONE)
        await eventually(scene.suspects)
        await scene.connect(ONE)
        await eventually(lambda: scene.told(MemberRecovered))


async def test_a_candidate_that_reported_is_watched_as_well(world: BusWorld) -> None:
    async with watching(world) as scene:
        candidate = await scene.connect(THREE)
        await candidate.report(report(THREE))
        await scene.lose(THREE)
        await eventually(scene.suspects)
        assert await scene.suspects() == {THREE.incarnation}


async def test_ec20_an_agent_that_said_goodbye_is_not_suspected(world: BusWorld) -> None:
    async with watching(world) as scene:
        before = goodbyes()
        left = MemberLeft(at=NOW, job=JOB, member=ONE, reason="terminated")
        await scene.agents[ONE.incarnation].publish(left)
        await eventually(lambda: goodbyes() == before + 1)
        await scene.lose(ONE)
        await scene.lose(TWO)
        await eventually(scene.suspects)
        assert await scene.suspects() == {TWO.incarnation}


async def test_r14_a_restarted_server_makes_nobody_suspected_but_who_stays_away(
    world: BusWorld,
) -> None:
    async with watching(world) as scene:
        await world.stop()
        await scene.lose(ONE)
        await world.start()
        await eventually(scene.suspects)
        assert await scene.suspects() == {ONE.incarnation}
