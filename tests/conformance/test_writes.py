"""Writes: what is a conflict, what overwrites silently and what a patch takes away."""

import secrets
from collections.abc import Iterator

import pytest
from support.conformance.api import APPLY, MERGE, STRATEGIC, Answer, Api, Json
from support.conformance.fake_nodes import LEASES, NODES, node_manifest, ready_condition, taint
from support.conformance.ground import PREFIX, Ground
from support.conformance.probing import Probes

TRIES = 5
"""Controllers of a real cluster write to a new node as well; then a test looks once more."""


class Thing:
    """One object of one test."""

    def __init__(self, api: Api, path: str) -> None:
        self.api = api
        self.path = path

    def get(self) -> Json:
        return self.api.get(self.path).expect(200)

    def patch(self, body: object, content_type: str = MERGE) -> Answer:
        return self.api.patch(self.path, body, content_type)


@pytest.fixture
def node(api: Api, run: str) -> Iterator[Thing]:
    name = f"{PREFIX}{run}-{secrets.token_hex(3)}"
    api.post(NODES, node_manifest(name, run)).expect(201)
    try:
        yield Thing(api, f"{NODES}/{name}")
    finally:
        api.delete(f"{NODES}/{name}")
        api.delete(f"{LEASES}/{name}")


@pytest.fixture
def map_(api: Api, ground: Ground) -> Thing:
    name = f"map-{secrets.token_hex(3)}"
    api.post(ground.path("configmaps"), {"metadata": {"name": name}}).expect(201)
    return Thing(api, f"{ground.path('configmaps')}/{name}")


def label(word: str, **metadata: str) -> Json:
    return {"metadata": {"labels": {"word": word}, **metadata}}


def taints(node: Thing) -> set[str]:
    return {one["key"] for one in node.get()["spec"].get("taints") or ()}


def test_a_name_that_is_taken_is_409_already_exists(map_: Thing) -> None:
    """One of the two meanings of 409; the reason tells them apart."""
    collection, _, name = map_.path.rpartition("/")
    answer = map_.api.post(collection, {"metadata": {"name": name}})
    assert (answer.status, answer.reason) == (409, "AlreadyExists")


def test_a_put_with_a_stale_revision_is_409_conflict(map_: Thing) -> None:
    """The other meaning."""
    stale = map_.get()
    map_.patch(label("new")).expect(200)
    answer = map_.api.put(map_.path, {**stale, "data": {"a": "b"}})
    assert (answer.status, answer.reason) == (409, "Conflict")


def test_a_put_without_a_revision_overwrites_a_node_and_undoes_its_cordon(node: Thing) -> None:
    """Nobody is told that a cordon was lost."""

    def put_over_a_cordon() -> bool:
        old = node.get()
        node.patch({"spec": {"unschedulable": True}}).expect(200)
        for field in ("resourceVersion", "managedFields"):
            old["metadata"].pop(field, None)
        old["spec"].pop("unschedulable", None)
        return node.api.put(node.path, old).status == 200

    # Once, a controller may give the node its address range in between, which none may take away.
    assert any(put_over_a_cordon() for _ in range(TRIES))
    assert not node.get()["spec"].get("unschedulable")


def test_a_put_without_a_revision_is_refused_for_a_lease(api: Api, ground: Ground) -> None:
    leases = ground.path("leases", "coordination.k8s.io/v1")
    body = {"metadata": {"name": "one"}, "spec": {"holderIdentity": "me"}}
    api.post(leases, body).expect(201)
    answer = api.put(f"{leases}/one", body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.fields == {"metadata.resourceVersion"}


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
def test_a_patch_has_no_precondition_of_its_own(content_type: str, map_: Thing) -> None:
    map_.patch(label("one")).expect(200)
    assert map_.patch(label("two"), content_type).status == 200


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
def test_a_patch_that_names_a_stale_revision_is_409(content_type: str, map_: Thing) -> None:
    stale = map_.get()["metadata"]["resourceVersion"]
    map_.patch(label("one")).expect(200)
    answer = map_.patch(label("two", resourceVersion=stale), content_type)
    assert (answer.status, answer.reason) == (409, "Conflict")


def test_a_patch_that_names_another_uid_is_409(map_: Thing) -> None:
    answer = map_.patch(label("one", uid="00000000-0000-4000-8000-000000000000"))
    assert (answer.status, answer.reason) == (409, "Conflict")


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
def test_a_patch_replaces_all_taints_of_a_node(content_type: str, node: Thing) -> None:
    """The strategic patch as well, which merges other lists."""
    first, second = ({"spec": {"taints": [taint(f"everstep.dev/{n}")]}} for n in ("one", "two"))
    node.patch(first, content_type).expect(200)
    node.patch(second, content_type).expect(200)
    assert "everstep.dev/two" in taints(node)
    assert "everstep.dev/one" not in taints(node)


def test_a_json_patch_whose_test_fails_is_422_without_an_explanation(node: Thing) -> None:
    """Not a 409."""
    operations = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "add", "path": "/spec/unschedulable", "value": True},
    ]
    answer = node.patch(operations)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == set()
    assert not node.get()["spec"].get("unschedulable")


