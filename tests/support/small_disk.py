"""A file system of a few MiB, so that a full disk is a real one."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[Path]:
    """Mounted below ``folder`` while the context is open; skips where nobody may mount."""
    place = folder / "small-disk"
    place.mkdir()
    size = f"size={mib}m"
    mount = ["mount", "-t", "tmpfs", "-o", size, "small-disk", str(place)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        if place.is_mount():
            subprocess.run(["umount", "--lazy", str(place)], check=True)
