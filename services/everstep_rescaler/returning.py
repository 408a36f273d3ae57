"""Hears of nodes whose machine is quarantined under another name, and quarantines them (EC-22)."""

from collections.abc import Iterable
from typing import Final

from everstep_bus.interface import Received
from everstep_contract import subjects
from everstep_contract.base import MAX_TEXT
from everstep_contract.facts.node import NodeObserved
from everstep_contract.layout import EVENTS, NODES, Consumer
from everstep_contract.record import NodeRecord
from everstep_kube.objects import NodeState

from everstep_rescaler.cluster_model import Release
from everstep_rescaler.cluster_nodes import NodeDesk
from everstep_rescaler.house import House
from everstep_rescaler.machines import outlives_its_node, returned

OBSERVED: Final = Consumer(
    "rescaler_nodes", EVENTS, (subjects.event_filter(NodeObserved),), from_now=True
)
PENDING_LIMIT: Final = 1_000


class ReturnDesk:
    """Which nodes to look at, by what was heard of them; each is read before it is judged."""

    def __init__(self, house: House, nodes: NodeDesk) -> None:
        self._bus = house.bus
        self._api = house.api
        self._nodes = nodes
        self._machines: frozenset[str] | None = None
        self._pending: dict[str, None] = {}

    async def listen(self) -> None:
        """Hear of nodes, until cancelled."""
        await self._bus.consume(OBSERVED, self._hear)

    async def _hear(self, received: Received) -> None:
        fact = received.message
        if not isinstance(fact, NodeObserved) or fact.deleted:
            return
        if self._machines is None:
            entries = await self._bus.kv(NODES).entries()
            self._machines = _machines_of(one.value for one in entries if one.value)
        self.consider(fact, self._machines)

    def consider(self, fact: NodeObserved, quarantined: Iterable[str]) -> None:
        """Look at the node soon, if it names a machine that is quarantined."""
        same = not frozenset(quarantined).isdisjoint(fact.machines)
        if same and len(self._pending) < PENDING_LIMIT:
            self._pending[fact.node] = None

    async def look(self, records: Iterable[NodeRecord]) -> None:
        """Quarantine the nodes heard of whose machine is; what fails is looked at again."""
        known = [one for one in records if one.quarantined_by]
        self._machines = _machines_of(known)
        for name in tuple(self._pending):
            node = await self._api.node(name)
            if node is not None:
                await self._compare(node, known)
            self._pending.pop(name, None)

    async def _compare(self, node: NodeState, known: list[NodeRecord]) -> None:
        former = returned(known, node)
        if former is None or any(one.node == node.name for one in known):
            return
        if await self._api.node(former.node) is not None:
            return  # two nodes at once are two machines, whatever their ids say
        reason = f"the machine of {former.node} under another name; {former.reason}"
        wanted = former.model_copy(update={"node": node.name, "reason": reason[:MAX_TEXT]})
        if not await self._nodes.quarantine(node, wanted):
            await self._nodes.release(former, Release(former.node, f"it is called {node.name} now"))


def _machines_of(records: Iterable[NodeRecord]) -> frozenset[str]:
    return frozenset(one for known in records if outlives_its_node(known) for one in known.machines)
