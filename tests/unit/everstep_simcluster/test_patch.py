"""Patches change what they name and nothing else."""

import pytest
from everstep_simcluster.api_errors import ApiError
from everstep_simcluster.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Patch, apply_patch
from everstep_simcluster.resources import JOBS, NODES, PODS, Object
from hypothesis import given
from hypothesis import strategies as st

READY = {"type": "Ready", "status": "True"}
NODE: Object = {
    "metadata": {"name": "node-0", "labels": {"rack": "r0"}},
    "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
    "status": {"conditions": [READY]},
}
names = st.sampled_from("abc")
documents = st.recursive(
    st.integers(0, 3) | names,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(names, documents, max_size=3)


def test_a_strategic_patch_replaces_taints_but_merges_conditions_by_type() -> None:
    patch = {
        "spec": {"taints": [{"key": "b", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "GPU", "status": "False"}]},
    }
    patched = apply_patch(NODES, NODE, Patch(STRATEGIC_PATCH, patch))
    assert patched["spec"]["taints"] == [{"key": "b", "effect": "NoExecute"}]
    assert patched["status"]["conditions"] == [{"type": "GPU", "status": "False"}, READY]


def test_a_merge_patch_replaces_conditions_and_loses_ready() -> None:
    patch = {"status": {"conditions": [{"type": "GPU", "status": "False"}]}}
    patched = apply_patch(NODES, NODE, Patch(MERGE_PATCH, patch))
    assert patched["status"]["conditions"] == [{"type": "GPU", "status": "False"}]


def test_a_strategic_patch_can_delete_an_item_and_replace_a_list() -> None:
    pod = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}}
    removal = {"spec": {"containers": [{"name": "b", "$patch": "delete"}]}}
    assert apply_patch(PODS, pod, Patch(STRATEGIC_PATCH, removal)) == {
        "spec": {"containers": [{"name": "a", "image": "1"}]}
    }
    replacement = {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}}
    assert apply_patch(PODS, pod, Patch(STRATEGIC_PATCH, replacement)) == {
        "spec": {"containers": [{"name": "c"}]}
    }


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
def test_null_takes_a_field_away(content_type: str) -> None:
    patched = apply_patch(NODES, NODE, Patch(content_type, {"metadata": {"labels": None}}))
    assert patched["metadata"] == {"name": "node-0"}


@pytest.mark.parametrize(
    ("content_type", "body", "code"),
    [
        (STRATEGIC_PATCH, {}, 415),
        ("application/json", {}, 415),
        (JSON_PATCH, {"spec": {}}, 400),
        (MERGE_PATCH, [], 400),
        (JSON_PATCH, [{"op": "dance", "path": "/spec"}], 400),
        (JSON_PATCH, [{"op": "test", "path": "/metadata/name", "value": "x"}], 422),
        (JSON_PATCH, [{"op": "remove", "path": "/spec/absent"}], 422),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(content_type: str, body: object, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        apply_patch(JOBS, NODE, Patch(content_type, body))
    assert refused.value.code == code


@given(objects, objects)
def test_a_merge_patch_applied_twice_changes_nothing_more(old: Object, body: Object) -> None:
    once = apply_patch(JOBS, old, Patch(MERGE_PATCH, body))
    assert apply_patch(JOBS, once, Patch(MERGE_PATCH, body)) == once


@given(objects)
def test_merging_an_object_into_nothing_yields_it(body: Object) -> None:
    assert apply_patch(JOBS, {}, Patch(MERGE_PATCH, body)) == body
