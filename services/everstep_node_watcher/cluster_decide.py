"""Whom the cluster's word gives cause to suspect. Pure: the view is only read.

Kubernetes' word is evidence, no proof: NotReady and Unknown condemn nobody by themselves (R11), and
a moment of them is not even told as a suspicion (EC-52), unless the bus does not hear the member
either. A pod that is only asked to go is suspected of nothing before it is gone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from everstep_contract.base import MAX_TEXT
from everstep_contract.clients import AgentClient
from everstep_contract.facts.member import SuspicionReason
from everstep_contract.identity import Member

from everstep_node_watcher.cluster_view import ClusterView, Trouble
from everstep_node_watcher.model import Cause, Policy, Spoken, Standing

FROM_PODS: Final[frozenset[SuspicionReason]] = frozenset({"pod_terminated", "pod_deleted"})
FROM_NODES: Final[frozenset[SuspicionReason]] = frozenset({"node_not_ready", "node_rebooted"})


@dataclass(frozen=True)
class Doubt:
    """What the cluster's word is worth now.

    stale: kinds of objects that nothing was heard of for too long. silent: members that the bus
    does not hear, which confirms a node's trouble at once.
    """

    stale: frozenset[str] = frozenset()
    silent: frozenset[AgentClient] = frozenset()

    @property
    def unknown(self) -> frozenset[SuspicionReason]:
        """Reasons about which the cluster has nothing to say at present (EC-01)."""
        pods = FROM_PODS if "pods" in self.stale else frozenset()
        return pods | (FROM_NODES if "nodes" in self.stale else frozenset())


@dataclass(frozen=True)
class Opinion:
    """``causes``: to be suspected. ``held``: what was said of them neither stands nor falls."""

    causes: Mapping[AgentClient, Cause]
    held: frozenset[AgentClient]


def opinion(view: ClusterView, spoken: Spoken, doubt: Doubt, policy: Policy, now: float) -> Opinion:
    """Whom there is cause to suspect, and of whom nothing new can be said.

    What was said before the cluster fell silent is neither repeated nor taken back until it speaks
    again. Nor is a node's trouble, while the node has been Ready again for a moment only.
    """
    held = {
        client
        for client, standing in spoken.standing.items()
        if standing.cause.reason in doubt.unknown or _wavers(view, standing)
    }
    causes: dict[AgentClient, Cause] = {}
    for client, cause in _causes(view, doubt, policy, now):
        if cause.reason not in doubt.unknown and client not in held:
            causes.setdefault(client, cause)
    return Opinion(causes, frozenset(held))


def _wavers(view: ClusterView, standing: Standing) -> bool:
    if standing.cause.reason != "node_not_ready":
        return False
    trouble = view.troubles.get(standing.cause.member.node)
    return trouble is not None and trouble.ready_since is not None


def _causes(
    view: ClusterView, doubt: Doubt, policy: Policy, now: float
) -> Iterator[tuple[AgentClient, Cause]]:
    """Every cause, the strongest of each member first."""
    yield from _lost_pods(view)
    yield from _lost_boots(view)
    yield from _lost_nodes(view)
    for name, trouble in view.troubles.items():
        for client, member in view.on_node(name).items():
            if _counts(trouble, policy, now, confirmed=client in doubt.silent):
                yield client, _cause(member, "node_not_ready", trouble.since, _about(view, name))


def _lost_pods(view: ClusterView) -> Iterator[tuple[AgentClient, Cause]]:
    for uid, since in view.deleted_pods.items():
        for client, member in view.in_pod(uid).items():
            yield client, _cause(member, "pod_deleted", since, uid)
    for uid, since in view.terminated_pods.items():
        for client, member in view.in_pod(uid).items():
            yield client, _cause(member, "pod_terminated", since, uid)


def _lost_boots(view: ClusterView) -> Iterator[tuple[AgentClient, Cause]]:
    for client, reborn in view.reborn.items():
        member = view.member(client)
        if member is not None:
            about = f"{member.node} runs boot {reborn.new_boot}, not {reborn.old_boot}"
            yield client, _cause(member, "node_rebooted", reborn.since, about)


def _lost_nodes(view: ClusterView) -> Iterator[tuple[AgentClient, Cause]]:
    for name, (_, since) in view.deleted_nodes.items():
        for client, member in view.on_node(name).items():
            yield client, _cause(member, "node_not_ready", since, f"{name} is deleted")
    for name, since in view.out_of_service.items():
        for client, member in view.on_node(name).items():
            yield client, _cause(member, "node_not_ready", since, f"{name} is out of service")


def _counts(trouble: Trouble, policy: Policy, now: float, *, confirmed: bool) -> bool:
    """Whether a node has been in trouble for long enough, or somebody else says so too."""
    if trouble.ready_since is not None:
        return False
    return confirmed or now - trouble.since >= policy.not_ready_seconds


def _cause(member: Member, reason: SuspicionReason, since: float, about: str) -> Cause:
    return Cause(member, reason, since, f"{reason.replace('_', ' ')}: {about}"[:MAX_TEXT])


def _about(view: ClusterView, name: str) -> str:
    """The node, why it is not Ready, and what else is wrong with it."""
    node = view.nodes.get(name)
    if node is None:
        return name
    wrong = [f"{one.type} ({one.reason})" for one in node.conditions]
    return "; ".join((name, *filter(None, (node.ready_reason,)), *wrong))
