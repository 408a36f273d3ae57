"""Volcano's kinds as the API server keeps them, and what Volcano's webhook lets pass."""

import secrets
from collections.abc import Iterator

import pytest
from support.conformance.api import MERGE, STRATEGIC, Answer, Json
from support.conformance.ground import Ground
from support.conformance.probing import Probes
from support.conformance.volcano import COMMANDS_API, JOBS_API, POD_GROUPS_API, job_manifest


@pytest.fixture(autouse=True)
def _volcano(probes: Probes) -> None:
    probes.need("volcano kinds")


@pytest.fixture
def job(ground: Ground) -> Iterator[str]:
    """The path of a job that no node has room for: its controllers leave it alone."""
    path = ground.path("jobs", JOBS_API)
    made = ground.api.post(path, roomless(ground, f"job-{secrets.token_hex(3)}")).expect(201)
    name = made["metadata"]["name"]
    yield f"{path}/{name}"
    ground.api.delete(f"{path}/{name}", propagationPolicy="Background")


def roomless(ground: Ground, name: str, **job: object) -> Json:
    body = job_manifest(name, ground.run, **job)  # type: ignore[arg-type]  # passed through
    for task in body["spec"]["tasks"]:
        task["template"]["spec"]["nodeSelector"] = {"everstep.dev/nowhere": "true"}
    return body


def make_job(ground: Ground, body: Json) -> Answer:
    return ground.api.post(ground.path("jobs", JOBS_API), body)


def test_a_strategic_patch_of_a_custom_resource_is_415(ground: Ground, job: str) -> None:
    answer = ground.api.patch(job, {"spec": {"minAvailable": 2}}, STRATEGIC)
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


def test_a_merge_patch_of_the_tasks_loses_their_templates(
    ground: Ground, job: str, probes: Probes
) -> None:
    """200, and no pod can be made any more; only Volcano's webhook stands in between."""
    answer = ground.api.patch(job, {"spec": {"tasks": [{"name": "worker", "replicas": 2}]}}, MERGE)
    (task,) = ground.api.get(job).expect(200)["spec"]["tasks"]
    if probes.missing("volcano webhook"):
        assert answer.status == 200
        assert not task.get("template", {}).get("spec")
    else:
        assert answer.status == 400
        assert task["template"]["spec"]["containers"]


def test_the_status_of_a_job_is_ignored_in_its_main_body(ground: Ground, job: str) -> None:
    """With 200."""
    ground.api.patch(job, {"status": {"retryCount": 77}}, MERGE).expect(200)
    assert ground.api.get(job).expect(200).get("status", {}).get("retryCount") != 77


def test_the_status_of_a_job_has_a_path_of_its_own(ground: Ground, job: str) -> None:
    answer = ground.api.patch(f"{job}/status", {"status": {"retryCount": 1}}, MERGE)
    assert answer.expect(200)["status"]["retryCount"] == 1


def test_a_pod_group_has_no_status_path_and_anybody_overwrites_its_status(ground: Ground) -> None:
    path = ground.path("podgroups", POD_GROUPS_API)
    name = f"group-{secrets.token_hex(3)}"
    body = {
        "apiVersion": POD_GROUPS_API,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": 1, "queue": "default"},
    }
    ground.api.post(path, body).expect(201)
    assert ground.api.patch(f"{path}/{name}/status", {"status": {"failed": 7}}).status == 404
    written = ground.api.patch(f"{path}/{name}", {"status": {"failed": 7}}).expect(200)
    assert written["status"]["failed"] == 7
    deleted = ground.api.delete(f"{path}/{name}").expect(200)
    assert deleted["kind"] == "Status"


def test_a_command_names_its_target_in_full(ground: Ground) -> None:
    """Action, target, reason and message lie at the top; the target needs four words."""
    path = ground.path("commands", COMMANDS_API)
    body = {
        "apiVersion": COMMANDS_API,
        "kind": "Command",
        "metadata": {"generateName": "odd-"},
        "action": "RestartJob",
        "target": {"kind": "Job", "name": "absent"},
    }
    answer = ground.api.post(path, body)
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.fields == {"target.apiVersion", "target.uid"}


def test_custom_resources_are_not_selected_by_other_fields_than_their_name(ground: Ground) -> None:
    path = ground.path("jobs", JOBS_API)
    answer = ground.api.get(path, fieldSelector="status.state.phase=Running")
    assert (answer.status, answer.reason) == (400, "BadRequest")


