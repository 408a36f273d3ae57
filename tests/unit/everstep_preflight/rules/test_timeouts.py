"""Timeouts in the wrong order."""

import pytest
from support.preflight import GOOD_JOB, TORCHRUN_JOB, fixed_text, found, rules

GRACE = "        terminationGracePeriodSeconds: 60\n"


def rendezvous(conf: str) -> str:
    flags = f'"--rdzv_endpoint=etcd:2379", "--rdzv_conf={conf}"'
    return TORCHRUN_JOB.replace('"--rdzv_endpoint=ENDPOINT"', flags)


@pytest.mark.parametrize("line", ["", "        terminationGracePeriodSeconds: 30\n"])
def test_ec45_a_pod_that_is_killed_with_its_launcher_gets_more_time(line: str) -> None:
    text = GOOD_JOB.replace(GRACE, line)
    assert rules(text) == ["grace-too-short"]
    assert fixed_text(text) == GOOD_JOB


def test_ec10_a_pod_that_may_hang_longer_than_the_job_holds_is_found() -> None:
    (finding,) = found(GOOD_JOB.replace("Seconds: 60", "Seconds: 3600"))
    assert (finding.rule.id, finding.fix) == ("grace-too-long", ())


def test_ec47_the_pods_grace_follows_the_agents() -> None:
    env = "          env:\n          - {name: EVERSTEP_GRACE_SECONDS, value: '120'}\n"
    env += "          envFrom:"
    text = GOOD_JOB.replace("          envFrom:", env)
    (finding,) = found(text)
    assert finding.rule.id == "grace-too-short"
    assert "terminationGracePeriodSeconds: 170" in fixed_text(text)


@pytest.mark.parametrize(
    "conf",
    [
        "join_timeout=30,last_call_timeout=30",
        "join_timeout=40,keep_alive_interval=20,keep_alive_max_attempt=3",
    ],
)
def test_ec47_survivors_that_give_up_before_a_loss_is_noticed_are_found(conf: str) -> None:
    assert rules(rendezvous(conf)) == ["agent-missing", "timeouts-order"]


@pytest.mark.parametrize("conf", ["join_timeout=900", "last_call_timeout=$X", "is_host=0", ""])
def test_ec47_timeouts_in_their_order_are_no_mistake(conf: str) -> None:
    assert rules(rendezvous(conf)) == ["agent-missing"]
