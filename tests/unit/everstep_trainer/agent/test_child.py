"""How a worker's script is run: as Python itself would run it."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from everstep_trainer.agent.spawning import Program

RUN = (
    "import json, sys; from everstep_trainer.agent.child import run_program; "
    "from everstep_trainer.agent.spawning import Program; "
    "sys.exit(run_program(Program(**json.loads(sys.argv[1]))))"
)


def run(folder: Path, program: Program) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(asdict(program))],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def script(folder: Path, text: str) -> Program:
    path = folder / "train.py"
    path.write_text(text)
    return Program(str(path), ("--lr", "1e-4"))


def test_a_script_is_main_and_has_its_arguments_and_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("WORD = 'hello'\n")
    text = "import sys, neighbour; print(__name__, sys.argv[1:], neighbour.WORD)"
    ended = run(tmp_path, script(tmp_path, text))
    assert ended.stdout == "__main__ ['--lr', '1e-4'] hello\n"
    assert ended.returncode == 0


def test_a_module_runs_as_python_m_runs_it(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tune.py").write_text("import sys; print(__name__, __package__, sys.argv[1:])")
    ended = run(tmp_path, Program("pack.tune", ("a",), module=True))
    assert ended.stdout == "__main__ pack ['a']\n"


@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [("sys.exit()", 0, ""), ("sys.exit(7)", 7, ""), ("sys.exit('no data')", 1, "no data\n")],
)
def test_an_exit_is_told_as_python_tells_it(
    tmp_path: Path, ending: str, status: int, said: str
) -> None:
    ended = run(tmp_path, script(tmp_path, f"import sys; {ending}"))
    assert (ended.returncode, ended.stderr) == (status, said)


def test_an_exception_shows_the_scripts_own_frames_and_fails(tmp_path: Path) -> None:
    ended = run(tmp_path, script(tmp_path, "def lose():\n    raise ValueError('nan')\nlose()\n"))
    assert ended.returncode == 1
    assert ended.stderr.endswith("ValueError: nan\n")
    assert "runpy" not in ended.stderr
    assert "child.py" not in ended.stderr


def test_a_syntax_error_is_shown_where_it_is(tmp_path: Path) -> None:
    ended = run(tmp_path, script(tmp_path, "print('a'\n"))
    assert ended.returncode == 1
    assert "SyntaxError" in ended.stderr