def test_a_json_patch_of_a_job_whose_test_fails_is_422(ground: Ground, job: str) -> None:
    operations = [
        {"op": "test", "path": "/spec/minAvailable", "value": 99},
        {"op": "replace", "path": "/spec/minAvailable", "value": 1},
    ]
    answer = ground.api.patch(job, operations)
    assert (answer.status, answer.reason) == (422, "Invalid")


def test_a_job_of_a_malformed_number_is_422(ground: Ground) -> None:
    body = {
        "apiVersion": POD_GROUPS_API,
        "kind": "PodGroup",
        "metadata": {"name": "odd"},
        "spec": {"minMember": "two"},
    }
    answer = ground.api.post(ground.path("podgroups", POD_GROUPS_API), body)
    assert (answer.status, answer.reason) == (422, "Invalid")


@pytest.fixture
def webhook(probes: Probes) -> None:
    probes.need("volcano webhook")


@pytest.mark.usefixtures("webhook")
def test_the_webhook_fills_in_retries_the_queue_and_the_tasks_minimum(ground: Ground) -> None:
    """A task's minAvailable becomes its replicas: an elastic job has to say less by itself."""
    body = roomless(ground, "filled")
    for word in ("maxRetry", "queue", "schedulerName"):
        del body["spec"][word]
    for word in ("minAvailable", "name"):
        del body["spec"]["tasks"][0][word]
    made = make_job(ground, body).expect(201)["spec"]
    assert (made["maxRetry"], made["queue"], made["schedulerName"]) == (3, "default", "volcano")
    (task,) = made["tasks"]
    assert (task["minAvailable"], task["maxRetry"], task["name"]) == (3, 3, "default0")


@pytest.mark.usefixtures("webhook")
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/spec/maxRetry", 9),
        ("/spec/policies", [{"event": "PodEvicted", "action": "RestartJob"}]),
        ("/spec/tasks/0/template/spec/restartPolicy", "OnFailure"),
    ],
)
def test_the_webhook_refuses_a_change_of_anything_but_counts(
    path: str, value: object, ground: Ground, job: str
) -> None:
    """400 without a reason."""
    answer = ground.api.patch(job, [{"op": "add", "path": path, "value": value}])
    assert (answer.status, answer.reason) == (400, "")
    assert "denied the request" in answer.body["message"]


@pytest.mark.usefixtures("webhook")
def test_counts_of_a_job_may_be_changed(ground: Ground, job: str) -> None:
    operations = [
        {"op": "replace", "path": "/spec/tasks/0/replicas", "value": 4},
        {"op": "replace", "path": "/spec/minAvailable", "value": 1},
    ]
    spec = ground.api.patch(job, operations).expect(200)["spec"]
    assert (spec["tasks"][0]["replicas"], spec["minAvailable"]) == (4, 1)


@pytest.mark.usefixtures("webhook")
@pytest.mark.parametrize(
    ("path", "value"), [("/spec/tasks/0/replicas", 1), ("/spec/minAvailable", 4)]
)
def test_the_webhook_refuses_fewer_replicas_than_the_minimum(
    path: str, value: int, ground: Ground, job: str
) -> None:
    answer = ground.api.patch(job, [{"op": "replace", "path": path, "value": value}])
    assert (answer.status, answer.reason) == (400, "")


@pytest.mark.usefixtures("webhook")
def test_the_webhook_refuses_an_absent_queue(ground: Ground) -> None:
    answer = make_job(ground, roomless(ground, "queueless", queue="everstep-absent"))
    assert (answer.status, answer.reason) == (400, "")


@pytest.mark.usefixtures("webhook")
def test_the_webhook_refuses_any_event_beside_another(ground: Ground) -> None:
    policies = [
        {"event": "*", "action": "RestartJob"},
        {"event": "PodEvicted", "action": "RestartJob"},
    ]
    answer = make_job(ground, roomless(ground, "anything", policies=policies))
    assert (answer.status, answer.reason) == (400, "")


def test_without_the_webhook_no_retries_are_filled_in(ground: Ground, probes: Probes) -> None:
    """Then the first restart fails the job."""
    if not probes.missing("volcano webhook"):
        pytest.skip("Volcano's webhook is installed")
    body = roomless(ground, "unfilled")
    del body["spec"]["maxRetry"]
    assert not make_job(ground, body).expect(201)["spec"].get("maxRetry")
