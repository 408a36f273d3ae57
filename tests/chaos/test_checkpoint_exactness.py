"""A whole job that died goes on to the bit, with real services, agents and files."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from signal import SIGKILL

import pytest
from everstep_checkpoint.storage import Storage
from everstep_contract.facts.member import MemberFormed
from support.agent_fleet import JOB, Fleet, fleet
from support.kill_house import SERVICES, service_of
from support.polling import eventually
from support.s3 import SITE, s3_server

SCRIPT = Path(__file__).parents[1] / "support" / "drawing_script.py"
MEMBERS = 2
TOTAL = 30
CHECKPOINT_EVERY = 7
KILLED_AT = 18
Losses = dict[tuple[str, str], set[str]]


async def start_members(job: Fleet, root: str) -> None:
    """Members of a job that needs all of them."""
    program = (str(SCRIPT), str(job.folder), str(TOTAL), str(CHECKPOINT_EVERY))
    for _ in range(MEMBERS):
        gang = ("--nnodes", f"{MEMBERS}:{MEMBERS}")
        await job.start_script(*gang, *program, EVERSTEP_CHECKPOINT_ROOT=root)


def losses(job: Fleet) -> Losses:
    """By step and rank; of a step that was done again what it gave each time."""
    found: Losses = {}
    for notes in job.folder.glob("losses-*"):
        for line in notes.read_text().splitlines():
            step, rank, loss = line.split()
            found.setdefault((step, rank), set()).add(loss)
    return found


async def die_as_a_whole(job: Fleet, root: str) -> None:
    """SIGKILL all members between two checkpoints, once the older one is committed."""
    saved = KILLED_AT - KILLED_AT % CHECKPOINT_EVERY
    await eventually(lambda: len(losses(job)) == (KILLED_AT - 1) * MEMBERS, within_seconds=60)
    await eventually(lambda: saved in {one.step for one in Storage(root).manifests(JOB)[0]})
    for agent in job.agents:
        agent.send_signal(SIGKILL)
        await agent.wait()
    (job.folder / f"hold-{KILLED_AT}").unlink()


async def trained(folder: Path, root: str, template_socket: Path, *, killed: bool) -> Losses:
    """The losses of a whole training; killed: of one whose members all died on the way."""
    async with fleet(folder, template_socket) as job, AsyncExitStack() as stack:
        for role in SERVICES:
            await stack.enter_async_context(service_of(job, role, root))
        if killed:
            (folder / f"hold-{KILLED_AT}").touch()
        await start_members(job, root)
        if killed:
            await die_as_a_whole(job, root)
            await start_members(job, root)
        for agent in job.agents[-MEMBERS:]:
            assert await agent.wait() == 0
        sources = {formed.source for formed in job.events(MemberFormed)}
        assert ("disk" in sources) == killed
        return losses(job)


@pytest.fixture(params=["folder", "s3"])
def root(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Of checkpoints, for every process that is started."""
    if request.param == "folder":
        for part in ("undisturbed", "killed"):
            (tmp_path / "checkpoints" / part).mkdir(parents=True)
        yield str(tmp_path / "checkpoints")
        return
    with s3_server(tmp_path / "s3.log") as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.syspath_prepend(SITE)
        yield server.root("checkpoints")


@pytest.mark.slow  # tests/torch has the same of the library alone
async def test_a_whole_job_that_died_goes_on_with_the_very_losses_that_it_would_have_had(
    root: str, tmp_path: Path, template_socket: Path
) -> None:
    undisturbed = await trained(
        tmp_path / "undisturbed", f"{root}/undisturbed", template_socket, killed=False
    )
    killed = await trained(tmp_path / "killed", f"{root}/killed", template_socket, killed=True)
    assert all(len(seen) == 1 for seen in undisturbed.values())
    assert len(undisturbed) == TOTAL * MEMBERS
    assert killed == undisturbed
