"""Who an agent is, from its settings and from what it finds."""

import pytest
from everstep_contract.identity import Endpoint
from everstep_trainer.agent.config import AgentSettings, me
from everstep_trainer.agent.flags import Command, UsageError
from everstep_trainer.agent.model import Replication
from everstep_trainer.agent.spawning import Program

PEER = Endpoint(host="127.0.0.1", port=7000)
COMMAND = Command(
    program=Program("train.py"),
    job="",
    namespace="",
    min_member=6,
    max_member=8,
    nproc_per_node=4,
    max_restarts=3,
    restart_rung=False,
    log_dir="",
    warnings=(),
)


def settings(**variables: str) -> AgentSettings:
    return AgentSettings.parse({f"EVERSTEP_{name.upper()}": v for name, v in variables.items()})


def test_in_a_cluster_the_pod_says_who_it_is() -> None:
    born = me(
        settings(
            job_namespace="team.a",
            job_name="llama.ft",
            job_uid="uid-1",
            pod_name="llama.ft-worker-0",
            pod_uid="pod-1",
            node_name="node-1",
        ),
        COMMAND,
        PEER,
    )
    assert str(born.job) == "team.a/llama.ft"
    member = born.member
    assert (member.job_uid, member.name, member.pod_uid, member.node) == (
        "uid-1",
        "llama.ft-worker-0",
        "pod-1",
        "node-1",
    )
    assert (born.gang.min_member, born.gang.max_member, born.gang.nproc_per_node) == (6, 8, 4)


@pytest.mark.parametrize(
    ("told", "uid"),
    [
        ({}, "training/llama"),
        ({"EVERSTEP_POD_GROUP": "llama-5f1c-2d9a"}, "5f1c-2d9a"),
        ({"EVERSTEP_POD_GROUP": "somebody-elses"}, "training/llama"),
        ({"EVERSTEP_POD_GROUP": "llama-5f1c-2d9a", "EVERSTEP_JOB_UID": "told"}, "told"),
    ],
)
def test_the_jobs_uid_is_told_or_in_the_pod_groups_name_or_made(
    told: dict[str, str], uid: str
) -> None:
    names = {"EVERSTEP_JOB_NAMESPACE": "training", "EVERSTEP_JOB_NAME": "llama"}
    assert me(AgentSettings.parse(names | told), COMMAND, PEER).member.job_uid == uid


def test_r1_every_life_is_another_incarnation() -> None:
    one, other = (me(settings(job_name="a", pod_name="a-0"), COMMAND, PEER) for _ in range(2))
    assert one.member.name == other.member.name
    assert one.incarnation != other.incarnation


def test_r2_agents_on_one_machine_without_pods_are_different_members() -> None:
    one, other = (me(settings(job_name="a"), COMMAND, PEER) for _ in range(2))
    assert one.member.name != other.member.name
    assert one.member.job_uid == other.member.job_uid


def test_a_job_needs_a_name() -> None:
    with pytest.raises(UsageError, match="--job"):
        me(settings(), COMMAND, PEER)


def test_the_address_is_the_pods_or_the_one_that_nats_is_reached_from() -> None:
    assert settings(pod_ip="127.0.0.5").host() == "127.0.0.5"
    assert settings(nats_url="nats://127.0.0.1:4222").host() == "127.0.0.1"


def test_an_address_must_be_numeric() -> None:
    with pytest.raises(OSError, match=r"not known|numeric|supported"):
        settings(pod_ip="localhost").host()


@pytest.mark.parametrize(("root", "has_storage"), [("", False), ("/checkpoints", True)])
def test_without_a_folder_for_checkpoints_none_is_written(root: str, has_storage: bool) -> None:
    given = settings(job_name="llama", checkpoint_root=root)
    assert me(given, COMMAND, PEER).has_storage is has_storage


def test_what_is_copied_to_a_partner_is_as_it_was_set() -> None:
    chosen = settings(
        job_name="llama",
        replicate_bytes_per_second="2000000",
        replicate_within_node="true",
        replicas_limit_bytes="5",
    )
    expected = Replication(within_node=True, bytes_per_second=2000000, limit_bytes=5)
    assert me(chosen, COMMAND, PEER).replication == expected
