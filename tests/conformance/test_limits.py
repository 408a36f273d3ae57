"""Limits of size, Events about nodes, and what is told to whom one does not know."""

import json

import pytest
from support.conformance.api import Api, eventually
from support.conformance.ground import Ground
from support.conformance.probing import Probes, token_request

KIB, MIB = 1024, 1024 * 1024


def test_annotations_are_limited_to_256_kib_in_all(ground: Ground) -> None:
    maps = ground.path("configmaps")
    fits = {"metadata": {"name": "fits", "annotations": {"a": "x" * (256 * KIB - 1)}}}
    ground.api.post(maps, fits).expect(201)
    body = {"metadata": {"name": "big", "annotations": {"a": "x" * (256 * KIB)}}}
    answer = ground.api.post(maps, body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert (answer.causes, answer.fields) == ({"FieldValueTooLong"}, {"metadata.annotations"})


def test_the_data_of_a_map_is_limited_to_one_mib(ground: Ground) -> None:
    body = {"metadata": {"name": "big"}, "data": {"a": "x" * (MIB + 1)}}
    answer = ground.api.post(ground.path("configmaps"), body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == {"FieldValueTooLong"}


def test_a_request_above_three_mib_is_413(ground: Ground) -> None:
    body = {"metadata": {"name": "big"}, "data": {"a": "x" * (3 * MIB)}}
    raw = json.dumps(body).encode()
    answer = ground.api.call("POST", ground.path("configmaps"), raw)
    assert (answer.status, answer.reason) == (413, "RequestEntityTooLarge")


def test_a_label_that_is_none_is_422(ground: Ground) -> None:
    body = {"metadata": {"name": "odd", "labels": {"not a label": "x"}}}
    answer = ground.api.post(ground.path("configmaps"), body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.fields == {"metadata.labels"}


def event_about_a_node(run: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "everstep-conformance-"},
        "involvedObject": {"kind": "Node", "name": f"everstep-conformance-{run}-0"},
        "reason": "Conformance",
        "message": "made and deleted by a test",
    }


def test_an_event_about_a_node_belongs_into_default(ground: Ground) -> None:
    """Nodes have no namespace; elsewhere such an Event is refused."""
    body = event_about_a_node(ground.run)
    elsewhere = ground.api.post(ground.path("events"), body)
    assert (elsewhere.status, elsewhere.reason) == (422, "Invalid")
    assert elsewhere.fields == {"involvedObject.namespace"}
    made = ground.api.post("/api/v1/namespaces/default/events", body).expect(201)
    name = made["metadata"]["name"]
    ground.api.delete(f"/api/v1/namespaces/default/events/{name}").expect(200)


def test_a_lease_time_without_six_digits_is_400(ground: Ground) -> None:
    leases = ground.path("leases", "coordination.k8s.io/v1")
    spec = {"holderIdentity": "me", "renewTime": "2026-11-29T14:16:43Z"}
    answer = ground.api.post(leases, {"metadata": {"name": "odd"}, "spec": spec})
    assert (answer.status, answer.reason) == (400, "BadRequest")


def test_a_group_that_is_not_installed_is_404_without_a_status(api: Api) -> None:
    answer = api.get("/apis/nope.everstep.dev/v1/jobs")
    assert answer.status == 404
    assert answer.body == "404 page not found\n"


@pytest.fixture(scope="module")
def reader(ground: Ground, probes: Probes) -> Api:
    """A ServiceAccount without any rights."""
    probes.need("tokens")
    accounts = ground.path("serviceaccounts")
    ground.api.post(accounts, {"metadata": {"name": "reader"}}).expect(201)
    token = ground.api.post(f"{accounts}/reader/token", token_request(3600)).expect(201)
    return Api(ground.api.kubeconfig, token=token["status"]["token"])


def test_a_token_of_less_than_ten_minutes_is_refused(ground: Ground, probes: Probes) -> None:
    probes.need("tokens")
    path = f"{ground.path('serviceaccounts')}/default/token"
    answer = ground.api.post(path, token_request(60))
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.fields == {"spec.expirationSeconds"}


def test_an_unknown_token_is_401_without_details(api: Api, probes: Probes) -> None:
    probes.need("tokens")
    stranger = Api(api.kubeconfig, token="made-up")  # noqa: S106 - it is a wrong one
    answer = stranger.get("/api/v1/nodes")
    assert (answer.status, answer.reason) == (401, "Unauthorized")
    assert "details" not in answer.body


@pytest.mark.parametrize("namespace", ["default", "everstep-conformance-absent"])
def test_who_may_not_is_told_403_even_of_an_absent_namespace(namespace: str, reader: Api) -> None:
    answer = reader.get(f"/api/v1/namespaces/{namespace}/secrets")
    assert (answer.status, answer.reason) == (403, "Forbidden")


def test_who_may_not_watch_is_told_so_by_the_status_of_http(reader: Api) -> None:
    """Not by an ERROR event."""
    with reader.watch("/api/v1/namespaces/default/events", timeoutSeconds="2") as watch:
        assert watch.status == 403


def test_the_token_of_a_deleted_account_is_refused_soon(ground: Ground, probes: Probes) -> None:
    probes.need("tokens")
    accounts = ground.path("serviceaccounts")
    ground.api.post(accounts, {"metadata": {"name": "brief"}}).expect(201)
    token = ground.api.post(f"{accounts}/brief/token", token_request(3600)).expect(201)
    brief = Api(ground.api.kubeconfig, token=token["status"]["token"])
    assert brief.get("/api/v1/nodes").status in (200, 403)
    ground.api.delete(f"{accounts}/brief").expect(200)
    eventually(lambda: brief.get("/api/v1/nodes").status == 401, "401", within_seconds=20)
