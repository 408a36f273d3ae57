"""Budgets that let no node be drained."""

import pytest
from support.preflight import GOOD_JOB, fixed, rules


def budget(*, label: str = "volcano.sh/job-name: llama", **spec: str) -> str:
    lines = "".join(f"  {name}: {value}\n" for name, value in spec.items())
    head = "apiVersion: policy/v1\nkind: PodDisruptionBudget\n"
    head += "metadata: {name: llama, namespace: training}\nspec:\n"
    return f"{head}{lines}  selector:\n    matchLabels: {{{label}}}\n"


@pytest.mark.parametrize(
    "spec",
    [
        {"minAvailable": "8"},
        {"minAvailable": "100%"},
        {"minAvailable": "75%"},
        {"maxUnavailable": "0"},
        {"maxUnavailable": "1"},
    ],
)
def test_a_budget_that_allows_no_eviction_is_lowered_to_the_floor(spec: dict[str, str]) -> None:
    assert rules(GOOD_JOB, budget(**spec)) == ["budget-blocks"]
    result = fixed(GOOD_JOB, budget(**spec))
    assert result.left == ()
    assert "minAvailable: 6" in result.sources[1].text
    assert "maxUnavailable" not in result.sources[1].text


def test_a_budget_that_leaves_room_is_no_mistake() -> None:
    assert rules(GOOD_JOB, budget(minAvailable="6")) == []


def test_a_budget_by_the_templates_own_labels_is_seen() -> None:
    assert rules(GOOD_JOB, budget(minAvailable="8", label="app: llama")) == ["budget-blocks"]


def test_a_budget_of_other_pods_is_no_business_of_the_job() -> None:
    assert rules(GOOD_JOB, budget(minAvailable="8", label="app: other")) == []
