"""What the documents show is what the tree has."""

import re
import textwrap
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from everstep_contract.clients import Role
from everstep_trainer.agent.config import AgentSettings

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "trainer" / "examples"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(document: str, language: str) -> list[str]:
    """The code blocks of a language in a document."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)


def loop_of(script: str) -> list[str]:
    """Torch's and Everstep's imports and the training loop of an example, not indented."""
    text = (EXAMPLES / script).read_text()
    imports = re.findall(r"^import (?:everstep|torch.*)$", text, re.M)
    body = text.partition("scheduler = ")[2].partition("\n\n\n")[0].splitlines()[1:]
    return imports + [line.strip() for line in body]


def test_the_readme_shows_the_loop_of_the_example() -> None:
    (shown,) = blocks("README.md", "python")
    assert textwrap.indent(shown, " " * 4) in (EXAMPLES / "train.py").read_text()


def test_the_adoption_page_shows_what_changes_in_a_torchrun_script() -> None:
    (shown,) = blocks("docs/adopting.md", "diff")
    lines = [line for line in shown.splitlines() if line]
    before = [line[1:].strip() for line in lines if line[0] != "+"]
    after = [line[1:].strip() for line in lines if line[0] != "-"]
    assert before == loop_of("train_torchrun.py")
    assert after == loop_of("train.py")


def test_the_job_to_copy_tells_the_agent_only_what_it_understands() -> None:
    manifest: Any = yaml.safe_load((ROOT / "deploy/volcano/job.yaml").read_text())
    (task,) = manifest["spec"]["tasks"]
    (container,) = task["template"]["spec"]["containers"]
    variables = {entry["name"]: entry.get("value", "some-name") for entry in container["env"]}
    variables["EVERSTEP_POD_IP"] = "10.0.0.1"
    settings = AgentSettings.parse(variables)
    assert None not in (settings.job_name, settings.pod_name, settings.pod_uid)
    assert f"--nnodes={task['minAvailable']}:{task['replicas']}" in container["command"]
    assert manifest["spec"]["minAvailable"] == task["minAvailable"]


def test_every_service_and_its_credentials_are_named_on_the_adoption_page() -> None:
    page = (ROOT / "docs" / "adopting.md").read_text()
    assert [role for role in get_args(Role) if role not in page] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text())
    paths = {(document.parent / target).resolve().relative_to(ROOT) for target in targets}
    assert [path for path in paths if not (ROOT / path).exists()] == []
