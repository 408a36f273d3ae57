"""The Volcano Job to copy fits Volcano's own definitions, and the rest of ``deploy/``."""

import jsonschema
import kubernetes_validate
import pytest
from support.manifests import ROOT, Object, kustomized, loaded, of_kind
from support.volcano_schemas import volcano_schema

VOLCANO = ROOT / "deploy" / "volcano"


@pytest.fixture
def job() -> Object:
    (found,) = loaded(VOLCANO / "job.yaml")
    return found


def template(job: Object) -> Object:
    pod: Object = job["spec"]["tasks"][0]["template"]["spec"]
    return pod


def test_the_job_fits_volcanos_definition(job: Object) -> None:
    jsonschema.validate(job, volcano_schema("batch.volcano.sh_jobs", "v1alpha1"))


def test_the_definition_refuses_a_misspelt_field(job: Object) -> None:
    job["spec"]["minAvailible"] = job["spec"].pop("minAvailable")
    with pytest.raises(jsonschema.ValidationError, match="minAvailible"):
        jsonschema.validate(job, volcano_schema("batch.volcano.sh_jobs", "v1alpha1"))


def test_the_queue_fits_volcanos_definition_and_is_the_jobs(job: Object) -> None:
    (queue,) = loaded(VOLCANO / "queue.yaml")
    jsonschema.validate(queue, volcano_schema("scheduling.volcano.sh_queues", "v1beta1"))
    assert job["spec"]["queue"] == queue["metadata"]["name"]


def test_its_pods_fit_the_schema_of_kubernetes(job: Object) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "llama-worker-0"},
        "spec": template(job),
    }
    kubernetes_validate.validate(pod, "1.36.0", strict=True)


def test_the_floor_and_the_full_size_are_the_same_wherever_they_are_said(job: Object) -> None:
    (task,) = job["spec"]["tasks"]
    assert job["spec"]["minAvailable"] == task["minAvailable"] == 6
    assert task["replicas"] == 8
    (container,) = template(job)["containers"]
    assert "--nnodes=6:8" in container["command"]
    assert (
        f"--nproc-per-node={container['resources']['limits']['nvidia.com/gpu']}"
        in (container["command"])
    )
    assert "policies" not in job["spec"]
    assert "policies" not in task


def test_what_it_mounts_is_in_the_namespace_for_jobs(job: Object) -> None:
    there = kustomized(ROOT / "deploy" / "k8s" / "training")
    pod = template(job)
    assert job["metadata"]["namespace"] in of_kind(there, "Namespace")
    assert pod["serviceAccountName"] in of_kind(there, "ServiceAccount")
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert claims == of_kind(there, "PersistentVolumeClaim").keys()


def test_its_checkpoints_are_the_indexers(job: Object) -> None:
    everywhere = kustomized(ROOT / "deploy" / "k8s" / "overlays" / "observe")
    shares = [one["spec"]["nfs"] for one in of_kind(everywhere, "PersistentVolume").values()]
    assert len(shares) == 2
    assert shares[0] == shares[1]
    indexer = of_kind(everywhere, "Deployment")["everstep-checkpoint-indexer"]
    users = {
        pod["securityContext"]["runAsUser"]
        for pod in (indexer["spec"]["template"]["spec"], template(job))
    }
    assert len(users) == 1
