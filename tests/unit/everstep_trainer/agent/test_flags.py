"""The command line: torchrun's flags, and clear words for what cannot be meant."""

from pathlib import Path

import pytest
from everstep_trainer.agent.flags import Command, UsageError, parse


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("print('hello')\n")
    return str(path)


def command(*argv: str, **environ: str) -> Command:
    return parse(list(argv), environ)


def test_takes_torchruns_flags_and_leaves_the_scripts_own_alone(script: str) -> None:
    given = command("--nnodes", "6:8", "--nproc-per-node", "4", script, "--nnodes", "1", "-m", "x")
    assert (given.min_member, given.max_member, given.nproc_per_node) == (6, 8, 4)
    assert given.program.target == script
    assert given.program.args == ("--nnodes", "1", "-m", "x")


def test_takes_both_spellings(script: str) -> None:
    assert command("--nproc_per_node=3", script).nproc_per_node == 3
    assert command("--max_restarts=7", script).max_restarts == 7


def test_takes_torchruns_variables_as_defaults(script: str) -> None:
    given = command("--nproc-per-node", "1", script, PET_NNODES="2:4", PET_NPROC_PER_NODE="8")
    assert (given.min_member, given.max_member, given.nproc_per_node) == (2, 4, 1)


def test_one_number_of_members_is_both_the_least_and_the_most(script: str) -> None:
    given = command("--nnodes", "3", script)
    assert (given.min_member, given.max_member) == (3, 3)


def test_the_rendezvous_id_names_the_job_unless_job_does(script: str) -> None:
    assert command("--rdzv-id", "llama", script).job == "llama"
    assert command("--rdzv-id", "llama", "--job", "bert", script).job == "bert"


def test_flags_that_orders_make_needless_are_taken_with_a_warning(script: str) -> None:
    given = command("--node-rank", "3", "--rdzv_backend", "c10d", script)
    assert len(given.warnings) == 2
    assert "--node-rank" in given.warnings[0]


def test_workers_can_be_counted_by_devices(script: str) -> None:
    given = command("--nproc-per-node", "gpu", script, CUDA_VISIBLE_DEVICES="0,3")
    assert given.nproc_per_node == 2
    given = command("--nproc-per-node", "auto", script, CUDA_VISIBLE_DEVICES="")
    assert given.nproc_per_node >= 1


def test_a_module_is_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "trainers"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / "tune.py").touch()
    monkeypatch.chdir(tmp_path)
    assert command("-m", "trainers.tune", "--lr", "1").program.module
    with pytest.raises(UsageError, match=r"'trainers\.missing' does not exist"):
        command("-m", "trainers.missing")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--nnodes", "8:6"], "the least, 8, is above the most, 6"),
        (["--nnodes", "six"], "--nnodes six"),
        (["--nnodes", "1:2:3"], "--nnodes 1:2:3"),
        (["--nnodes", "0"], "at least 1 member"),
        (["--nproc-per-node", "0"], "--nproc-per-node 0"),
        (["--nproc-per-node", "many"], "--nproc-per-node many"),
        (["--nproc-per-node", "5000"], "not 1 to 1024"),
        (["--max-restarts", "x"], "--max-restarts"),
        (["--max-restarts=-1"], "at least 0"),
        (["--rung", "ladder"], "--rung"),
        (["--no-such-flag"], "--no-such-flag"),
    ],
)
def test_what_cannot_be_meant_is_named(script: str, argv: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        command(*argv, script)


def test_a_script_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match=r"'nowhere\.py' does not exist"):
        command("nowhere.py")


def test_only_the_script_is_asked_for() -> None:
    with pytest.raises(UsageError, match=r"are required: script$"):
        command()


def test_a_flag_is_checked_before_the_script() -> None:
    with pytest.raises(UsageError, match="--nproc-per-node zero"):
        command("--nproc-per-node", "zero", "nowhere.py")


def test_workers_of_gpus_need_one(script: str) -> None:
    with pytest.raises(UsageError, match="gpu: no GPU found"):
        command("--nproc-per-node", "gpu", script, CUDA_VISIBLE_DEVICES="")
