"""Which files lead to the cluster, and what is said where none does."""

from pathlib import Path

import pytest
from everstep_kube.access import Entrance
from everstep_kube.errors import KubeConfigError
from everstep_kube.kubeconfig import kubeconfig_files

OURS = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: far, user: me}}]
users: [{name: me, user: {token: secret}}]
"""
THEIRS = """
apiVersion: v1
kind: Config
current-context: elsewhere
clusters: [{name: far, cluster: {server: 'http://far:1'}}]
"""


def test_a_named_file_counts_before_the_variable() -> None:
    assert kubeconfig_files(Path("/named"), {"KUBECONFIG": "/a"}) == (Path("/named"),)


def test_the_variable_lists_files_and_empty_parts_are_none() -> None:
    assert kubeconfig_files(None, {"KUBECONFIG": ":/a::/b:"}) == (Path("/a"), Path("/b"))


def test_an_absent_or_empty_variable_leaves_the_service_account(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert kubeconfig_files(None, home) == kubeconfig_files(None, {"KUBECONFIG": ""} | home) == ()


def test_without_the_variable_the_usual_file_counts_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    usual = tmp_path / ".kube" / "config"
    usual.write_text(OURS)
    assert kubeconfig_files(None, {"HOME": str(tmp_path)}) == (usual,)


async def test_several_files_are_merged_and_one_that_is_absent_is_passed_over(
    tmp_path: Path,
) -> None:
    (tmp_path / "ours").write_text(OURS)
    (tmp_path / "theirs").write_text(THEIRS.replace("current-context: elsewhere\n", ""))
    listed = tuple(tmp_path / name for name in ("absent", "ours", "theirs"))
    access = await Entrance(listed).access()
    assert (access.host, access.authorization) == ("http://far:1", "Bearer secret")


async def test_of_what_two_files_say_the_first_ones_word_counts(tmp_path: Path) -> None:
    (tmp_path / "ours").write_text(OURS)
    (tmp_path / "theirs").write_text(THEIRS)
    access = await Entrance((tmp_path / "ours", tmp_path / "theirs")).access()
    assert access.host == "http://far:1"


async def test_where_no_file_is_there_all_that_were_tried_are_named(tmp_path: Path) -> None:
    listed = (tmp_path / "one", tmp_path / "two")
    with pytest.raises(KubeConfigError, match=f"{listed[0]}, {listed[1]}: .*no such file"):
        await Entrance(listed).access()


async def test_without_any_file_the_variable_and_the_service_account_are_named() -> None:
    with pytest.raises(KubeConfigError, match=r"service account \(KUBECONFIG and ~"):
        await Entrance(()).access()
