"""Fixing whole manifests: what was broken is mended, and nothing is mended twice."""

import json

import yaml
from everstep_preflight.fixing import judged
from hypothesis import given, settings
from hypothesis import strategies as st
from support.preflight import GOOD_JOB, fixed, fixed_text, found, pod_group

BREAKS = {
    "    minAvailable: 6\n": "",
    "  tasks:": "  policies:\n  - event: PodEvicted\n    action: RestartJob\n  tasks:",
    "    template:": "    policies:\n    - {event: PodFailed, action: RestartTask}\n    template:",
    "restartPolicy: Never": "restartPolicy: OnFailure",
    "        terminationGracePeriodSeconds: 60\n": "",
    "            mountPath: /dev/shm\n": "            mountPath: /x\n",
    "  schedulerName: volcano\n": "  plugins: {svc: [], pytorch: []}\n  maxRetry: 5\n",
    "--nnodes=6:8": "--nnodes=5:8",
    "replicas: 8": "replicas: '8'",
    "          envFrom:": "          env: [{name: RANK, value: '0'}]\n          envFrom:",
}
"""What is right -> the same, wrong in a way that needs no person."""


def broken(chosen: set[str]) -> str:
    text = GOOD_JOB
    for right in sorted(chosen, key=list(BREAKS).index):
        text = text.replace(right, BREAKS[right], 1)
    return text


@settings(max_examples=30)  # each is a dozen passes over a text
@given(st.sets(st.sampled_from(sorted(BREAKS)), min_size=1))
def test_whatever_needs_no_person_is_fixed_once_and_for_all(chosen: set[str]) -> None:
    text = broken(chosen)
    assert found(text)
    result = fixed(text)
    # without the task's own floor, the Job's and that of --nnodes are one against one
    unlike = {"    minAvailable: 6\n", "--nnodes=6:8"}
    assert not result.left or unlike <= chosen
    assert fixed_text(result.sources[0].text) == result.sources[0].text


@settings(max_examples=30)  # each is a dozen passes over a text
@given(st.sets(st.sampled_from(sorted(BREAKS)), min_size=1))
def test_json_stays_json(chosen: set[str]) -> None:
    text = json.dumps(yaml.safe_load(broken(chosen)), indent=2)
    after = fixed_text(text)
    assert found(after) == fixed(text).left
    json.loads(after)


def test_a_fix_that_an_anchor_forbids_is_left_to_a_person() -> None:
    shared = "  policies: &both\n  - event: PodFailed\n    action: RestartJob\n"
    shared += "  - {event: TaskCompleted, action: CompleteJob}\n  tasks:"
    text = GOOD_JOB.replace("  tasks:", shared).replace(
        "    template:", "    policies: *both\n    template:"
    )
    result = fixed(text)
    assert result.sources[0].text == text
    unfixed = judged(result.sources, found(text))
    assert [one.advice for one in unfixed] == [one.advice for one in result.left]
    assert [finding.rule.id for finding in result.left] == ["policy-ends-survivors"] * 2
    assert not any(finding.fix for finding in result.left)
    assert "an anchor" in result.left[0].advice


def test_several_podgroups_go_with_the_documents_they_are() -> None:
    text = "---\n".join([pod_group("llama-a"), GOOD_JOB, pod_group("llama-b")])
    assert fixed_text(text).replace("---\n", "") == GOOD_JOB
