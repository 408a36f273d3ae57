"""Settings are checked before anything is made of them."""

from pathlib import Path

import pytest
from everstep_simcluster.__main__ import parse, settings_of
from everstep_simcluster.settings import ClusterSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": -1},
        {"gpus_per_node": -1},
        {"networks": "magic"},
        {"heartbeat_seconds": 0},
        {"node_grace_seconds": -1},
    ],
)
def test_a_wrong_setting_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"nodes|networks|seconds"):
        ClusterSettings(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_without_flags_everything_is_as_usual() -> None:
    assert settings_of(parse([])) == ClusterSettings()


def test_flags_set_what_they_name() -> None:
    flags = ["--nodes", "3", "--namespaces", "a b", "--template-socket", "/run/t"]
    settings = settings_of(parse([*flags, "--template-prefix", "everstep run"]))
    assert settings == ClusterSettings(
        nodes=3, namespaces=("a", "b"), template_socket=Path("/run/t"),
        template_prefix=("everstep", "run"),
    )  # fmt: skip
