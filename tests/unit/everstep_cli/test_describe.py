"""Events in words."""

import pytest
from everstep_cli.describe import line_of
from everstep_contract.base import Event
from everstep_contract.examples import EXAMPLES
from everstep_contract.facts.member import MemberSuspected
from everstep_contract.facts.worker import CollectiveFailed

EVENTS = [example for example in EXAMPLES.values() if isinstance(example, Event)]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.TYPE)
def test_every_event_is_one_line(event: Event) -> None:
    assert "\n" not in line_of(event)


@pytest.mark.parametrize(
    ("message_type", "words"),
    [
        ("everstep.member.suspected.v1", "llama.ft-worker-7  connection_stale after 0.70 s"),
        ("everstep.job.verdict_reached.v1", "shrink, generation 8: 7 survivors"),
        ("everstep.worker.exited.v1", "local rank 3, signal 9 (killed)"),
        ("everstep.incident.ended.v1", "resumed: 7 survivors"),
        ("everstep.node.observed.v1", "ready: Unknown NodeStatusUnknown: Kubelet stopped"),
        ("everstep.node.observed.v1", "cordoned by others; GpuXidError 79"),
        ("everstep.job.pod_observed.v1", "terminating; preempted, as planned; train terminated: "),
        ("everstep.job.pod_observed.v1", "OOMKilled, exit code 137, restarted 1 times"),
    ],
)
def test_a_line_says_what_matters(message_type: str, words: str) -> None:
    event = EXAMPLES[message_type]
    assert isinstance(event, Event)
    assert words in line_of(event)


def test_a_long_text_is_cut_between_words() -> None:
    failed = EXAMPLES[CollectiveFailed.TYPE]
    assert isinstance(failed, CollectiveFailed)
    said = line_of(failed.model_copy(update={"detail": "connection reset " * 100}))
    assert said.endswith((" connection ...", " reset ..."))


def test_a_suspicion_without_silence_speaks_of_none() -> None:
    suspected = EXAMPLES[MemberSuspected.TYPE]
    assert isinstance(suspected, MemberSuspected)
    said = line_of(suspected.model_copy(update={"silence_seconds": 0.001}))
    assert said.endswith("connection_stale, says node_watcher")
