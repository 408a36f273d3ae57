"""Answers operators' commands about nodes, and does what they ask for, or says why not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar

from everstep_bus.errors import BusError
from everstep_contract.base import MAX_TEXT
from everstep_contract.layout import JOBS, NODES
from everstep_contract.node_queries import (
    DrainNode,
    NodeStanding,
    NodeStatus,
    QuarantineNode,
    ReleaseNode,
)
from everstep_contract.queries import Query, Refused
from everstep_contract.record import NodeRecord
from everstep_kube.errors import ConflictError, KubeError
from everstep_kube.objects import NodeState
from everstep_runtime.errors import LeaseLostError

from everstep_rescaler.cluster_decide import brake
from everstep_rescaler.cluster_model import Release
from everstep_rescaler.cluster_nodes import NodeDesk
from everstep_rescaler.draining import DrainDesk
from everstep_rescaler.house import House

CONFLICT_TRIES: Final = 5
MEMBERS_LISTED: Final = 1000

Q = TypeVar("Q", bound=Query)
Answer = NodeStanding | Refused


class NodeCommands:
    """One answer a query. ``writing`` keeps them from writing while the loop does."""

    def __init__(
        self, house: House, nodes: NodeDesk, drains: DrainDesk, writing: asyncio.Lock
    ) -> None:
        self._bus = house.bus
        self._api = house.api
        self._clock = house.clock
        self._policy = house.policy
        self._nodes = nodes
        self._drains = drains
        self._writing = writing

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """Answer while the context is open."""
        async with AsyncExitStack() as stack:
            bus, told = self._bus, self._told
            await stack.enter_async_context(bus.answer(NodeStatus, told(self._status)))
            await stack.enter_async_context(bus.answer(QuarantineNode, told(self._quarantine)))
            await stack.enter_async_context(bus.answer(ReleaseNode, told(self._release)))
            await stack.enter_async_context(bus.answer(DrainNode, told(self._drain)))
            yield

    def _told(self, work: Callable[[Q], Awaitable[Answer]]) -> Callable[[Q], Awaitable[Answer]]:
        """The work, one at a time, with its failures as refusals; conflicts are read again."""

        async def answer(query: Q) -> Answer:
            why = ""
            for _ in range(CONFLICT_TRIES):
                try:
                    async with self._writing:
                        return await work(query)
                except ConflictError as error:
                    why = str(error)
                except (BusError, KubeError, LeaseLostError) as error:
                    return _refused(f"perhaps not done, `everstep nodes` tells: {error}")
            return _refused(f"somebody else keeps changing the node, see `everstep nodes`: {why}")

        return answer

    async def _status(self, query: NodeStatus) -> Answer:
        return await self._standing(query.node)

    async def _quarantine(self, query: QuarantineNode) -> Answer:
        return await self._take_out(
            NodeRecord(
                node=query.node,
                cause="operator",
                by=query.by,
                reason=query.reason,
                at=self._clock.now(),
            )
        )

    async def _drain(self, query: DrainNode) -> Answer:
        return await self._take_out(
            NodeRecord(
                node=query.node,
                cause="maintenance",
                by=query.by,
                reason=query.reason,
                drain_seconds=query.timeout_seconds,
                at=self._clock.now(),
            )
        )

    async def _take_out(self, wanted: NodeRecord) -> Answer:
        """Quarantine the node on a person's word; where it is already, on their word from now."""
        node = await self._api.node(wanted.node)
        if node is None:
            return _refused(f"there is no node {wanted.node!r}")
        known = await self._nodes.known(wanted.node)
        before = known.quarantined_by if known else None
        if before is None and (why := await self._braked()):
            return _refused(why)
        incident = before or f"operator-{wanted.at:%Y%m%dT%H%M%S.%f}"
        why = await self._nodes.quarantine(node, _on_word(wanted, known, incident))
        if why:
            return _refused(why)
        self._drains.begin(wanted.node)
        return await self._standing(wanted.node, _done(node, known, incident))

    async def _braked(self) -> str:
        entries = await self._bus.kv(NODES).entries()
        quarantined = sum(bool(one.value and one.value.counts) for one in entries)
        return brake(self._policy) if quarantined >= self._policy.max_quarantined else ""

    async def _release(self, query: ReleaseNode) -> Answer:
        known = await self._nodes.known(query.node)
        if known is None or known.quarantined_by is None:
            known = await self._unrecorded(query.node, known)
        if known is None:
            return _refused(await self._not_ours(query.node))
        incident = known.quarantined_by
        why = await self._nodes.release(known, Release(query.node, query.reason, query.by))
        if why:
            return _refused(why)
        return await self._standing(query.node, f"{query.node} is released ({incident})")

    async def _unrecorded(self, name: str, before: NodeRecord | None) -> NodeRecord | None:
        """A quarantine that only the node tells of: who made it ended before it was recorded."""
        node = await self._api.node(name)
        if node is None or node.quarantined_by is None:
            return None
        known = before or NodeRecord(node=name, at=self._clock.now())
        marked = {"quarantined_by": node.quarantined_by or "unknown", "cause": "operator"}
        return known.model_copy(update=marked)

    async def _not_ours(self, name: str) -> str:
        node = await self._api.node(name)
        if node is None:
            return f"there is no node {name!r}"
        cordoned = ", and its cordon is somebody else's" if node.unschedulable else ""
        return f"{name} is not quarantined by Everstep{cordoned}"

    async def _standing(self, name: str, said: str = "") -> NodeStanding:
        record = await self._nodes.known(name)
        entries = await self._bus.kv(JOBS).entries()
        members = tuple(
            f"{entry.value.job} {seat.member.name}"
            for entry in entries
            if entry.value and entry.value.phase != "ended"
            for seat in entry.value.seats
            if seat.member.node == name
        )
        draining = bool(record and record.quarantined_by and record.cause == "maintenance")
        return NodeStanding(
            record=record,
            said=said,
            members=members[:MEMBERS_LISTED],
            waiting_for=self._drains.waiting_for.get(name, "")[:MAX_TEXT] if draining else "",
            drained=draining and not members,
        )


def _done(node: NodeState, known: NodeRecord | None, incident: str) -> str:
    """What a person is told of a quarantine that is in force now; whose word it replaced."""
    if known is not None and known.quarantined_by is not None:
        former = f"{known.reason}, by {known.by or 'Everstep'}"
        return (
            f"{node.name} was quarantined already ({incident}; {former});"
            " the reason is yours now, and only a person releases it"
        )
    cordon = (
        "was cordoned before and is tainted now"
        if node.unschedulable
        else "is cordoned and tainted"
    )
    return f"{node.name} {cordon} ({incident})"


def _on_word(wanted: NodeRecord, known: NodeRecord | None, incident: str) -> NodeRecord:
    """What is remembered when a person asks; whose failure it was stays known."""
    whose: dict[str, object] = {}
    if known is not None and known.quarantined_by is not None:
        whose = {"job": known.job, "job_uid": known.job_uid, "generation": known.generation}
    return wanted.model_copy(update={"quarantined_by": incident, **whose})


def _refused(why: str) -> Refused:
    return Refused(reason=why[:MAX_TEXT])
