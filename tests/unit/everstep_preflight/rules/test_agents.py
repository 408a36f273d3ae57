"""The agent in the member's pod."""

import yaml
from support.preflight import GOOD_JOB, TORCHRUN_JOB, fixed, found, rules

ENV_FROM = "          envFrom:\n          - configMapRef:\n              name: everstep\n"
BUS = """\
          env:
          - name: EVERSTEP_NATS_URL
            value: nats://nats:4222
          - name: EVERSTEP_NATS_SEED_PATH
            value: /var/run/everstep/agent.nk
"""


def test_torchrun_alone_is_no_agent_and_the_advice_keeps_its_flags() -> None:
    (finding,) = found(TORCHRUN_JOB.replace("ENDPOINT", "etcd:2379"))
    assert finding.rule.id == "agent-missing"
    assert finding.advice.startswith("everstep run --nnodes=6:8 --nproc-per-node=8 ")


def test_a_command_that_is_in_the_image_is_asked_for() -> None:
    start, end = GOOD_JOB.index("          command:"), GOOD_JOB.index("          envFrom:")
    (finding,) = found(GOOD_JOB[:start] + GOOD_JOB[end:])
    assert finding.rule.id == "agent-missing"
    assert "may be in the image" in finding.message


def test_an_agent_in_a_shell_script_is_one() -> None:
    shell = 'command: [sh, -c, "exec everstep run --nnodes=6:8 --nproc-per-node=8 train.py"]'
    line = next(line for line in GOOD_JOB.splitlines() if "command:" in line)
    assert rules(GOOD_JOB.replace(line.strip(), shell)) == []


def test_an_agent_is_told_who_it_is() -> None:
    text = GOOD_JOB.replace(ENV_FROM, BUS)
    assert rules(text) == ["agent-unnamed"]
    (job,) = yaml.safe_load_all(fixed(text).sources[0].text)
    env = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"]
    assert {entry["name"] for entry in env} > {"EVERSTEP_POD_UID", "EVERSTEP_POD_GROUP"}
    assert fixed(text).left == ()


def test_an_agent_without_a_bus_needs_a_person() -> None:
    left = fixed(GOOD_JOB.replace(ENV_FROM, "")).left
    assert [(finding.rule.id, finding.fix) for finding in left] == [("agent-without-bus", ())]


def test_more_workers_than_gpus_are_found() -> None:
    assert rules(GOOD_JOB.replace("nproc-per-node=8", "nproc-per-node=4")) == [
        "workers-and-gpus-differ"
    ]
    assert rules(GOOD_JOB.replace("nproc-per-node=8", "nproc-per-node=gpu")) == []