def test_a_strategic_patch_merges_conditions_by_type(node: Thing) -> None:
    status = f"{node.path}/status"
    node.api.patch(status, {"status": {"conditions": [ready_condition()]}}, STRATEGIC).expect(200)
    more = {**ready_condition(), "type": "EverstepFit"}
    node.api.patch(status, {"status": {"conditions": [more]}}, STRATEGIC).expect(200)
    kinds = {one["type"] for one in node.get()["status"]["conditions"]}
    assert {"Ready", "EverstepFit"} <= kinds


def test_a_merge_patch_of_conditions_drops_the_others_even_ready(node: Thing) -> None:
    status = f"{node.path}/status"
    fit = {**ready_condition(), "type": "EverstepFit"}
    odd = {**ready_condition(), "type": "EverstepOdd"}
    node.api.patch(status, {"status": {"conditions": [fit]}}, STRATEGIC).expect(200)
    node.api.patch(status, {"status": {"conditions": [odd]}}, MERGE).expect(200)
    kinds = {one["type"] for one in node.get()["status"]["conditions"]}
    assert "EverstepOdd" in kinds
    assert "EverstepFit" not in kinds


def test_a_patch_that_changes_nothing_keeps_the_revision(node: Thing) -> None:
    """And so no watcher hears of it."""
    cordon = {"spec": {"unschedulable": True}}
    node.patch(cordon).expect(200)

    def unchanged() -> bool:
        before = node.get()["metadata"]["resourceVersion"]
        return bool(node.patch(cordon).version == before)

    assert any(unchanged() for _ in range(TRIES))


def test_a_dry_run_is_answered_and_changes_nothing(map_: Thing) -> None:
    answer = map_.api.patch(f"{map_.path}?dryRun=All", label("tried"))
    assert answer.expect(200)["metadata"]["labels"] == {"word": "tried"}
    assert "labels" not in map_.get()["metadata"]


def test_an_unknown_form_of_patch_is_415(map_: Thing) -> None:
    answer = map_.api.call("PATCH", map_.path, label("one"), "application/json")
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


def test_a_node_is_created_with_its_status_and_as_not_ready(api: Api, run: str) -> None:
    """Unlike a pod, a node keeps the status it is created with. Admission adds the taint."""
    name = f"{PREFIX}{run}-{secrets.token_hex(3)}"
    try:
        made = api.post(NODES, node_manifest(name, run)).expect(201)
        assert made["status"]["capacity"]["pods"] == "110"
        assert taint("node.kubernetes.io/not-ready") in made["spec"]["taints"]
    finally:
        api.delete(f"{NODES}/{name}").expect(200)


def test_a_cordon_gets_its_taint_and_loses_it_again(probes: Probes, node: Thing) -> None:
    """From the node controller, within moments."""
    probes.need("node controller")
    key = "node.kubernetes.io/unschedulable"
    with node.api.watch(NODES, fieldSelector=f"metadata.name={node.path.split('/')[-1]}") as watch:
        node.patch({"spec": {"unschedulable": True}}).expect(200)
        watch.until(lambda event: taint(key) in _without_times(event))
        node.patch({"spec": {"unschedulable": None}}).expect(200)
        watch.until(lambda event: taint(key) not in _without_times(event))


def _without_times(event: Json) -> list[Json]:
    given = event["object"]["spec"].get("taints") or ()
    return [{"key": one["key"], "effect": one["effect"]} for one in given]


def test_a_field_that_another_manager_applied_is_a_conflict(node: Thing) -> None:
    """Server-side apply: 409 with the cause FieldManagerConflict."""
    _apply(node, "one", {"word": "spare"})
    answer = _apply(node, "two", {"word": "active"})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert answer.causes == {"FieldManagerConflict"}


def test_leaving_out_a_field_removes_it_only_if_no_other_manager_applied_it(node: Thing) -> None:
    """A cordon that two managers applied stays when one of them leaves it out."""
    _apply(node, "one", {"word": "one"}, unschedulable=True).expect(200)
    _apply(node, "two", {}, unschedulable=True).expect(200)
    _apply(node, "one", {}).expect(200)
    assert node.get()["spec"]["unschedulable"] is True
    assert "word" not in node.get()["metadata"].get("labels", {})


def _apply(node: Thing, manager: str, labels: dict[str, str], **spec: object) -> Answer:
    name = node.path.rpartition("/")[2]
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }
    answer = node.api.patch(f"{node.path}?fieldManager={manager}", body, APPLY)
    if answer.status == 415:
        pytest.skip("server-side apply is not served")
    return answer
