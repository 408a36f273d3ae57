"""A quarantined machine stays quarantined when its node is made anew or called otherwise (EC-22).

Clouds hand the same machine back under a new name, and a kubelet that registers anew loses what
was written on its node. A machine is known by its board's and its provider's ids, and only as long
as the node that it was quarantined under is not there: one machine is never two nodes.
"""

from collections.abc import Iterable
from typing import Final

from everstep_contract.record import NodeRecord, QuarantineCause
from everstep_kube.objects import NodeState

LASTING: Final[frozenset[QuarantineCause]] = frozenset(
    {"hardware", "repetition", "operator", "maintenance"}
)
"""Causes that only a person ends: they are the machine's, and outlive its node."""


def outlives_its_node(known: NodeRecord) -> bool:
    """Whether the quarantine goes on without the node: its machine would be recognised."""
    return bool(known.quarantined_by and known.machines) and known.cause in LASTING


def was_made_anew(known: NodeRecord, node: NodeState) -> bool:
    """Whether this is not the node object that was quarantined, but a later one of its name."""
    return bool(known.node_uid and node.uid) and known.node_uid != node.uid


def is_another_machine(known: NodeRecord, machines: Iterable[str]) -> bool:
    """Whether these ids are another machine's; without ids on both sides nobody can tell."""
    ids = frozenset(machines)
    return bool(ids and known.machines) and ids.isdisjoint(known.machines)


def returned(records: Iterable[NodeRecord], node: NodeState) -> NodeRecord | None:
    """The quarantine that this node's machine was under by another name, if it was."""
    ids = frozenset(node.machines)
    same = (one for one in records if one.node != node.name and outlives_its_node(one))
    return next((one for one in same if not ids.isdisjoint(one.machines)), None)
