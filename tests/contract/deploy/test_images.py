"""What goes into images, by the files that say so: no image is built here."""

import json
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import jsonschema
import pytest
from packaging.requirements import Requirement
from support.composition import compose
from support.manifests import ROOT

DOCKERFILES = sorted((ROOT / "deploy" / "docker").glob("*.Dockerfile"))
PINNED = re.compile(r"^[a-z./]+:\d+\.\d+\.\d+[a-z0-9.-]*$")


@pytest.fixture(params=DOCKERFILES, ids=lambda path: path.name)
def dockerfile(request: pytest.FixtureRequest) -> list[list[str]]:
    text = request.param.read_text().replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def installed_with(extra: str) -> set[str]:
    """Every distribution that ``everstep[extra]`` brings, by what they require of one another."""
    found: set[str] = set()
    waiting = [Requirement(f"everstep[{extra}]")]
    while waiting:
        wanted = waiting.pop()
        for one in required_by(wanted):
            if one.name.lower() not in found:
                found.add(one.name.lower())
                waiting.append(one)
    return found


def required_by(wanted: Requirement) -> Iterator[Requirement]:
    try:
        lines = requires(wanted.name) or []
    except PackageNotFoundError:  # for another platform than this
        return
    for one in map(Requirement, lines):
        extras = wanted.extras or {""}
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras):
            yield one


def test_the_services_image_has_no_torch_and_the_trainers_no_kubernetes() -> None:
    assert "kubernetes" in installed_with("services")
    assert "torch" not in installed_with("services")
    assert "torch" not in installed_with("local")
    assert "torch" in installed_with("trainer")
    assert "kubernetes" not in installed_with("trainer")


def test_an_image_is_built_in_stages_from_a_pinned_base(dockerfile: list[list[str]]) -> None:
    arguments = dict(line[1].split("=") for line in dockerfile if line[0] == "ARG")
    bases = [line[1] for line in dockerfile if line[0] == "FROM"]
    assert bases == ["${PYTHON}", "${PYTHON}"]
    assert PINNED.match(arguments["PYTHON"])


def test_an_image_holds_exactly_the_pinned_packages(dockerfile: list[list[str]]) -> None:
    installs = [line for line in dockerfile if line[:3] == ["RUN", "pip", "install"]]
    assert installs
    for line in installs:
        assert " ".join(line).count("--constraint constraints.txt") == 1


def test_an_image_runs_as_a_user_who_is_not_root(dockerfile: list[list[str]]) -> None:
    last_stage = dockerfile[max(n for n, line in enumerate(dockerfile) if line[0] == "FROM") :]
    assert [line[1] for line in last_stage if line[0] == "USER"] == ["65532:65532"]


def test_what_an_image_copies_is_there_and_not_ignored(dockerfile: list[list[str]]) -> None:
    kept = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = [
        source
        for line in dockerfile
        if line[0] == "COPY" and not line[1].startswith("--from")
        for source in line[1:-1]
    ]
    for source in copied:
        assert (ROOT / source).exists()
        assert Path(source).parts[0] in kept


def test_the_compose_file_fits_its_schema() -> None:
    data = ROOT / "tests" / "contract" / "data"
    schema = json.loads((data / "compose-spec.schema.json").read_text())
    jsonschema.Draft201909Validator(schema).validate(compose())


def test_each_compose_service_is_restricted_and_pinned() -> None:
    for name, one in compose()["services"].items():
        assert one["user"] == "65532:65532", name
        assert one["read_only"], name
        assert one["cap_drop"] == ["ALL"], name
        assert PINNED.match(one["image"]), name


def test_each_volume_and_each_dependency_of_a_compose_service_is_there() -> None:
    file = compose()
    for one in file["services"].values():
        assert {mount.split(":")[0] for mount in one.get("volumes", ())} <= file["volumes"].keys()
        for other, how in one.get("depends_on", {}).items():
            healthy = how["condition"] == "service_healthy"
            assert ("healthcheck" in file["services"][other]) == healthy
