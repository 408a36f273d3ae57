"""What is due in the cluster: quarantines, deletions, forced ones, releases, and when not."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from everstep_contract.record import Exclusion, IncidentRecord, JobRecord, NodeRecord
from everstep_contract.verdicts import Evidence, EvidenceKind
from everstep_rescaler.cluster_decide import decide_cluster
from everstep_rescaler.cluster_model import (
    Annotate,
    Change,
    DeletePod,
    Lost,
    Quarantine,
    Refrain,
    Scene,
)
from everstep_rescaler.cluster_policy import ClusterPolicy
from everstep_rescaler.cluster_read import failures_on
from support.cluster_states import job, node, pod
from support.jobs import DURATIONS, JOB, NOW, member, record

POLICY = ClusterPolicy(act=True)
GONE, LEFT = member(7), member(0)
FENCED_SECONDS = DURATIONS.self_fence_seconds + POLICY.fence_margin_seconds


def lost(**changes: Any) -> Lost:
    """A member that was lost in silence a moment ago; its node is not known to be unwell."""
    fields: dict[str, Any] = {
        "member": GONE,
        "evidence": frozenset({"connection_stale", "probe_silent"}),
        "incident": "i-1",
        "pod": pod(GONE),
        "node": node(GONE.node),
        "node_record": None,
        "silent_seconds": POLICY.silent_seconds,
        "node_silent_seconds": POLICY.silent_seconds,
        "failures": 1,
    }
    return Lost(**{**fields, **changes})


def evidence(*kinds: EvidenceKind) -> frozenset[EvidenceKind]:
    return frozenset(kinds)


def scene(*of: Lost, annotated: int = 8, **changes: Any) -> Scene:
    fields: dict[str, Any] = {
        "record": excluding(phase="resumed"),
        "job": job(generation=annotated),
        "lost": of,
    }
    return Scene(**{**fields, **changes})


def excluding(**changes: Any) -> JobRecord:
    exclusion = Exclusion(
        member=GONE,
        evidence=(Evidence(kind="probe_silent", incarnation=GONE.incarnation, witness="w"),),
        since=NOW,
    )
    return record(8, (LEFT,), excluded=(exclusion,), **changes)


def due(*of: Lost, policy: ClusterPolicy = POLICY, **changes: Any) -> tuple[Change, ...]:
    return decide_cluster(scene(*of, **changes), policy)


def test_the_generation_is_written_on_the_job_once() -> None:
    assert due(annotated=7) == (Annotate(job().uid, 8),)
    assert due(annotated=8) == ()


def test_nothing_is_done_for_another_job_of_the_same_name_or_for_one_that_is_gone() -> None:
    dead = lost(pod=pod(GONE, phase="Failed", terminated=True))
    assert due(dead, job=replace(job(), uid="another")) == ()
    assert due(dead, job=None) == ()


def test_r23_a_hiccup_changes_nothing_in_the_cluster() -> None:
    assert due(lost()) == ()


# quarantine


def test_r23_a_node_is_quarantined_on_hardware_evidence_at_once() -> None:
    (change,) = due(lost(evidence=evidence("hardware_fault")))
    why = f"a hardware fault under {GONE.name}"
    assert change == Quarantine(GONE.node, "boot-1", "i-1", "hardware", why)


def test_r23_a_node_is_quarantined_after_lasting_silence_and_no_sooner() -> None:
    almost = POLICY.quarantine_silence_seconds - 1
    assert not quarantines(due(lost(node_silent_seconds=almost)))
    (change,) = quarantines(due(lost(node_silent_seconds=almost + 1)))
    assert change.cause == "silence"


@pytest.mark.parametrize("kind", ["probe_refused", "pod_terminated", "worker_exited", "left"])
def test_r23_a_silence_behind_a_living_kernel_is_not_the_nodes(kind: EvidenceKind) -> None:
    assert not quarantines(due(lost(evidence=evidence(kind), node_silent_seconds=999.0)))


def test_r23_a_node_is_quarantined_by_repetition() -> None:
    assert not quarantines(due(lost(failures=POLICY.repetition - 1)))
    (change,) = quarantines(due(lost(failures=POLICY.repetition)))
    assert change.cause == "repetition"


FAILED = pod(GONE, phase="Failed", terminated=True)


def test_ec22_the_quarantine_is_in_force_before_the_pod_is_deleted() -> None:
    faulty = lost(evidence=evidence("hardware_fault"), pod=FAILED)
    quarantine, spared = due(faulty)
    assert isinstance(quarantine, Quarantine)
    assert isinstance(spared, Refrain)
    assert "would land on" in spared.why
    known = NodeRecord(node=GONE.node, quarantined_by="i-1", at=NOW)
    tainted = node(GONE.node, quarantined_by="i-1", unschedulable=True)
    (change,) = due(replace(faulty, node=tainted, node_record=known))
    assert isinstance(change, DeletePod)


@pytest.mark.parametrize(
    ("word", "kept_off"),
    [
        ({"unschedulable": True}, True),
        ({"ready": "Unknown"}, True),
        ({"quarantined_by": "by hand"}, True),
        ({}, False),
    ],
)
def test_ec22_a_pod_is_deleted_without_a_quarantine_only_where_its_node_takes_no_successor(
    word: dict[str, Any], *, kept_off: bool
) -> None:
    of = node(GONE.node, **word)
    faulty = lost(evidence=evidence("hardware_fault"), pod=FAILED, node=of)
    braked = due(faulty, quarantined=POLICY.max_quarantined)
    assert [type(one) for one in braked if not isinstance(one, Refrain)] == [DeletePod] * kept_off


def test_who_only_observes_tells_of_the_quarantine_and_of_the_deletion_after_it() -> None:
    faulty = lost(evidence=evidence("hardware_fault"), pod=FAILED)
    observing = replace(POLICY, act=False)
    assert [type(one) for one in due(faulty, policy=observing)] == [Quarantine, DeletePod]
    braked = due(faulty, policy=observing, quarantined=POLICY.max_quarantined)
    assert [type(one) for one in braked] == [Refrain, Refrain]


def test_ec22_who_overrules_a_quarantine_gets_the_pod_back_on_the_node() -> None:
    overruled = NodeRecord(node=GONE.node, released_from="i-1", at=NOW)
    (change,) = due(lost(evidence=evidence("hardware_fault"), pod=FAILED, node_record=overruled))
    assert isinstance(change, DeletePod)


def test_r25_a_node_that_was_rebooted_since_is_not_quarantined_for_its_former_lifes_silence() -> (
    None
):
    silent = lost(node_silent_seconds=POLICY.quarantine_silence_seconds, boot_id="boot-0")
    assert not quarantines(due(silent))
    assert quarantines(due(replace(silent, boot_id="boot-1")))
    assert quarantines(due(replace(silent, node=node(GONE.node, ready="Unknown"))))


def test_r25_a_reboot_does_not_acquit_a_node_of_a_hardware_fault() -> None:
    assert quarantines(due(lost(evidence=evidence("hardware_fault"), boot_id="boot-0")))


@pytest.mark.parametrize("now", [None, pod(member(7, life=2)), FAILED])
def test_r23_a_node_on_which_nobody_is_left_to_report_is_not_silent(now: Any) -> None:
    long = POLICY.quarantine_silence_seconds
    assert not quarantines(due(lost(node_silent_seconds=long, pod=now)))
    unwell = node(GONE.node, ready="False")
    assert quarantines(due(lost(node_silent_seconds=long, pod=now, node=unwell)))


def test_a_node_in_quarantine_is_not_quarantined_again() -> None:
    known = NodeRecord(node=GONE.node, quarantined_by="i-0", at=NOW)
    assert due(lost(evidence=evidence("hardware_fault"), node_record=known)) == ()


def test_r25_a_quarantine_that_was_made_but_not_recorded_is_made_again() -> None:
    tainted = node(GONE.node, quarantined_by="i-1")
    assert quarantines(due(lost(evidence=evidence("hardware_fault"), node=tainted)))


def test_ec34_a_quarantine_that_was_ended_by_hand_waits_for_a_new_fault() -> None:
    released = NodeRecord(node=GONE.node, released_from="i-1", at=NOW)
    known = lost(evidence=evidence("hardware_fault"), node_record=released)
    assert due(known) == ()
    assert quarantines(due(replace(known, incident="i-2")))


def test_ec34_neither_does_an_older_quarantine_that_was_ended_by_hand_come_back() -> None:
    released = NodeRecord(node=GONE.node, released_from="i-2", released_before=("i-1",), at=NOW)
    assert due(lost(evidence=evidence("hardware_fault"), node_record=released)) == ()


def test_ec34_a_node_that_somebody_released_must_fail_repeatedly_anew() -> None:
    failed = tuple(incident(f"i-{number}", NOW + timedelta(minutes=number)) for number in range(3))
    assert failures_on(GONE.node, failed, None) == 3
    released = NodeRecord(node=GONE.node, released_from="i-1", at=NOW + timedelta(minutes=1))
    assert failures_on(GONE.node, failed, released) == 1
    again = released.model_copy(update={"quarantined_by": "i-2"})
    assert failures_on(GONE.node, failed, again) == 3


def test_ec54_a_member_that_was_asked_to_go_is_no_failure_of_its_node() -> None:
    assert failures_on(GONE.node, (incident("i-1", NOW, "planned", "left"),), None) == 0


def incident(name: str, at: datetime, *kinds: EvidenceKind) -> IncidentRecord:
    """An incident in which the member was lost."""
    return IncidentRecord(
        id=name,
        job=JOB,
        job_uid=GONE.job_uid,
        opened_at=at,
        suspected=(GONE,),
        verdict="shrink",
        evidence=tuple(
            Evidence(kind=kind, incarnation=GONE.incarnation, witness="w")
            for kind in kinds or ("probe_silent",)
        ),
        generation_before=7,
    )


def test_no_more_nodes_are_quarantined_than_the_brake_allows() -> None:
    faulty = lost(evidence=evidence("hardware_fault"))
    (change,) = due(faulty, quarantined=POLICY.max_quarantined)
    assert isinstance(change, Refrain)


def test_two_members_lost_on_one_node_quarantine_it_once() -> None:
    other = member(6, node=GONE.node)
    faulty = lost(evidence=evidence("hardware_fault"))
    assert len(quarantines(due(faulty, replace(faulty, member=other)))) == 1


# deletion


def test_a_failed_pod_is_deleted_so_that_volcano_makes_it_anew() -> None:
    (change,) = due(lost(pod=pod(GONE, phase="Failed", terminated=True)))
    assert isinstance(change, DeletePod)
    assert (change.pod_uid, change.force) == (GONE.pod_uid, False)


def test_ec48_the_successor_under_the_same_name_is_left_alone() -> None:
    assert due(lost(pod=pod(member(7, life=2), phase="Failed", terminated=True))) == ()


def test_a_pod_that_has_finished_is_left_alone() -> None:
    assert due(lost(pod=pod(GONE, phase="Succeeded", terminated=True))) == ()


def test_the_pod_of_a_member_that_is_seated_again_is_left_alone() -> None:
    seated = excluding(phase="resumed")
    again = record(9, (LEFT, GONE), excluded=seated.excluded, phase="resumed")
    dead = lost(pod=pod(GONE, phase="Failed", terminated=True))
    assert due(dead, record=again, annotated=9) == ()


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_silent_pod_on_a_node_that_is_not_ready_is_deleted(ready: str) -> None:
    (change,) = due(lost(node=node(GONE.node, ready=ready)))
    assert isinstance(change, DeletePod)
    assert not change.force


def test_an_excluded_agent_that_still_reports_keeps_its_pod() -> None:
    unwell = node(GONE.node, ready="Unknown")
    assert due(lost(node=unwell, silent_seconds=0.5)) == ()


def test_r23_a_living_pod_is_not_deleted_before_the_others_have_formed_without_it() -> None:
    unwell = lost(node=node(GONE.node, ready="Unknown"))
    assert due(unwell, record=excluding(phase="decided")) == ()
    assert due(unwell, record=excluding(phase="formed")) != ()
    assert due(unwell, record=excluding(phase="holding", state="hold")) != ()


def test_a_pod_on_a_ready_node_is_deleted_only_after_a_long_silence() -> None:
    long = POLICY.pod_silence_seconds
    assert due(lost(silent_seconds=long - 1)) == ()
    (change,) = due(lost(silent_seconds=long))
    assert isinstance(change, DeletePod)


def test_ec08_no_pod_is_deleted_where_a_policy_would_restart_the_whole_job() -> None:
    dead = lost(pod=pod(GONE, phase="Failed", terminated=True))
    wary = job(generation=8, restarts_on_deletion="PodEvicted -> RestartJob")
    (change,) = due(dead, job=wary)
    assert isinstance(change, Refrain)
    assert change.verb == "delete_pod"
    assert "PodEvicted -> RestartJob" in change.why


# forced deletion


def terminating(**changes: Any) -> Lost:
    unwell = node(GONE.node, ready="Unknown")
    return lost(**{"pod": pod(GONE, terminating=True), "node": unwell, **changes})


def test_ec23_a_terminating_pod_is_not_forced_before_its_agent_has_fenced_itself() -> None:
    assert due(terminating(silent_seconds=FENCED_SECONDS - 1)) == ()
    (change,) = due(terminating(silent_seconds=FENCED_SECONDS))
    assert isinstance(change, DeletePod)
    assert change.force


def test_r24_the_rescaler_waits_longer_than_the_agent() -> None:
    assert due(terminating(silent_seconds=DURATIONS.self_fence_seconds)) == ()


@pytest.mark.parametrize(
    "proof",
    [
        None,
        node(GONE.node, ready="Unknown", taints=({"key": "node.kubernetes.io/out-of-service"},)),
    ],
)
def test_r23_proof_of_death_needs_no_waiting(proof: Any) -> None:
    (change,) = due(terminating(node=proof))
    assert isinstance(change, DeletePod)
    assert change.force


def test_r23_nothing_is_forced_while_the_api_says_that_the_node_is_ready() -> None:
    assert due(terminating(node=node(GONE.node), silent_seconds=9999.0)) == ()


def test_r23_nothing_is_forced_while_the_agent_is_heard() -> None:
    assert due(terminating(node=None, silent_seconds=0.0)) == ()


def test_r23_nothing_is_forced_before_the_others_have_formed_without_it() -> None:
    undecided = excluding(phase="decided")
    assert due(terminating(silent_seconds=9999.0), record=undecided) == ()


def quarantines(changes: tuple[Change, ...]) -> list[Quarantine]:
    return [change for change in changes if isinstance(change, Quarantine)]


def test_the_pod_of_another_job_is_never_deleted_whatever_a_member_says() -> None:
    dead = {"phase": "Failed", "terminated": True}
    assert due(lost(pod=pod(GONE, job_uid="another", **dead))) == ()
    assert len(due(lost(pod=pod(GONE, **dead)))) == 1
