"""What a follower keeps of objects, and what it tells: each change once, bad objects passed."""

from typing import Any

import pytest
from everstep_kube.followed import Name
from everstep_kube.objects import node_state
from everstep_kube.sightings import Absent, Known, Present
from prometheus_client import REGISTRY

ONE = Name("training", "one")


def read(found: dict[str, Any]) -> str | None:
    """The tests' state: a label, and none of ours without any."""
    labels = found["metadata"]["labels"]
    return str(labels["state"]) if labels else None


def pod(uid: str = "u1", **labels: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "training", "name": "one", "uid": uid, "labels": labels}}


def told(known: Known[str], found: dict[str, Any]) -> list[Present[str] | Absent[str]]:
    return list(known.take_in(ONE, found))


def passed_over() -> float:
    labels = {"plural": "pods"}
    return REGISTRY.get_sample_value("everstep_kube_unreadable_objects_total", labels) or 0.0


def test_a_state_is_told_when_it_is_new() -> None:
    known = Known("pods", read)
    assert told(known, pod(state="a")) == [Present("a")]
    assert told(known, pod(state="a", other="changed")) == []
    assert told(known, pod(state="b")) == [Present("b")]


def test_a_new_uid_under_the_same_name_ends_the_old_object_first() -> None:
    known = Known("pods", read)
    told(known, pod(state="a"))
    assert told(known, pod(uid="u2", state="b")) == [Absent("a"), Present("b")]


def test_what_was_never_of_interest_ends_silently() -> None:
    known = Known("pods", read)
    assert told(known, pod()) == []
    assert list(known.drop(ONE)) == []


def test_what_interests_no_more_keeps_its_last_state_until_its_end() -> None:
    known = Known("pods", read)
    told(known, pod(state="a"))
    assert told(known, pod()) == []
    assert list(known.drop(ONE)) == [Absent("a")]


def test_the_end_tells_the_state_at_the_end() -> None:
    known = Known("pods", read)
    told(known, pod(state="a"))
    assert list(known.drop(ONE, pod(state="b"))) == [Absent("b")]


@pytest.mark.parametrize(
    "metadata",
    [{"labels": ["text"]}, {"labels": 7}, {"labels": {"other": "x"}}, {}],
)
def test_ec53_an_object_that_cannot_be_read_is_counted_and_its_end_still_told(
    metadata: dict[str, Any],
) -> None:
    known, before = Known("pods", read), passed_over()
    told(known, pod(state="a"))
    broken = {"metadata": {"name": "one", "uid": "u1", **metadata}}
    assert told(known, broken) == []
    assert passed_over() == before + 1
    assert list(known.drop(ONE, broken)) == [Absent("a")]


@pytest.mark.parametrize(
    "found", [None, [], "text", {}, {"metadata": None}, {"metadata": {"uid": "u1"}}]
)
def test_ec53_what_has_no_name_is_counted_and_passed_over(found: Any) -> None:
    known, before = Known("pods", read), passed_over()
    assert known.name_of(found) is None
    assert passed_over() == before + 1


def test_ec53_a_node_without_spec_and_status_is_a_node() -> None:
    known = Known("nodes", node_state)
    bare = {"metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}}
    (present,) = known.take_in(Name("", "n"), bare)
    assert isinstance(present, Present)
    assert present.state.ready == "Unknown"
