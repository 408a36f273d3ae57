"""An operator at the command line, on a real server, and the record of the job that is changed."""

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from everstep_bus.interface import Bus
from everstep_bus.nats.credentials import role_seed_path
from everstep_contract.identity import JobKey
from everstep_contract.layout import JOBS
from everstep_contract.record import JobRecord
from support.polling import eventually

COMMAND_SECONDS = 60


@dataclass(frozen=True)
class CommandLine:
    """Where an operator types: a bus's address, and the folder of its credentials."""

    url: str
    credentials: Path

    async def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        seed = role_seed_path(self.credentials, "operator")
        access = ("--nats-url", self.url, "--credentials", str(seed))
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "everstep_cli", *arguments, *access],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    async def said(self, *arguments: str) -> str:
        """What a command prints that succeeds."""
        done = await self.run(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    async def complaint(self, *arguments: str) -> str:
        """The last line of a command that fails."""
        done = await self.run(*arguments)
        assert done.returncode == 1
        return done.stderr.splitlines()[-1]


@dataclass(frozen=True)
class Operator(CommandLine):
    """Who changes a job; ``bus`` is somebody's who may read records."""

    bus: Bus
    job: JobKey

    async def record(self) -> JobRecord:
        """The job's."""
        entry = await self.bus.kv(JOBS).get(self.job.token)
        assert entry is not None
        assert entry.value is not None
        return entry.value

    async def resumed(self, members: int) -> JobRecord:
        """Wait until so many members step."""

        async def there() -> bool:
            entry = await self.bus.kv(JOBS).get(self.job.token)
            record = entry.value if entry else None
            return bool(record and record.phase == "resumed" and len(record.seats) == members)

        await eventually(there, what=f"no {members} members step")
        return await self.record()
