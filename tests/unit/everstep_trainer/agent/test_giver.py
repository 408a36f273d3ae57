"""The sender's half of copies in a peer's memory: what it holds, tells, keeps and stops."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import pytest
from everstep_bus.background import background
from everstep_checkpoint.slots import SlotPair, Word
from everstep_contract.identity import Endpoint
from everstep_trainer.agent.effects import GiveSnapshot
from everstep_trainer.agent.giver import Giver
from everstep_trainer.agent.inputs import Input, SnapshotGiven
from everstep_trainer.agent.memory import Memory
from everstep_trainer.agent.model import Replication
from everstep_trainer.agent.peer import MAX_LINE_BYTES, PeerPort
from everstep_trainer.agent.replicas import Incoming, Offer, Replicas
from everstep_trainer.agent.sending import PIECE_BYTES
from support.agent_core import Core
from support.polling import eventually

HERE = "127.0.0.1"
BYTES = 3 * PIECE_BYTES
BODY = os.urandom(BYTES)


class Partner:
    """Keeps what it is offered, and counts."""

    incarnation = "partner.1"
    order = None

    def __init__(self) -> None:
        self.replicas = Replicas(1 << 30)
        self.offers: list[Offer] = []

    def hear_peer(self, _order: object, _host: str) -> None:
        pytest.fail("nobody sends an order here")

    def begin_to_keep(self, offer: Offer, _host: str) -> Incoming | str:
        self.offers.append(offer)
        return self.replicas.begin(offer)

    def end_to_keep(self, incoming: Incoming) -> None:
        self.replicas.end(incoming)


class Sender:
    """A giver with one worker's memory, and a partner on this machine."""

    def __init__(self, endpoint: Endpoint, partner: Partner, bytes_per_second: int) -> None:
        me = replace(
            Core().state.me,
            peer=Endpoint(host=HERE, port=1),
            replication=Replication(bytes_per_second=bytes_per_second),
        )
        self.me = me
        self.endpoint = endpoint
        self.partner = partner
        self.memory = Memory(me)
        self.heard: list[Input] = []
        self.giver = Giver(me, self.memory, self.heard.append)

    @property
    def pair(self) -> SlotPair:
        return self.memory.workers[0].state

    def keep(self, step: int) -> None:
        if not self.pair.slot_bytes:
            self.pair.resize(BYTES)
        slot = self.pair.begin()
        assert slot is not None
        os.pwrite(self.pair.fd, BODY, self.pair.place(slot))
        self.pair.finish(slot, Word(0, "ready", 1, step, 0, 2, BYTES))

    def gift(self, step: int, every: int = 0) -> GiveSnapshot:
        found = self.memory.snapshots()
        snapshot = next(one for one in found if one.step == step and not one.origin)
        return GiveSnapshot(snapshot, self.endpoint, every)

    async def told(self) -> SnapshotGiven:
        await eventually(lambda: self.heard)
        given = self.heard.pop()
        assert isinstance(given, SnapshotGiven)
        return given


@pytest.fixture
async def sender(request: pytest.FixtureRequest) -> AsyncIterator[Sender]:
    """Runs until the test ends; a test may say how many bytes a second it sends."""
    partner = Partner()
    port, limit = PeerPort(partner), MAX_LINE_BYTES
    async with await asyncio.start_server(port.serve, HERE, 0, limit=limit) as server:
        endpoint = Endpoint(host=HERE, port=server.sockets[0].getsockname()[1])
        sender = Sender(endpoint, partner, getattr(request, "param", 1 << 40))
        with suppress(asyncio.CancelledError):
            async with background(sender.giver.run()):
                yield sender
    sender.memory.close()
    partner.replicas.close()


async def test_what_the_partner_keeps_is_told_and_its_slot_is_free_again(sender: Sender) -> None:
    sender.keep(1)
    sender.giver.give(sender.gift(1))
    sender.keep(2)
    given = await sender.told()
    assert (given.kept, given.snapshot.step) == (True, 1)
    assert [one.step for one in sender.partner.replicas.snapshots()] == [1]
    assert sender.pair.begin() == 0
    assert list(sender.memory.replicas.snapshots()) == []


async def test_of_a_state_that_is_split_up_a_copy_stays_here_as_well(sender: Sender) -> None:
    sender.keep(1)
    sender.giver.give(sender.gift(1, every=8))
    assert (await sender.told()).kept
    assert sender.partner.offers[0].every == 8
    sender.keep(2)
    sender.keep(3)
    (copy,) = sender.memory.replicas.snapshots()
    assert (copy.step, copy.origin) == (1, sender.me.incarnation)
    found = sender.memory.find(copy)
    assert found is not None
    pieces = found[0].read(*found[1:], memoryview(bytearray(PIECE_BYTES)))
    assert b"".join(bytes(piece) for piece in pieces) == BODY


async def test_what_the_partner_does_not_keep_is_not_kept_here_either(sender: Sender) -> None:
    sender.partner.replicas.close()
    sender.keep(1)
    sender.giver.give(sender.gift(1, every=8))
    assert not (await sender.told()).kept
    assert list(sender.memory.replicas.snapshots()) == []
    assert sender.memory.replicas.held_bytes == 0


async def test_a_snapshot_that_is_gone_is_told_as_not_kept(sender: Sender) -> None:
    sender.keep(1)
    gift = sender.gift(1)
    sender.keep(2)
    sender.keep(3)
    sender.giver.give(gift)
    assert not (await sender.told()).kept
    assert sender.partner.offers == []


async def test_a_partner_that_is_gone_costs_nothing_but_the_copy(sender: Sender) -> None:
    with socket.create_server((HERE, 0)) as listener:
        port = listener.getsockname()[1]
    sender.endpoint = Endpoint(host=HERE, port=port)
    sender.keep(1)
    sender.giver.give(sender.gift(1))
    assert not (await sender.told()).kept
    sender.keep(2)
    sender.keep(3)


@pytest.mark.parametrize("sender", [PIECE_BYTES], indirect=True)
async def test_r24_a_giver_that_is_stopped_breaks_off_what_it_sends(sender: Sender) -> None:
    sender.keep(1)
    sender.giver.give(sender.gift(1))
    sender.keep(2)
    await eventually(lambda: sender.partner.offers)
    sender.giver.stop()
    await eventually(lambda: sender.pair.begin() == 0, what="the slot is still held")
    assert list(sender.partner.replicas.snapshots()) == []
    assert sender.heard == []
