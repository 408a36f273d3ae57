"""A member is lost while the API server is in trouble: the gang heals at once, the pod later.

All services are processes, and one cluster serves all cases, one after the other.
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
STALE_SECONDS = 45.0
"""What the cluster told counts as unknown after 30 s of silence."""
Page = tuple[str, dict[str, Any] | None]
BEHAVE: Page = ("api/behave", None)
SLOW = {"hangs"}
"""A call that hangs is given up after 45 s."""


@dataclass(frozen=True)
class Trouble:
    """Pages that begin and end it.

    shuts_out: no call of Everstep succeeds, so it ends once one has failed. lasts: it does not end
    before the job is whole.
    """

    begin: tuple[Page, ...]
    end: tuple[Page, ...] = (BEHAVE,)
    shuts_out: bool = False
    lasts: bool = False


def misbehave(kind: str, *, of: dict[str, Any] | None = None, **how: Any) -> Page:
    """Have the API server treat Everstep's calls so, all or some of them."""
    return "api/misbehave", {"act": {"kind": kind, **how}, "user_agent": f"^{OURS}", **(of or {})}


def refusing(code: int, **how: Any) -> Trouble:
    return Trouble((misbehave("refuse", code=code, **how),), shuts_out=True)


TROUBLES = {
    "is-down": Trouble((("api/stop", None),), (("api/start", None),), shuts_out=True),
    "restarts-in-mid-watch": Trouble((("api/restart", None),), ()),
    "is-slow": Trouble((misbehave("hang", seconds=1.0),), lasts=True),
    "hangs": Trouble((misbehave("hang", seconds=300),), shuts_out=True),
    "throttles": refusing(429, retry_after_seconds=1),
    "fails": refusing(500),
    "has-no-history": Trouble(
        (("api/expire-history", None), misbehave("refuse", code=410, of={"path": "watch="})),
    ),
    "falls-silent": Trouble((("api/blackhole-watches", None),), ()),
    "writes-and-does-not-answer": Trouble(
        (
            misbehave("drop", applied=True, of={"method": "DELETE", "times": 1}),
            misbehave("drop", applied=True, of={"method": "PATCH", "times": 1}),
        )
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


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in TROUBLES]
)
@pytest.mark.timeout(200)
async def test_a_member_lost_meanwhile_is_replaced_once_and_nobody_else_is_touched(
    name: str, site: Site
) -> None:
    trouble, lost = TROUBLES[name], victim(name)
    before, already, quiet = await site.pods(), len(await site.deletions()), unsettled(site)
    for page in trouble.begin:
        await site.cluster.control(*page)
    await site.cluster.fault("crash", before[lost]["spec"]["nodeName"])
    await site.operator.resumed(MEMBERS - 1)
    if trouble.shuts_out:
        await eventually(lambda: unsettled(site) > quiet, within_seconds=RECOVER_SECONDS)
    if trouble.lasts:
        await eventually(lambda: is_whole(site), within_seconds=RECOVER_SECONDS)
    for page in trouble.end:
        await site.cluster.control(*page)
    await eventually(lambda: is_whole(site), within_seconds=RECOVER_SECONDS)
    check_deletions(name, lost, (await site.deletions())[already:])
    uids = {pod: body["metadata"]["uid"] for pod, body in before.items()}
    after = await site.uids()
    assert [pod for pod in uids if after[pod] != uids[pod]] == [lost]
    assert await site.cluster.written(OURS, method="PATCH", path=f"/{NODES}/") == []
    assert set((await generations_written(site)).values()) == {1}
    assert (await site.retries(), site.steps_lost()) == (0, 0)


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_ec01_a_long_outage_shows_in_the_metrics_of_the_node_watcher_until_it_is_over(
    site: Site,
) -> None:
    everything = {"pods", "nodes", "jobs"}
    assert await stale(site) == set()
    await site.cluster.control("api/stop")

    async def all_stale() -> bool:
        return await stale(site) == everything

    async def none_stale() -> bool:
        return await stale(site) == set()

    await eventually(all_stale, within_seconds=STALE_SECONDS)
    assert (await site.operator.record()).phase == "resumed"
    await site.cluster.control("api/start")
    await eventually(none_stale)


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


def unsettled(site: Site) -> int:
    """How often the rescaler has complained of the cluster."""
    lines = site.services["rescaler"].lines()
    return sum(line["event"] == "cluster not settled" for line in lines)


async def stale(site: Site) -> set[str]:
    """Kinds of objects that the node watcher holds for unknown."""
    metrics = await site.services["node_watcher"].get("/metrics")
    start, end = 'everstep_node_watcher_cluster_stale{plural="', '"} 1.0'
    return {
        line.removeprefix(start).removesuffix(end)
        for line in metrics.splitlines()
        if line.startswith(start) and line.endswith(end)
    }
