"""PodGroups that lie beside a Job."""

import yaml
from support.preflight import GOOD_JOB, fixed, found, pod_group, rules

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: lone
  namespace: training
  annotations: {scheduling.k8s.io/group-name: by-hand}
spec:
  containers:
  - name: any
    image: registry.example/any:1
    resources: {limits: {nvidia.com/mem: 2Gi}}
"""


def test_a_podgroup_beside_a_job_goes_in_whichever_file_it_is() -> None:
    result = fixed(pod_group("llama-pg"), GOOD_JOB)
    assert [finding.rule.id for finding in result.fixed] == ["podgroup-by-hand"]
    assert [source.text for source in result.sources] == ["", GOOD_JOB]


def test_a_podgroup_with_the_jobs_own_name_is_overwritten() -> None:
    (finding,) = found(GOOD_JOB, pod_group("llama"))
    assert "is overwritten from Job llama" in finding.message


def test_what_only_the_podgroup_says_is_told_and_moved() -> None:
    more = "minMember: 5\nqueue: fast\npriorityClassName: high"
    group = pod_group("llama-pg", more)
    (finding,) = found(group, GOOD_JOB)
    assert "queue fast is lost" in finding.message
    assert "minMember 5 is not the Job's minAvailable 6" in finding.message
    spec = yaml.safe_load(fixed(group, GOOD_JOB).sources[1].text)["spec"]
    assert (spec["queue"], spec["priorityClassName"]) == ("fast", "high")


def test_a_podgroup_of_another_namespace_is_no_business_of_the_job() -> None:
    group = pod_group("llama-pg").replace("training", "elsewhere")
    assert rules(group, GOOD_JOB) == []


def test_a_podgroup_that_volcano_made_is_left_alone() -> None:
    owned = pod_group("llama-0a1b").replace(
        "spec:", "  ownerReferences: [{kind: Job, name: llama}]\nspec:"
    )
    assert rules(owned, GOOD_JOB) == []


def test_a_podgroup_that_a_pod_names_is_left_alone() -> None:
    assert rules(pod_group("by-hand"), POD, GOOD_JOB) == []


def test_min_resources_below_what_the_members_ask_for_are_found() -> None:
    group = pod_group("by-hand", "minMember: 3\nminResources: {nvidia.com/mem: 4Gi}")
    (finding,) = found(group, POD)
    assert finding.rule.id == "min-resources-differ"
    assert "nvidia.com/mem: 6Gi" in fixed(group, POD).sources[0].text


def test_min_resources_that_match_are_no_mistake() -> None:
    group = pod_group("by-hand", "minMember: 3\nminResources: {nvidia.com/mem: 6144Mi}")
    assert rules(group, POD) == []
