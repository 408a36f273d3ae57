"""Who an agent is, by what it is told."""

import pytest
from everstep_contract.identity import Endpoint
from everstep_trainer.agent.config import AgentSettings, me
from everstep_trainer.agent.flags import parse

PEER = Endpoint(host="127.0.0.1", port=1)
COMMAND = parse(["-m", "everstep"], {})


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


def test_r1_each_life_is_a_new_incarnation() -> None:
    settings = AgentSettings.parse({"EVERSTEP_JOB_NAME": "llama", "EVERSTEP_POD_UID": "pod-1"})
    lives = {me(settings, COMMAND, PEER).incarnation for _ in range(3)}
    assert len(lives) == 3
