"""Pods of members."""

import pytest
from everstep_preflight.manifests import SHARED_MEMORY
from support.preflight import GOOD_JOB, TORCHRUN_JOB, fixed_text, found, rules

TOLERATIONS = "        tolerations:\n        - {TOLERATION}\n        containers:"


def tolerating(toleration: str) -> str:
    return GOOD_JOB.replace("        containers:", TOLERATIONS.replace("TOLERATION", toleration), 1)


@pytest.mark.parametrize(
    "line", ["        restartPolicy: OnFailure\n", "        restartPolicy: Always\n", ""]
)
def test_a_pod_that_is_restarted_in_place_is_found(line: str) -> None:
    text = GOOD_JOB.replace("        restartPolicy: Never\n", line)
    assert rules(text) == ["restart-policy"]
    assert rules(fixed_text(text)) == []


def test_a_pod_without_shared_memory_gets_a_volume_and_a_mount() -> None:
    text = GOOD_JOB.replace(SHARED_MEMORY, "/elsewhere")
    assert rules(text) == ["shared-memory-missing"]
    after = fixed_text(text)
    assert rules(after) == []
    assert after.count("name: shm") == text.count("name: shm") + 1  # the volume is there already


def test_a_volume_of_that_name_on_a_disk_is_not_taken_for_memory() -> None:
    text = GOOD_JOB.replace(SHARED_MEMORY, "/elsewhere").replace("medium: Memory", 'medium: ""')
    assert "name: everstep-shm" in fixed_text(text)


def test_a_pod_without_any_volume_gets_one() -> None:
    text = GOOD_JOB.replace(
        "        volumes:\n        - name: shm\n          emptyDir:\n            medium: Memory\n",
        "",
    ).replace(
        "          volumeMounts:\n          - name: shm\n            mountPath: /dev/shm\n", ""
    )
    assert rules(text) == ["shared-memory-missing"]
    assert rules(fixed_text(text)) == []


def test_a_pod_with_the_hosts_shared_memory_is_no_mistake() -> None:
    text = GOOD_JOB.replace(SHARED_MEMORY, "/elsewhere")
    assert rules(text.replace("        volumes:", "        hostIPC: true\n        volumes:")) == []


@pytest.mark.parametrize(
    "toleration",
    [
        "operator: Exists",
        "operator: Exists, effect: NoSchedule",
        "key: everstep.dev/quarantined, operator: Exists",
        "key: node.kubernetes.io/unschedulable, operator: Exists, effect: NoSchedule",
    ],
)
def test_ec22_pods_that_may_return_to_the_bad_machine_are_found(toleration: str) -> None:
    (finding,) = found(tolerating(toleration))
    assert (finding.rule.id, finding.fix) == ("tolerates-quarantine", ())


@pytest.mark.parametrize(
    "toleration",
    [
        "key: nvidia.com/gpu, operator: Exists",
        "operator: Exists, effect: NoExecute",
        "key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute",
    ],
)
def test_tolerations_of_other_taints_are_no_mistake(toleration: str) -> None:
    assert rules(tolerating(toleration)) == []


def test_a_single_pod_that_trains_is_looked_at_too() -> None:
    spec = GOOD_JOB[GOOD_JOB.index("        restartPolicy") :]
    pod = "apiVersion: v1\nkind: Pod\nmetadata:\n        name: lone\nspec:\n" + spec
    assert rules(pod) == []
    assert rules(pod.replace("Never", "Always")) == ["restart-policy"]


def test_a_pod_that_does_not_train_may_restart() -> None:
    pod = "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: web, image: web}]}\n"
    assert rules(pod) == []


def test_plain_torchrun_needs_the_same_pod() -> None:
    text = TORCHRUN_JOB.replace("ENDPOINT", "store.example:29500").replace("Never", "OnFailure")
    assert rules(text) == ["agent-missing", "restart-policy"]
