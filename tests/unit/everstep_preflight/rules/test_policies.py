"""Policies: which of them end survivors, which spend retries, which are none."""

import pytest
from support.preflight import GOOD_JOB, fixed, fixed_text, found, rules, with_policies

LIVING = GOOD_JOB.replace("  name: llama\n", "  name: llama\n  uid: 0a1b\n", 1)


def test_a_job_done_right_is_clean() -> None:
    assert found(GOOD_JOB) == ()


@pytest.mark.parametrize("event", ["PodFailed", "PodEvicted", "Unknown", "PodPending", "'*'", "*"])
@pytest.mark.parametrize("action", ["RestartJob", "RestartTask", "TerminateJob", "CompleteJob"])
def test_ec08_a_policy_that_answers_one_loss_with_many_is_found(event: str, action: str) -> None:
    policy = f"{event.strip(chr(39))} -> {action}"
    assert rules(with_policies(policy)) == ["policy-ends-survivors"]


def test_ec08_the_finding_names_the_policy_and_its_line() -> None:
    text = with_policies("PodEvicted -> RestartJob")
    (finding,) = found(text)
    assert finding.message.startswith("PodEvicted -> RestartJob: ")
    assert text.splitlines()[finding.line - 1].strip() == "- event: 'PodEvicted'"
    assert fixed_text(text) == GOOD_JOB


def test_ec08_a_policy_of_a_task_is_found_too() -> None:
    text = with_policies("PodFailed -> RestartTask", before="    template:")
    assert rules(text) == ["policy-ends-survivors"]
    assert fixed_text(text) == GOOD_JOB


@pytest.mark.parametrize("event", ["PodEvicted", "PodFailed"])
def test_ec54_a_policy_that_makes_each_preemption_cost_a_retry_is_found(event: str) -> None:
    (finding,) = found(with_policies(f"{event} -> RestartPod"))
    assert finding.rule.id == "policy-spends-retries"
    assert "loss number 3 ends the job" in finding.message


def test_ec54_a_higher_max_retry_only_moves_the_end() -> None:
    text = with_policies("PodEvicted -> RestartPod").replace(
        "spec:\n", "spec:\n  maxRetry: 50\n", 1
    )
    assert rules(text) == ["max-retry-fatal", "policy-spends-retries"]
    assert rules(fixed_text(text)) == []


def test_a_max_retry_of_one_lets_no_one_resume_the_job() -> None:
    text = GOOD_JOB.replace("spec:\n", "spec:\n  maxRetry: 1\n", 1)
    assert rules(text) == ["max-retry-fatal"]
    assert fixed_text(text) == GOOD_JOB


@pytest.mark.parametrize("limit", [0, 3, 100])
def test_max_retry_alone_is_no_mistake(limit: int) -> None:
    assert rules(GOOD_JOB.replace("spec:\n", f"spec:\n  maxRetry: {limit}\n", 1)) == []


def test_completing_a_job_when_a_task_is_complete_is_no_mistake() -> None:
    assert rules(with_policies("TaskCompleted -> CompleteJob")) == []


def test_a_harmless_policy_stays_when_its_neighbour_goes() -> None:
    text = with_policies("PodFailed -> RestartTask", "TaskCompleted -> CompleteJob")
    assert fixed_text(text) == with_policies("TaskCompleted -> CompleteJob")


@pytest.mark.parametrize("policy", ["PodFailed -> RestartAll", "PodVanished -> ResumeJob"])
def test_a_policy_that_the_webhook_refuses_needs_a_person(policy: str) -> None:
    (finding,) = fixed(with_policies(policy)).left
    assert finding.rule.id == "policy-refused"


def test_an_event_for_all_stands_alone() -> None:
    text = with_policies("* -> ResumeJob", "TaskCompleted -> CompleteJob")
    assert rules(text) == ["policy-refused"]


def test_policies_in_braces_are_removed_too() -> None:
    harmless = "{event: TaskCompleted, action: CompleteJob}"
    flow = f"  policies: [{{event: PodFailed, action: RestartJob}}, {harmless}]"
    text = GOOD_JOB.replace("  tasks:", f"{flow}\n  tasks:")
    after = fixed_text(text)
    assert "policies: [{event: TaskCompleted, action: CompleteJob}]" in after


def test_several_events_and_exit_codes_are_read() -> None:
    lines = "  policies:\n  - events: [PodEvicted, PodFailed]\n    action: RestartPod\n"
    lines += "  - exitCode: 3\n    action: RestartJob\n"
    text = GOOD_JOB.replace("  tasks:", f"{lines}  tasks:")
    assert rules(text) == ["policy-ends-survivors", "policy-spends-retries"]


def test_ec19_a_job_that_is_there_has_to_be_made_anew_for_its_policies() -> None:
    text = with_policies("PodFailed -> RestartJob").replace(
        "  name: llama\n", "  name: llama\n  uid: 0a1b\n", 1
    )
    (finding,) = found(text)
    assert finding.recreate


def test_ec19_counts_are_changed_in_place() -> None:
    (finding,) = found(LIVING.replace("    minAvailable: 6\n", ""))
    assert (finding.rule.id, finding.recreate) == ("task-floor-unset", False)
