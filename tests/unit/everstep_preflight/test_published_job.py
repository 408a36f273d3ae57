"""The manifest that everybody copies: every real mistake, and no false one."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from support.preflight import fixed, found
from support.volcano_schemas import volcano_schema

DATA = Path(__file__).parent / "data"
PUBLISHED = (DATA / "published-job.yaml").read_text()
JOB_TO_COPY = Path(__file__).parents[3] / "deploy" / "volcano" / "job.yaml"


@pytest.fixture(scope="module")
def job_schema() -> dict[str, Any]:
    return volcano_schema("batch.volcano.sh_jobs", "v1alpha1")


def test_the_published_job_has_exactly_its_real_mistakes() -> None:
    assert [(finding.rule.id, finding.line) for finding in found(PUBLISHED)] == [
        ("podgroup-by-hand", 3),
        ("endpoint-without-svc", 19),
        ("max-retry-fatal", 21),
        ("task-floor-unset", 25),
        ("policy-ends-survivors", 28),
        ("grace-too-short", 34),
        ("restart-policy", 35),
        ("shared-memory-missing", 37),
        ("agent-missing", 42),
        ("endpoint-on-member", 46),
        ("endpoint-wrong-domain", 46),
    ]


def test_what_is_left_of_the_published_job_needs_a_person() -> None:
    left = fixed(PUBLISHED).left
    assert [finding.rule.id for finding in left] == ["agent-missing", "endpoint-on-member"]
    assert all(finding.advice and not finding.fix for finding in left)


def test_fixing_the_published_job_twice_changes_nothing_more() -> None:
    once = fixed(PUBLISHED).sources[0].text
    assert fixed(once).sources[0].text == once


def test_a_fix_keeps_comments_and_every_line_that_was_right() -> None:
    after = fixed(PUBLISHED).sources[0].text
    assert after.startswith(PUBLISHED.splitlines()[0])
    gone = set(PUBLISHED.splitlines()) - set(after.splitlines())
    assert {line.strip() for line in gone} == {
        "---",
        "apiVersion: scheduling.volcano.sh/v1beta1",
        "kind: PodGroup",
        "name: llama-70b-elastic-ft-pg",
        "minMember: 6",
        "minResources:",
        "nvidia.com/gpu: 48",
        "policies:",
        "- event: PodFailed",
        "action: RestartTask",
        "restartPolicy: OnFailure",
        "--rdzv_endpoint=llama-70b-elastic-ft-worker-0.ai-training:29500 \\",
        "priorityClassName: train-high-priority",
        "queue: prod-training-queue",
    } - {line.strip() for line in after.splitlines()}


def test_ec44_the_priority_of_a_podgroup_that_nobody_is_in_moves_to_the_job() -> None:
    (job,) = yaml.safe_load_all(fixed(PUBLISHED).sources[0].text)
    assert job["spec"]["priorityClassName"] == "train-high-priority"


def test_the_fixed_job_fits_volcanos_own_schema(job_schema: dict[str, Any]) -> None:
    (job,) = yaml.safe_load_all(fixed(PUBLISHED).sources[0].text)
    jsonschema.validate(job, job_schema)


def test_the_schema_would_see_a_field_that_volcano_does_not_know(
    job_schema: dict[str, Any],
) -> None:
    (job,) = yaml.safe_load_all(fixed(PUBLISHED).sources[0].text)
    job["spec"]["tasks"][0]["minAvailible"] = 6
    with pytest.raises(jsonschema.ValidationError, match="minAvailible"):
        jsonschema.validate(job, job_schema)


def test_the_job_to_copy_is_clean_and_fits_the_schema(job_schema: dict[str, Any]) -> None:
    text = JOB_TO_COPY.read_text()
    assert found(text) == ()
    jsonschema.validate(yaml.safe_load(text), job_schema)
