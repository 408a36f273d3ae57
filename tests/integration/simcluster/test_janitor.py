"""What is left of a cluster's folder when its process has ended."""

import subprocess
import sys
from pathlib import Path

from support.small_disk import small_disk


def test_a_file_system_that_was_mounted_in_the_folder_goes_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with small_disk(folder, 1) as disk:
        (disk / "file").write_text("something")
        janitor = [sys.executable, "-m", "everstep_simcluster.janitor", "", str(folder)]
        subprocess.run(janitor, stdin=subprocess.DEVNULL, timeout=60, check=True)
        assert not folder.exists()
