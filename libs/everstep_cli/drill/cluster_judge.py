"""What speaks against a drill on the cluster's side; pure."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from everstep_cli.drill.audit import ClusterWrite
from everstep_cli.drill.fault import OnCluster


@dataclass(frozen=True)
class ClusterState:
    """The cluster at one instant, and what the job's record counts.

    ``failures``: without progress, counted against the job; ``noted``: the generation on the Job.
    """

    retries: int
    uids: dict[str, str]
    cordoned: frozenset[str] = frozenset()
    quarantined: frozenset[str] = frozenset()
    failures: int = 0
    noted: int = 0


@dataclass(frozen=True)
class ClusterSeen:
    """Before the fault and at the end, and what Everstep wrote in between.

    ``hurt``: names of the members that were hurt; ``node``: where the first of them was.
    """

    before: ClusterState
    after: ClusterState
    hurt: frozenset[str]
    node: str
    generation: int = 0
    writes: tuple[ClusterWrite, ...] = field(default=())


def cluster_shortfalls(expected: OnCluster, seen: ClusterSeen) -> list[str]:
    """Everything that was done to the cluster and should not have been, or should and was not."""
    return [
        *_written_wrongly(expected, seen),
        *_noted_wrongly(seen),
        *_kept_wrongly(expected, seen),
        *_node_left_wrongly(expected, seen),
    ]


def _written_wrongly(expected: OnCluster, seen: ClusterSeen) -> list[str]:
    made = Counter(verb for write in seen.writes for verb in write.verbs if verb != "annotate")
    wanted = Counter[str](dict(expected.writes.items()))
    found = [
        f"{verb} was written {made[verb]} times, expected {wanted[verb]}"
        for verb in sorted(made.keys() | wanted.keys())
        if made[verb] != wanted[verb]
    ]
    allowed = {seen.node, *seen.hurt}
    others = {w.target for w in seen.writes if "annotate" not in w.verbs} - allowed
    return found + [f"{target} was written to, and nobody had hurt it" for target in sorted(others)]


def _noted_wrongly(seen: ClusterSeen) -> list[str]:
    notes = [int(write.detail) for write in seen.writes if "annotate" in write.verbs]
    found = [
        f"generation {later} was noted on the Job after {earlier}"
        for earlier, later in pairwise(notes)
        if later <= earlier
    ]
    if seen.after.noted != seen.generation:
        found.append(f"generation {seen.after.noted} is noted, the job is in {seen.generation}")
    return found


def _kept_wrongly(expected: OnCluster, seen: ClusterSeen) -> list[str]:
    before, after = seen.before, seen.after
    found = []
    if after.retries != before.retries:
        found.append(f"the Job's retries went from {before.retries} to {after.retries}")
    if expected.spares_budget and after.failures != before.failures:
        found.append(f"failures counted went from {before.failures} to {after.failures}")
    remade = {name for name, uid in before.uids.items() if after.uids.get(name) != uid}
    found += [f"pod {name} was replaced or is gone" for name in sorted(remade - seen.hurt)]
    return found


def _node_left_wrongly(expected: OnCluster, seen: ClusterSeen) -> list[str]:
    """How the hurt node is left, and that no other is."""
    cordoned, quarantined = set(seen.before.cordoned), set(seen.before.quarantined)
    if expected.node_left != "as_it_was":
        cordoned.add(seen.node)
    if expected.node_left == "quarantined":
        quarantined.add(seen.node)
    found = []
    if seen.after.cordoned != cordoned:
        found.append(f"cordoned at the end: {_names(seen.after.cordoned)}, not {_names(cordoned)}")
    if seen.after.quarantined != quarantined:
        tainted = _names(seen.after.quarantined)
        found.append(f"quarantined at the end: {tainted}, not {_names(quarantined)}")
    return found


def _names(nodes: set[str] | frozenset[str]) -> str:
    return ", ".join(sorted(nodes)) or "none"
