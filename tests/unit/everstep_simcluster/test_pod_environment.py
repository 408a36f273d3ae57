"""A container's command line and environment, without starting it."""

from pathlib import Path

import pytest
from everstep_simcluster.errors import UnsupportedPodError
from everstep_simcluster.pod_environment import pod_command
from everstep_simcluster.resources import Object

FOLDER = Path("/pods/one")


def pod(**container: object) -> Object:
    metadata = {"name": "one", "labels": {"b": "2", "a": "1"}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", **container}]}}


def test_arguments_follow_the_command_with_variables_put_in() -> None:
    env = [{"name": "RANKS", "value": "8"}, {"name": "ALSO", "value": "$(RANKS)-$(ABSENT)"}]
    command = pod_command(
        pod(command=["run"], args=["--ranks=$(RANKS)", "$$(RANKS)"], env=env), FOLDER, None
    )
    assert command.argv == ("run", "--ranks=8", "$(RANKS)")
    assert command.env["ALSO"] == "8-$(ABSENT)"


def test_a_map_of_labels_is_written_line_by_line() -> None:
    source = {"fieldRef": {"fieldPath": "metadata.labels"}}
    command = pod_command(
        pod(command=["run"], env=[{"name": "LABELS", "valueFrom": source}]), FOLDER, None
    )
    assert command.env["LABELS"] == 'a="1"\nb="2"'


def test_only_some_variables_of_this_process_are_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EVERSTEP_SECRET", "x")
    command = pod_command(pod(command=["run"]), FOLDER, None)
    assert "EVERSTEP_SECRET" not in command.env
    assert command.env["HOSTNAME"] == "one"


def test_it_runs_in_its_own_folder_unless_it_names_another() -> None:
    assert pod_command(pod(command=["run"]), FOLDER, None).cwd == FOLDER
    assert pod_command(pod(command=["run"], workingDir="/srv"), FOLDER, None).cwd == Path("/srv")


@pytest.mark.parametrize(
    ("container", "why"),
    [
        ({}, "no command"),
        (
            {"command": ["run"], "env": [{"name": "K", "valueFrom": {"secretKeyRef": {}}}]},
            "variable K comes from secretKeyRef",
        ),
    ],
)
def test_what_a_process_cannot_have_is_refused(container: Object, why: str) -> None:
    with pytest.raises(UnsupportedPodError, match=why):
        pod_command(pod(**container), FOLDER, None)
