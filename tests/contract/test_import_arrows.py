"""The import arrows of the house, and that a planted wrong one is seen."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANTED = {
    "Arrows point up, and services never import one another": (
        "services/everstep_adjudicator",
        "import everstep_rescaler",
    ),
    "Neither services nor their libraries import the trainer": (
        "services/everstep_node_watcher",
        "import everstep_trainer",
    ),
    "The local cluster and the command line start services, they do not import them": (
        "libs/everstep_cli",
        "import everstep_adjudicator",
    ),
    "The contract imports pydantic and nothing else": ("libs/everstep_contract", "import yaml"),
    "Only the bus imports nats": ("services/everstep_rescaler", "import nats"),
    "Only everstep_kube imports kubernetes": ("services/everstep_rescaler", "import kubernetes"),
    "The trainer never reaches kubernetes, not even indirectly": (
        "trainer/everstep_trainer",
        "import everstep_kube",
    ),
    "Only the trainer imports torch": ("libs/everstep_runtime", "import torch"),
}


def lint_imports(root: Path) -> str:
    """What lint-imports prints about the packages below ``root``."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(root / part) for part in ("libs", "services", "trainer")),
        "COLUMNS": "200",
    }
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    finished = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return finished.stdout + finished.stderr


@pytest.fixture(scope="module")
def report_on_planted_arrows(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One report on a copy of the tree with every wrong arrow in it."""
    root = tmp_path_factory.mktemp("planted")
    shutil.copy(ROOT / "pyproject.toml", root)
    for part in ("libs", "services", "trainer"):
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    for number, (package, arrow) in enumerate(PLANTED.values()):
        (root / package / f"planted_{number}.py").write_text(f"{arrow}\n")
    return lint_imports(root)


def test_every_arrow_of_the_tree_is_allowed() -> None:
    assert "0 broken" in lint_imports(ROOT)


@pytest.mark.parametrize("contract", PLANTED)
def test_a_planted_wrong_arrow_is_seen(contract: str, report_on_planted_arrows: str) -> None:
    assert f"{contract} BROKEN" in report_on_planted_arrows
