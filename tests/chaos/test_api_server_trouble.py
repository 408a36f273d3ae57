"""A member is lost while the API server answers, but badly: the gang heals at once, the pod once.

Agents and services are processes, and one cluster serves all cases, one after the other. What
happens when it does not answer at all is in `test_api_outages`.
"""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.job_on_cluster import JOB, JOBS, NODES, OURS, Plan, Site, stepping
from support.polling import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEMBERS = 4
GENERATION = "everstep.dev/generation"
HASTE = {
    "EVERSTEP_GROW_INTERVAL_SECONDS": "0.5",
    "EVERSTEP_GROW_QUIET_SECONDS": "0.5",
}
RECOVER_SECONDS = 60.0
"""The longest: a call is tried again for up to 45 s."""
Page = tuple[str, dict[str, Any] | None]


@dataclass(frozen=True)
class Trouble:
    """Pages that begin it; it ends when the job is whole.

    ``breaks``: why the node watcher's watches end, as its metrics call it; None where they go on.
    """

    begin: tuple[Page, ...]
    breaks: str | None = None


def misbehave(kind: str, *, of: dict[str, Any] | None = None, **how: Any) -> Page:
    """Have the API server treat Everstep's calls so, all or some of them."""
    return "api/misbehave", {"act": {"kind": kind, **how}, "user_agent": f"^{OURS}", **(of or {})}


TROUBLES = {
    "is-slow": Trouble((misbehave("hang", seconds=1.0),)),
    "has-no-history": Trouble(
        (misbehave("refuse", code=410, of={"path": "watch="}), ("api/restart", None)),
        breaks="gone",
    ),
    "falls-silent": Trouble((("api/blackhole-watches", None),)),
    "writes-and-does-not-answer": Trouble(
        (
            misbehave("drop", applied=True, of={"method": "DELETE", "times": 1}),
            misbehave("drop", applied=True, of={"method": "PATCH", "times": 1}),
        ),
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(
    tmp_path_factory: pytest.TempPathFactory, template_socket: Path
) -> AsyncIterator[Site]:
    plan = Plan(
        nodes=MEMBERS,
        members=MEMBERS,
        floor=2,
        settings={
            "adjudicator": HASTE,
            "rescaler": {"EVERSTEP_QUARANTINE_REPETITION": "1000"},
        },
    )
    async with stepping(plan, tmp_path_factory.mktemp("site"), template_socket) as found:
        yield found


@pytest.mark.parametrize("name", TROUBLES)
@pytest.mark.timeout(200)
async def test_a_member_lost_meanwhile_is_replaced_once_and_nobody_else_is_touched(
    name: str, site: Site
) -> None:
    trouble, lost = TROUBLES[name], victim(name)
    before, already = await site.pods(), len(await site.deletions())
    broken = await watches_broken(site, trouble.breaks)
    for page in trouble.begin:
        await site.cluster.control(*page)
    await site.cluster.fault("crash", before[lost]["spec"]["nodeName"])
    await site.operator.resumed(MEMBERS - 1)

    async def breaks() -> bool:
        return await watches_broken(site, trouble.breaks) > broken

    if trouble.breaks:
        await eventually(breaks)
    await eventually(lambda: is_whole(site), within_seconds=RECOVER_SECONDS)
    await site.cluster.control("api/behave")
    check_deletions(name, lost, (await site.deletions())[already:])
    uids = {pod: body["metadata"]["uid"] for pod, body in before.items()}
    after = await site.uids()
    assert [pod for pod in uids if after[pod] != uids[pod]] == [lost]
    assert await site.cluster.written(OURS, method="PATCH", path=f"/{NODES}/") == []
    assert set((await generations_written(site)).values()) == {1}
    assert (await site.retries(), site.steps_lost()) == (0, 0)


def victim(name: str) -> str:
    """Another one each time, and never the first: its steps, which no other has, are progress."""
    return f"{JOB.name}-worker-{1 + list(TROUBLES).index(name) % (MEMBERS - 1)}"


def check_deletions(name: str, lost: str, deletions: list[Any]) -> None:
    """Only the lost pod was deleted, and by one request alone."""
    assert {(one.pod, one.by_force) for one in deletions} == {(lost, False)}
    done = [one for one in deletions if one.status == 200]
    assert len(done) == 1, f"{name}: {deletions}"


async def is_whole(site: Site) -> bool:
    record = await site.operator.record()
    return record.phase == "resumed" and len(record.seats) == MEMBERS


async def generations_written(site: Site) -> Counter[str]:
    """How often each generation was written on the Job."""
    writes = await site.cluster.written(OURS, method="PATCH", path=f"/{JOBS}/")
    return Counter(
        write["body"]["metadata"]["annotations"][GENERATION]
        for write in writes
        if write["status"] == 200
    )


async def watches_broken(site: Site, why: str | None) -> float:
    """How many watches of the node watcher have ended for this reason."""
    metrics = await site.services["node_watcher"].get("/metrics")
    start = f'everstep_kube_watch_reconnects_total{{reason="{why}"}} '
    return sum(float(line[len(start) :]) for line in metrics.splitlines() if line.startswith(start))
