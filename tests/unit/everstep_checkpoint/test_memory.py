"""How much memory may be taken: whatever is least of the machine's and the container's."""

from pathlib import Path

import psutil
import pytest
from everstep_checkpoint import memory
from everstep_checkpoint.errors import NoRoomError
from everstep_checkpoint.memory import available_bytes, require_room

MIB = 1 << 20


def container(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str, used: int, reclaimable: int = 0
) -> None:
    """Make the process see these files of its control group."""
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    stat = f"anon 5\ninactive_file {reclaimable}\nactive_file 7\n"
    (folder / "memory.stat").write_text(stat)
    files = ((folder / "memory.max", folder / "memory.current"),)
    monkeypatch.setattr(memory, "_LIMITS", files)


def test_a_container_has_what_its_limit_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container(tmp_path, monkeypatch, str(10 * MIB), 4 * MIB)
    assert available_bytes() == 6 * MIB


def test_files_that_are_only_cached_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container(tmp_path, monkeypatch, str(10 * MIB), 9 * MIB, reclaimable=5 * MIB)
    assert available_bytes() == 6 * MIB


def test_a_container_past_its_limit_has_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container(tmp_path, monkeypatch, str(10 * MIB), 11 * MIB)
    assert available_bytes() == 0


@pytest.mark.parametrize("limit", ["max", "unreadable"])
def test_without_a_limit_the_machine_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    container(tmp_path, monkeypatch, limit, 4 * MIB)
    assert available_bytes() > 100 * MIB


def test_a_machine_without_control_groups_decides_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_LIMITS", ((tmp_path / "none", tmp_path / "none"),))
    assert 0 < available_bytes() <= psutil.virtual_memory().total


def test_too_little_is_refused_with_what_is_needed_and_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container(tmp_path, monkeypatch, str(1024 * MIB), 512 * MIB)
    require_room(512 * MIB)
    with pytest.raises(NoRoomError, match=r"need 1\.00 GiB .* 0\.50 GiB are left") as refused:
        require_room(1024 * MIB)
    assert refused.value.available_bytes == 512 * MIB
