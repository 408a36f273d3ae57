"""What a container starts."""

import pytest
import yaml
from everstep_preflight.launching import Launch, Launcher, launch_of
from everstep_preflight.reading import read


def launch(command: list[str], env: list[dict[str, str]] | None = None) -> Launch | None:
    text = yaml.safe_dump({"command": command, "env": env or []})
    return launch_of(read("a.yaml", text).documents[0])


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        (["everstep", "run", "train.py"], Launcher.EVERSTEP),
        (["/opt/bin/everstep", "run", "train.py"], Launcher.EVERSTEP),
        (["torchrun", "train.py"], Launcher.TORCHRUN),
        (["python3", "-m", "torch.distributed.run", "train.py"], Launcher.TORCHRUN),
        (["python", "-u", "-m", "torch.distributed.launch", "train.py"], Launcher.TORCHRUN),
        (["bash", "-c", "cd /app && NCCL_DEBUG=INFO torchrun train.py"], Launcher.TORCHRUN),
        (["/bin/sh", "-ec", "# torchrun\nexec everstep run train.py"], Launcher.EVERSTEP),
        (["bash", "-c", "echo 'not closed\ntorchrun train.py"], Launcher.TORCHRUN),
        (["accelerate", "launch", "train.py"], Launcher.OTHER),
        (["mpirun", "-np", "8", "train"], Launcher.OTHER),
    ],
)
def test_a_launcher_is_seen(command: list[str], launcher: Launcher) -> None:
    found = launch(command)
    assert found
    assert found.launcher is launcher


@pytest.mark.parametrize("command", [["python", "train.py"], [], ["sh"], ["everstep", "status"]])
def test_what_is_no_launcher_is_none(command: list[str]) -> None:
    assert launch(command) is None


@pytest.mark.parametrize(
    "flags",
    [
        ["--nnodes=6:8", "--nproc_per_node", "8", "train.py", "--nnodes=1"],
        ["--nproc-per-node=8", "--standalone", "--nnodes", "6:8", "-m", "train", "--nnodes", "1"],
    ],
)
def test_flags_are_read_in_all_spellings_up_to_the_script(flags: list[str]) -> None:
    found = launch(["torchrun", *flags])
    assert found
    assert found.members == (6, 8)
    assert found.flags["nproc-per-node"].value == "8"


def test_flags_go_before_variables() -> None:
    env = [{"name": "PET_NNODES", "value": "2:4"}, {"name": "PET_RDZV_ENDPOINT", "value": "a:1"}]
    found = launch(["torchrun", "--nnodes=6:8", "train.py"], env)
    assert found
    assert found.members == (6, 8)
    assert found.flags["rdzv-endpoint"].value == "a:1"


@pytest.mark.parametrize("nnodes", ["$N", "6:8:9", "", "six", "6:"])
def test_members_that_are_no_numbers_are_not_guessed(nnodes: str) -> None:
    found = launch(["torchrun", f"--nnodes={nnodes}", "train.py"])
    assert found
    assert found.members is None
