"""The eviction API and disruption budgets."""

import secrets
from collections.abc import Iterator

import pytest
from support.conformance.api import Answer, eventually
from support.conformance.fake_nodes import FakeNodes
from support.conformance.ground import Ground
from support.conformance.kubelet import Kubelet
from support.conformance.probing import Probes


@pytest.fixture(autouse=True)
def _clear(ground: Ground) -> Iterator[None]:
    yield
    ground.clear()


@pytest.fixture
def budgets(ground: Ground) -> Iterator[str]:
    path = ground.path("poddisruptionbudgets", "policy/v1")
    yield path
    for budget in ground.api.get(path).expect(200)["items"]:
        ground.api.delete(f"{path}/{budget['metadata']['name']}")


def evict(ground: Ground, pod: str, **query: str) -> Answer:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": ground.namespace},
    }
    return ground.api.post(f"{ground.pods}/{pod}/eviction", body, **query)


def make_budget(ground: Ground, budgets: str, app: str, least: int) -> str:
    name = f"budget-{secrets.token_hex(3)}"
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
    ground.api.post(budgets, {"metadata": {"name": name}, "spec": spec}).expect(201)
    return f"{budgets}/{name}"


def allowed(ground: Ground, budget: str) -> int:
    status = ground.api.get(budget).expect(200)["status"]
    return int(status["disruptionsAllowed"]) if status.get("observedGeneration") else -1


