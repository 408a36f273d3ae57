"""What an incident is told as, on the Job."""

from typing import Any

import pytest
from everstep_contract.examples import EXAMPLES
from everstep_contract.facts.incident import IncidentEnded
from everstep_contract.queries import JobStatusReply
from everstep_contract.record import IncidentRecord, JobRecord
from everstep_contract.verdicts import Evidence, EvidenceKind
from everstep_rescaler.sentences import incident_reason, incident_sentence, is_bad


def incident(**changes: Any) -> IncidentRecord:
    ended = EXAMPLES[IncidentEnded.TYPE]
    assert isinstance(ended, IncidentEnded)
    return ended.incident.model_copy(update=changes)


def the_record() -> JobRecord:
    reply = EXAMPLES[JobStatusReply.TYPE]
    assert isinstance(reply, JobStatusReply)
    assert reply.record is not None
    return reply.record


def test_a_healed_loss_says_who_how_many_go_on_and_what_it_cost() -> None:
    said = incident_sentence(incident(), the_record())
    assert said == (
        "Lost member llama.ft-worker-7 on node-7.rack-a (node silent); 7 of 8 go on,"
        " 0 steps lost, first step after 0.6 s (incident llama.ft-7-1)"
    )
    assert (incident_reason(incident()), is_bad(incident())) == ("EverstepHealed", False)


def test_of_another_generation_no_number_is_told() -> None:
    later = the_record().model_copy(update={"generation": 9})
    assert "the others go on" in incident_sentence(incident(), later)
    assert "the others go on" in incident_sentence(incident(), None)


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("hardware_fault", "hardware fault"),
        ("planned", "asked to go"),
        ("probe_refused", "processes died"),
        ("not_joined", "not heard of any more"),
    ],
)
def test_the_evidence_names_the_cause(kind: EvidenceKind, cause: str) -> None:
    lost = incident().suspected[0].incarnation
    evidence = (Evidence(kind=kind, incarnation=lost, witness="w"),)
    assert f"({cause})" in incident_sentence(incident(evidence=evidence), None)


def test_restarted_workers_are_no_lost_member() -> None:
    told = incident(verdict="restart_workers", reason="workers died on llama.ft-worker-7")
    said = incident_sentence(told, the_record())
    assert said.startswith("Restarted workers: workers died on llama.ft-worker-7; 7 of 8 go on")


def test_ec74_given_up_says_why_and_where_to_read_on() -> None:
    told = incident(outcome="given_up", reason="3 incidents without a step beyond 20")
    said = incident_sentence(told, the_record())
    assert said == (
        "Gave up: 3 incidents without a step beyond 20; why: everstep incident llama.ft-7-1;"
        f" how to go on: everstep status {told.job}"
    )
    assert is_bad(told)


def test_what_is_not_over_or_was_nothing_is_not_told() -> None:
    assert incident_reason(incident(outcome=None)) == ""
    assert incident_reason(incident(outcome="dismissed")) == ""
