"""Request and reply."""

import asyncio

import pytest
from everstep_bus.errors import NoReplyError, QueryRefusedError
from everstep_contract.queries import ProbeMember, ProbeReply, Refused
from support.bus_worlds import BusWorld
from support.messages import JOB, member, probe, probe_reply
from support.polling import eventually


async def answer(query: ProbeMember) -> ProbeReply:
    return probe_reply(query)


async def test_the_agent_that_is_addressed_answers(world: BusWorld) -> None:
    asker = await world.service()
    query = probe(witness=1)
    agents = [await world.agent(JOB, member(index).incarnation) for index in (1, 2)]
    async with (
        agents[0].answer(ProbeMember, answer, address=query.address),
        agents[1].answer(ProbeMember, answer, address=probe(witness=2).address),
    ):
        reply = await asker.ask(query, ProbeReply, timeout_seconds=5)
    assert reply == probe_reply(query)


async def test_a_query_that_nobody_answers_fails_in_time(world: BusWorld) -> None:
    asker = await world.service()
    with pytest.raises(NoReplyError, match="probe_member"):
        await asker.ask(probe(), ProbeReply, timeout_seconds=0.1)


async def test_a_service_that_says_no_gives_its_reason(world: BusWorld) -> None:
    asker, agent = await world.service(), await world.agent(JOB, member(1).incarnation)

    async def refuse(_: ProbeMember) -> Refused:
        return Refused(reason="not a seat of mine")

    async with agent.answer(ProbeMember, refuse, address=probe().address):
        with pytest.raises(QueryRefusedError, match="not a seat of mine"):
            await asker.ask(probe(), ProbeReply, timeout_seconds=5)


async def test_a_handler_that_fails_is_heard_by_the_asker(world: BusWorld) -> None:
    asker, agent = await world.service(), await world.agent(JOB, member(1).incarnation)

    async def fail(_: ProbeMember) -> Refused:
        raise ValueError("no route")

    async with agent.answer(ProbeMember, fail, address=probe().address):
        with pytest.raises(QueryRefusedError, match="ValueError: no route"):
            await asker.ask(probe(), ProbeReply, timeout_seconds=5)


async def test_queries_are_answered_at_the_same_time(world: BusWorld) -> None:
    asker, agent = await world.service(), await world.agent(JOB, member(1).incarnation)
    both = asyncio.Barrier(2)

    async def together(query: ProbeMember) -> ProbeReply:
        await both.wait()
        return probe_reply(query)

    async with agent.answer(ProbeMember, together, address=probe().address):
        asked = (asker.ask(probe(), ProbeReply, timeout_seconds=5) for _ in range(2))
        assert await asyncio.gather(*asked) == [probe_reply(probe())] * 2


async def test_queries_are_answered_again_after_the_server_came_back(world: BusWorld) -> None:
    asker, agent = await world.service(), await world.agent(JOB, member(1).incarnation)

    async def answered() -> bool:
        try:
            return bool(await asker.ask(probe(), ProbeReply, timeout_seconds=0.5))
        except NoReplyError:
            return False

    async with agent.answer(ProbeMember, answer, address=probe().address):
        await eventually(answered)
        await world.stop()
        await eventually(lambda: not asker.connected and not agent.connected)
        await world.start()
        await eventually(lambda: asker.connected and agent.connected)
        await eventually(answered)