def test_an_eviction_is_201_with_a_status_and_the_pod_says_why(
    ground: Ground, nodes: FakeNodes
) -> None:
    ground.make_pod("one", nodes.names[0])
    answer = evict(ground, "one")
    assert (answer.status, answer.body["kind"], answer.body["status"]) == (201, "Status", "Success")
    pod = ground.pod("one")
    assert pod["metadata"]["deletionTimestamp"]
    conditions = {one["type"]: one for one in pod["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"


def test_an_eviction_that_is_only_tried_is_201_and_harmless(
    ground: Ground, nodes: FakeNodes
) -> None:
    ground.make_pod("one", nodes.names[0])
    assert evict(ground, "one", dryRun="All").status == 201
    assert "deletionTimestamp" not in ground.pod("one")["metadata"]


def test_evicting_an_absent_pod_is_404(ground: Ground) -> None:
    answer = evict(ground, "absent")
    assert (answer.status, answer.reason) == (404, "NotFound")


@pytest.mark.usefixtures("kubelet")
def test_a_spent_budget_is_429_and_says_not_when_to_try_again(
    ground: Ground, nodes: FakeNodes, probes: Probes, budgets: str
) -> None:
    """Two of three may not be missing: the first eviction passes, the second does not."""
    probes.need("disruption controller")
    for index in range(3):
        ground.make_running_pod(f"one-{index}", nodes.names[index], app="spent")
    budget = make_budget(ground, budgets, "spent", 2)
    eventually(lambda: allowed(ground, budget) == 1, "one disruption is allowed")
    assert evict(ground, "one-0", dryRun="All").status == 201
    assert evict(ground, "one-0").status == 201
    answer = evict(ground, "one-1")
    assert (answer.status, answer.reason) == (429, "TooManyRequests")
    assert answer.causes == {"DisruptionBudget"}
    assert "Retry-After" not in answer.headers


@pytest.mark.usefixtures("kubelet")
def test_a_budget_that_is_not_processed_yet_is_429_to_be_tried_in_ten_seconds(
    ground: Ground, nodes: FakeNodes, budgets: str
) -> None:
    """A race with the disruption controller: run as often as it takes to be the first."""
    ground.make_running_pod("one", nodes.names[0], app="hasty")

    def first() -> Answer | None:
        budget = make_budget(ground, budgets, "hasty", 1)
        answer = evict(ground, "one", dryRun="All")
        ground.api.delete(budget)
        assert answer.status == 429
        return answer if "Retry-After" in answer.headers else None

    found = next((answer for _ in range(30) if (answer := first())), None)
    if found is None:
        pytest.skip("the disruption controller is always quicker than an eviction")
    assert found.headers["Retry-After"] == "10"
    assert found.causes == {"DisruptionBudget"}


def test_a_pod_that_does_not_run_yet_is_evicted_whatever_its_budget(
    ground: Ground, nodes: FakeNodes, kubelet: Kubelet, budgets: str
) -> None:
    """Read in the server's source, not seen in a recording."""
    kubelet.die(nodes.names[0])
    ground.make_pod("one", nodes.names[0], app="early")
    make_budget(ground, budgets, "early", 1)
    assert evict(ground, "one").status == 201


def test_a_pod_on_a_tainted_node_is_deleted_within_moments(
    ground: Ground, nodes: FakeNodes, probes: Probes, kubelet: Kubelet
) -> None:
    """NoExecute; a pod that tolerates the taint stays."""
    probes.need("node controller")
    kubelet.die(nodes.names[0])
    mark = {"key": "everstep.dev/out", "effect": "NoExecute"}
    tolerations = [{"operator": "Exists", "key": "everstep.dev/out"}]
    ours = [{"key": "everstep.dev/conformance", "operator": "Exists"}]
    ground.make_pod("leaves", nodes.names[0])
    ground.make_pod("stays", nodes.names[0], tolerations=[*ours, *tolerations])
    nodes.add_taint(nodes.names[0], mark["key"], mark["effect"])
    eventually(lambda: "deletionTimestamp" in ground.pod("leaves")["metadata"], "it is deleted")
    conditions = {one["type"]: one for one in ground.pod("leaves")["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "DeletionByTaintManager"
    assert "deletionTimestamp" not in ground.pod("stays")["metadata"]


@pytest.mark.timeout(400)
def test_a_silent_node_is_unknown_and_tainted_while_its_pods_are_called_running(
    ground: Ground, nodes: FakeNodes, probes: Probes, kubelet: Kubelet
) -> None:
    """And when it reports again before their toleration ends, no pod is evicted."""
    probes.need("node controller")
    name = nodes.names[1]
    before = ground.make_running_pod("one", name)
    nodes.silence(name)
    kubelet.die(name)
    key = "node.kubernetes.io/unreachable"
    both = {(key, "NoSchedule"), (key, "NoExecute")}
    eventually(lambda: both <= nodes.taints(name), "both taints are there", within_seconds=180)
    conditions = {one["type"]: one for one in nodes.get(name)["status"]["conditions"]}
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == (
        "Unknown",
        "NodeStatusUnknown",
    )
    assert ground.pod("one")["status"]["phase"] == "Running"
    nodes.revive(name)
    eventually(lambda: not nodes.taints(name), "the taints are gone")
    after = ground.pod("one")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "deletionTimestamp" not in after["metadata"]


def test_a_scheduled_eviction_is_cancelled_with_an_event(
    ground: Ground, nodes: FakeNodes, probes: Probes
) -> None:
    """A pod that tolerates a taint for a time stays when the taint goes before."""
    probes.need("node controller")
    ours = {"key": "everstep.dev/conformance", "operator": "Exists"}
    toleration = {"key": "everstep.dev/out", "operator": "Exists", "tolerationSeconds": 3600}
    ground.make_pod("cancelled", nodes.names[2], tolerations=[ours, toleration])
    nodes.add_taint(nodes.names[2], "everstep.dev/out", "NoExecute")

    def cancelled() -> bool:
        nodes.add_taint(nodes.names[2], "everstep.dev/out", "NoExecute")
        nodes.remove_taint(nodes.names[2], "everstep.dev/out")
        listed = ground.api.get(
            ground.path("events"), fieldSelector="involvedObject.name=cancelled"
        )
        events = listed.expect(200)["items"]
        return any(event["message"].startswith("Cancelling deletion") for event in events)

    eventually(cancelled, "the eviction is cancelled")
    assert "deletionTimestamp" not in ground.pod("cancelled")["metadata"]
