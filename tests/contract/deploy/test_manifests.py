"""The manifests are what a Kubernetes 1.36 takes in, and refer to nothing that is not there."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from support.manifests import (
    KUSTOMIZATIONS,
    OVERLAYS,
    Object,
    of_kind,
    overlay,
    pod_specs,
    workloads,
)

KUBERNETES = "1.36.0"
KUBECTL_SECONDS = 60
SECRETS = {
    "everstep-nats": {"accounts.json", "tls.crt", "tls.key", "ca.crt"},
    "everstep-node-watcher": {
        "ca.crt",
        "everstep-node_watcher.nk",
        "everstep-system.nk",
        "everstep-canary.nk",
    },
    "everstep-adjudicator": {"ca.crt", "everstep-adjudicator.nk"},
    "everstep-rescaler": {"ca.crt", "everstep-rescaler.nk"},
    "everstep-checkpoint-indexer": {"ca.crt", "everstep-checkpoint_indexer.nk"},
}
"""What credentials.sh makes; a test of it compares."""


@pytest.fixture(params=OVERLAYS)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    return overlay(request.param)


def key(one: Object) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


def labels(one: Object) -> Object:
    found: Object = one["spec"]["template"]["metadata"]["labels"]
    return found


def selected(selector: Object, having: Object) -> bool:
    return bool(selector["matchLabels"].items() <= having.items())


def test_each_object_fits_the_schema_of_its_kind(objects: list[Object]) -> None:
    for one in objects:
        kubernetes_validate.validate(one, KUBERNETES, strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("name", OVERLAYS)
def test_kubectl_builds_the_objects_that_the_other_tests_look_at(name: str) -> None:
    folder = KUSTOMIZATIONS / "overlays" / name
    built = subprocess.run(
        ["kubectl", "kustomize", folder],
        capture_output=True, check=True, text=True, timeout=KUBECTL_SECONDS,
    )  # fmt: skip
    by_kubectl = {key(one): one for one in yaml.safe_load_all(built.stdout)}
    assert by_kubectl == {key(one): one for one in overlay(name)}


def test_the_schema_refuses_a_misspelt_field() -> None:
    (one, *_) = workloads(overlay("observe")).values()
    pod = one["spec"]["template"]["spec"]
    pod["containers"][0]["readynessProbe"] = pod["containers"][0].pop("readinessProbe")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(one, KUBERNETES, strict=True)


def test_observing_and_acting_differ_in_nothing_but_the_mode_and_the_rescalers_rights() -> None:
    observing = {key(one): one for one in overlay("observe")}
    acting = {key(one): one for one in overlay("act")}
    assert acting.keys() - observing.keys() == {
        ("ClusterRole", "", "everstep-rescaler-events"),
        ("RoleBinding", "default", "everstep-rescaler-events"),
    }
    assert {found for found in observing if observing[found] != acting[found]} == {
        ("ClusterRole", "", "everstep-rescaler-nodes"),
        ("ClusterRole", "", "everstep-rescaler-jobs"),
        ("Deployment", "everstep", "everstep-rescaler"),
    }


def test_nothing_observes_with_a_right_to_write() -> None:
    roles = of_kind(overlay("observe"), "ClusterRole").values()
    verbs = {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}


def test_each_pod_is_one_that_restricted_namespaces_admit(objects: list[Object]) -> None:
    for pod in pod_specs(objects):
        context = pod["securityContext"]
        assert context["runAsNonRoot"]
        assert context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            inner = container["securityContext"]
            assert inner["allowPrivilegeEscalation"] is False
            assert inner["readOnlyRootFilesystem"] is True
            assert inner["capabilities"] == {"drop": ["ALL"]}


def test_each_container_has_its_probes_and_its_share_of_the_machine(objects: list[Object]) -> None:
    for pod in pod_specs(objects):
        for container in pod["containers"]:
            ports = {port["name"] for port in container["ports"]}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                assert container[probe]["httpGet"]["port"] in ports
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}
            assert "memory" in container["resources"]["limits"]


def test_each_image_is_pinned(objects: list[Object]) -> None:
    images = [container["image"] for pod in pod_specs(objects) for container in pod["containers"]]
    assert all(re.search(r":\d+\.\d+\.\d+", image) for image in images), images


def test_only_who_speaks_to_the_api_server_has_a_token(objects: list[Object]) -> None:
    bound = {
        subject["name"]
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for binding in of_kind(objects, kind).values()
        for subject in binding["subjects"]
    }
    having = {
        pod["serviceAccountName"]
        for pod in pod_specs(objects)
        if pod["automountServiceAccountToken"]
    }
    assert having == bound == {"everstep-node-watcher", "everstep-rescaler"}


def test_each_account_and_role_that_is_named_is_there(objects: list[Object]) -> None:
    accounts, roles = of_kind(objects, "ServiceAccount"), of_kind(objects, "ClusterRole")
    for pod in pod_specs(objects):
        assert accounts[pod["serviceAccountName"]]["metadata"]["namespace"] == "everstep"
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for binding in of_kind(objects, kind).values():
            assert binding["roleRef"]["name"] in roles
            assert all(subject["name"] in accounts for subject in binding["subjects"])


def test_each_file_that_a_container_is_told_of_is_in_a_volume_of_its(objects: list[Object]) -> None:
    for pod in pod_specs(objects):
        secrets = {
            volume["name"]: SECRETS[volume["secret"]["secretName"]]
            for volume in pod["volumes"]
            if "secret" in volume
        }
        for container in pod["containers"]:
            told = {e["value"] for e in container["env"] if e["name"].endswith("_SEED_PATH")}
            mounted = {
                f"{mount['mountPath']}/{file}"
                for mount in container["volumeMounts"]
                for file in secrets.get(mount["name"], ())
                if file.endswith(".nk")
            }
            assert told == mounted


def test_each_server_of_the_bus_has_a_name_under_the_service_that_gives_names(
    objects: list[Object],
) -> None:
    nats = of_kind(objects, "StatefulSet")["everstep-nats"]
    peers = of_kind(objects, "Service")[nats["spec"]["serviceName"]]
    assert peers["spec"]["clusterIP"] == "None"
    names = [
        f"everstep-nats-{index}.everstep-nats-peers.everstep.svc"
        for index in range(nats["spec"]["replicas"])
    ]
    config = of_kind(objects, "ConfigMap")["everstep-nats"]["data"]["nats.conf"]
    assert re.findall(r"nats-route://([^:]+):6222", config) == names
    for pod in of_kind(objects, "Deployment").values():
        env = pod["spec"]["template"]["spec"]["containers"][0]["env"]
        (url,) = [entry["value"] for entry in env if entry["name"] == "EVERSTEP_NATS_URL"]
        assert url.split(",") == [f"tls://{name}:4222" for name in names]


def test_each_workload_of_several_pods_has_a_budget_that_spares_all_but_one(
    objects: list[Object],
) -> None:
    several = {name for name, one in workloads(objects).items() if one["spec"]["replicas"] > 1}
    budgets = of_kind(objects, "PodDisruptionBudget")
    assert budgets.keys() == several
    for name, budget in budgets.items():
        assert budget["spec"]["maxUnavailable"] == 1
        assert selected(budget["spec"]["selector"], labels(workloads(objects)[name]))


def test_each_service_and_policy_selects_pods_that_there_are(objects: list[Object]) -> None:
    there = [labels(one) for one in workloads(objects).values()]
    for service in of_kind(objects, "Service").values():
        assert any(service["spec"]["selector"].items() <= having.items() for having in there)
    for policy in of_kind(objects, "NetworkPolicy").values():
        selector = policy["spec"]["podSelector"]
        if "matchLabels" in selector:
            assert any(selected(selector, having) for having in there), policy["metadata"]


def test_whoever_has_a_bus_or_an_api_server_to_reach_may_reach_it(objects: list[Object]) -> None:
    for name, one in of_kind(objects, "Deployment").items():
        having, pod = labels(one), one["spec"]["template"]["spec"]
        assert having["everstep.dev/bus"] == "client", name
        reaches = having.get("everstep.dev/cluster") == "client"
        assert reaches == pod["automountServiceAccountToken"], name


def test_the_credentials_script_makes_the_secrets_that_pods_mount(tmp_path: Path) -> None:
    script = KUSTOMIZATIONS / "credentials.sh"
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run([script, tmp_path, "training/llama"], env=environment, check=True)
    made = yaml.safe_load((tmp_path / "kustomization.yaml").read_text())["secretGenerator"]
    assert {one["name"]: set(one["files"]) for one in made if one["namespace"] == "everstep"} == (
        SECRETS
    )
    assert [one["name"] for one in made if one["namespace"] == "training"] == ["llama-bus"]
    for one in made:
        assert all((tmp_path / file.rpartition("=")[2]).is_file() for file in one["files"])
    assert set(json.loads((tmp_path / "accounts.json").read_text())["accounts"]) == {
        "SYS",
        "EVERSTEP",
    }
