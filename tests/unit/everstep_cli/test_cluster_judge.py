"""What speaks against a drill on the cluster's side."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from everstep_cli.drill.audit import ClusterWrite
from everstep_cli.drill.cluster_faults import CLUSTER_FAULTS
from everstep_cli.drill.cluster_judge import ClusterSeen, ClusterState, cluster_shortfalls
from everstep_cli.drill.fault import OnCluster

AT = datetime(2026, 1, 1, tzinfo=UTC)
BEFORE = ClusterState(retries=0, uids={"m3": "u3", "m4": "u4"}, noted=1)


def wrote(*verbs: str, target: str = "n3", detail: str = "") -> ClusterWrite:
    return ClusterWrite(AT, frozenset(verbs), target, detail)


NOTED = wrote("annotate", target="drill", detail="2")
QUARANTINED = OnCluster(
    {"taint": 1, "cordon": 1, "force_delete_pod": 1}, node_left="quarantined", spares_budget=True
)
SEEN = ClusterSeen(
    before=BEFORE,
    after=replace(
        BEFORE,
        uids={"m3": "new", "m4": "u4"},
        cordoned=frozenset({"n3"}),
        quarantined=frozenset({"n3"}),
        noted=2,
    ),
    hurt=frozenset({"m3"}),
    node="n3",
    generation=2,
    writes=(NOTED, wrote("taint", "cordon"), wrote("force_delete_pod", target="m3")),
)


def why(seen: ClusterSeen, expected: OnCluster = QUARANTINED) -> list[str]:
    return cluster_shortfalls(expected, seen)


def test_what_was_to_be_written_and_was_is_right() -> None:
    assert why(SEEN) == []


def test_a_write_that_came_twice_or_never_is_wrong() -> None:
    twice = replace(SEEN, writes=(*SEEN.writes, SEEN.writes[-1]))
    assert why(twice) == ["force_delete_pod was written 2 times, expected 1"]
    never = replace(SEEN, writes=SEEN.writes[:-1])
    assert why(never) == ["force_delete_pod was written 0 times, expected 1"]


def test_a_write_that_nobody_expects_is_wrong() -> None:
    evicted = replace(SEEN, writes=(*SEEN.writes, wrote("POST /eviction", target="m3")))
    assert why(evicted) == ["POST /eviction was written 1 times, expected 0"]


def test_a_write_to_what_nobody_hurt_is_wrong() -> None:
    other = wrote("force_delete_pod", target="m4")
    found = why(replace(SEEN, writes=(NOTED, wrote("taint", "cordon"), other)))
    assert found == ["m4 was written to, and nobody had hurt it"]


def test_a_generation_that_is_noted_twice_or_not_at_all_is_wrong() -> None:
    twice = why(replace(SEEN, writes=(NOTED, *SEEN.writes)))
    assert twice == ["generation 2 was noted on the Job after 2"]
    never = why(replace(SEEN, generation=3))
    assert never == ["generation 2 is noted, the job is in 3"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"retries": 1}, "the Job's retries went from 0 to 1"),
        ({"failures": 1}, "failures counted went from 0 to 1"),
        ({"uids": {"m3": "new", "m4": "anew"}}, "pod m4 was replaced or is gone"),
        ({"uids": {"m3": "new"}}, "pod m4 was replaced or is gone"),
        ({"cordoned": frozenset()}, "cordoned at the end: none, not n3"),
        ({"quarantined": frozenset({"n3", "n4"})}, "quarantined at the end: n3, n4, not n3"),
    ],
)
def test_what_was_to_stay_as_it_is_is_looked_at(change: dict[str, object], said: str) -> None:
    after = replace(SEEN.after, **change)  # type: ignore[arg-type]  # each field by its name
    assert why(replace(SEEN, after=after)) == [said]


def test_ec34_an_administrators_cordon_that_is_gone_is_wrong() -> None:
    expected = OnCluster({"taint": 1, "release": 1}, node_left="cordoned_by_admin")
    left = replace(SEEN.after, quarantined=frozenset())
    seen = replace(SEEN, after=left, writes=(NOTED, wrote("taint"), wrote("release")))
    assert why(seen, expected) == []
    uncordoned = replace(seen, after=replace(left, cordoned=frozenset()))
    assert why(uncordoned, expected) == ["cordoned at the end: none, not n3"]


def test_every_fault_of_the_cluster_says_what_may_be_written() -> None:
    assert all(fault.cluster is not None for fault in CLUSTER_FAULTS)
