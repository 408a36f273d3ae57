"""Where a drill keeps its files."""

import asyncio
import os
import sys
from pathlib import Path

from everstep_cli.drill.folder import temporary_folder
from support.polling import eventually

HOLDER = """
import time
from everstep_cli.drill.folder import temporary_folder
with temporary_folder() as folder:
    (folder / "log").write_text("here")
    print(folder, flush=True)
    time.sleep(60)
"""


def test_a_drills_folder_is_removed_at_its_end() -> None:
    with temporary_folder() as folder:
        (folder / "logs").mkdir()
    assert not folder.exists()


async def test_a_killed_drills_folder_is_removed_too() -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdout is not None
    log = Path(os.fsdecode((await holder.stdout.readline()).strip()), "log")
    await eventually(log.exists)
    holder.kill()
    await holder.wait()
    await eventually(lambda: not log.parent.exists())
