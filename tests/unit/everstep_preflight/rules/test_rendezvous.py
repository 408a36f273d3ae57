"""Endpoints of plain torchrun, and what fixes a world for the life of a pod."""

import pytest
from support.preflight import GOOD_JOB, TORCHRUN_JOB, fixed, fixed_text, found, rules

SVC = "spec:\n  plugins:\n    svc: []\n"


def meeting_at(endpoint: str, plugins: str = SVC) -> str:
    return TORCHRUN_JOB.replace("ENDPOINT", endpoint).replace("spec:\n", plugins, 1)


def endpoint_rules(text: str) -> list[str]:
    return [rule for rule in rules(text) if rule != "agent-missing"]


@pytest.mark.parametrize("index", range(8))
def test_ec11_a_rendezvous_on_any_member_is_found(index: int) -> None:
    text = meeting_at(f"llama-worker-{index}.llama:29500")
    assert endpoint_rules(text) == ["endpoint-on-member"]


@pytest.mark.parametrize(
    "endpoint",
    ["$(VC_WORKER_HOSTS):29500", "${VC_WORKER_0_HOSTS}:29500", "$VC_WORKER_HOSTS"],
)
def test_ec11_a_member_named_by_a_variable_of_the_plugin_is_found(endpoint: str) -> None:
    assert endpoint_rules(meeting_at(endpoint)) == ["endpoint-on-member"]


@pytest.mark.parametrize(
    "endpoint", ["etcd.infra:2379", "10.0.0.9:29500", "llama-worker-9:1", "$X"]
)
def test_a_rendezvous_elsewhere_is_no_mistake(endpoint: str) -> None:
    assert endpoint_rules(meeting_at(endpoint)) == []


@pytest.mark.parametrize(
    "host",
    [
        "llama-worker-0.llama",
        "llama-worker-0.llama.training",
        "llama-worker-0.llama.training.svc",
        "llama-worker-0.llama.training.svc.cluster.local",
    ],
)
def test_every_form_of_a_pods_name_resolves(host: str) -> None:
    assert endpoint_rules(meeting_at(f"{host}:29500")) == ["endpoint-on-member"]


@pytest.mark.parametrize(
    "host",
    [
        "llama-worker-0",
        "llama-worker-0.training",
        "llama-worker-0.llama.elsewhere.svc",
        "llama-worker-0.llama.training.pod.cluster.local",
    ],
)
def test_a_name_that_no_pod_has_is_put_right(host: str) -> None:
    text = meeting_at(f"{host}:29500")
    assert "endpoint-wrong-domain" in endpoint_rules(text)
    assert fixed_text(text) == meeting_at("llama-worker-0.llama:29500")


def test_without_the_svc_plugin_no_name_resolves() -> None:
    text = meeting_at("llama-worker-0.llama:29500", plugins="spec:\n")
    assert endpoint_rules(text) == ["endpoint-on-member", "endpoint-without-svc"]
    assert endpoint_rules(fixed_text(text)) == ["endpoint-on-member"]


def test_a_service_of_ones_own_may_give_the_name() -> None:
    service = (
        "apiVersion: v1\nkind: Service\nmetadata: {name: llama-worker-0, namespace: training}\n"
    )
    text = meeting_at("llama-worker-0.training:29500", plugins="spec:\n")
    assert "endpoint-wrong-domain" not in rules(text, service)
    assert "endpoint-without-svc" not in rules(text, service)


def test_an_endpoint_in_a_shell_script_is_found_on_its_line() -> None:
    script = "          command: [bash, -c]\n          args:\n          - |\n            set -e\n"
    script += "            torchrun \\\n              --nnodes=6:8 \\\n"
    script += (
        "              --rdzv_endpoint llama-worker-0.llama:29500 \\\n              train.py\n"
    )
    start = GOOD_JOB.index("          command:")
    text = GOOD_JOB[:start] + script + GOOD_JOB[GOOD_JOB.index("          envFrom:") :]
    finding = next(f for f in found(text) if f.rule.id == "endpoint-on-member")
    assert "--rdzv_endpoint" in text.splitlines()[finding.line - 1]


def test_an_endpoint_in_a_variable_of_the_manifest_is_put_right_there() -> None:
    env = "          env:\n          - name: STORE\n            value: llama-worker-0.training\n"
    text = meeting_at("$(STORE):29500").replace("          envFrom:", f"{env}          envFrom:")
    lines = {finding.rule.id: finding.line for finding in found(text)}
    assert text.splitlines()[lines["endpoint-on-member"] - 1].strip().startswith("value: llama")
    assert "value: llama-worker-0.llama\n" in fixed_text(text)


def test_ec41_the_plugin_that_fixes_the_world_size_is_removed() -> None:
    text = GOOD_JOB.replace("spec:\n", "spec:\n  plugins:\n    pytorch: []\n    svc: []\n", 1)
    assert rules(text) == ["static-world-plugin"]
    assert rules(fixed_text(text)) == []


def test_ec41_a_script_that_reads_the_plugins_variables_needs_a_person() -> None:
    text = meeting_at("$MASTER_ADDR:29500", plugins="spec:\n  plugins:\n    pytorch: []\n")
    text = text.replace("/app/train.py", "train.py, $WORLD_SIZE")
    left = [finding.rule.id for finding in fixed(text).left]
    assert left == ["static-world-plugin", "endpoint-on-member", "agent-missing"]


def test_ec41_a_world_size_in_the_manifest_is_removed_under_an_agent() -> None:
    env = (
        "          env:\n          - name: WORLD_SIZE\n            value: '64'\n          envFrom:"
    )
    text = GOOD_JOB.replace("          envFrom:", env)
    assert rules(text) == ["static-world-variables"]
    assert fixed_text(text) == GOOD_JOB
