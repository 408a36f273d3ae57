"""Selectors choose by labels and by the fields that a kind allows."""

import pytest
from everstep_simcluster.api_errors import ApiError
from everstep_simcluster.resources import JOBS, NODES, PODS, Object
from everstep_simcluster.selectors import matches_label_selector, parse_selection


def pod(**labels: str) -> Object:
    return {"metadata": {"name": "one", "labels": labels}, "spec": {"nodeName": "node-0"}}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("app=train", True),
        ("app==train", True),
        ("app!=train", False),
        ("absent!=train", True),
        ("app", True),
        ("!app", False),
        ("app in (train, serve)", True),
        ("app notin (train)", False),
        ("app in (train),task=worker", True),
        ("app=train,task=other", False),
        ("", True),
    ],
)
def test_label_selectors_read_as_kubernetes_reads_them(selector: str, matches: bool) -> None:
    selection = parse_selection(PODS, selector, "")
    assert selection.matches(pod(app="train", task="worker")) is matches


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("spec.nodeName=node-0", True),
        ("spec.nodeName!=node-0", False),
        ("status.phase=", True),
        ("metadata.name=one,spec.nodeName=node-1", False),
    ],
)
def test_pods_are_chosen_by_node_phase_and_name(selector: str, matches: bool) -> None:
    assert parse_selection(PODS, "", selector).matches(pod()) is matches


@pytest.mark.parametrize(("spec", "wanted"), [({"unschedulable": True}, "true"), ({}, "false")])
def test_a_flag_that_is_left_out_is_false(spec: Object, wanted: str) -> None:
    node = {"metadata": {"name": "node-0"}, "spec": spec}
    assert parse_selection(NODES, "", f"spec.unschedulable={wanted}").matches(node)


@pytest.mark.parametrize("field", ["status.state.phase=Running", "spec.priority=1", "nonsense"])
def test_other_fields_are_refused(field: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse_selection(JOBS, "", field)
    assert refused.value.code == 400


def test_a_broken_label_selector_is_refused() -> None:
    with pytest.raises(ApiError, match="unable to parse requirement"):
        parse_selection(PODS, "app=(", "")


@pytest.mark.parametrize(
    ("operator", "values", "matches"),
    [
        ("In", ["train"], True),
        ("NotIn", ["train"], False),
        ("Exists", None, True),
        ("DoesNotExist", None, False),
    ],
)
def test_expressions_of_a_budget_choose_pods(
    operator: str, values: list[str] | None, matches: bool
) -> None:
    expression = {"key": "app", "operator": operator, "values": values}
    selector = {"matchExpressions": [expression]}
    assert matches_label_selector(selector, {"app": "train"}) is matches
