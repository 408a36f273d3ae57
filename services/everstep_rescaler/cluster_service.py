"""The loop of the cluster half: look at each job, make what is due, undo what is over.

One rescaler at a time does this, under a lease; orders need none and never wait for it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from everstep_bus.errors import BusError
from everstep_bus.interface import Bus
from everstep_contract.layout import JOBS
from everstep_contract.record import JobRecord, NodeRecord
from everstep_kube.errors import KubeError
from everstep_kube.writing import ClusterApi
from everstep_runtime.clock import Clock
from everstep_runtime.lease import Lease

from everstep_rescaler.cluster_decide import decide_cluster, decide_release, is_well
from everstep_rescaler.cluster_enact import ClusterDesk
from everstep_rescaler.cluster_model import Change
from everstep_rescaler.cluster_policy import ClusterPolicy
from everstep_rescaler.cluster_read import SceneReader
from everstep_rescaler.hearing import Hearing
from everstep_rescaler.resizing import SizeDesk

PAUSE_SECONDS: Final = 60.0
"""How long a change that was refused, or that we refrain from, is not tried again."""
PAUSED_LIMIT: Final = 10_000

log = structlog.get_logger()


class ClusterHalf:
    """Keeps one cluster as the records of all jobs ask for."""

    def __init__(self, bus: Bus, api: ClusterApi, policy: ClusterPolicy, clock: Clock) -> None:
        self.hearing = Hearing(clock)
        self._bus = bus
        self._api = api
        self._policy = policy
        self._clock = clock
        self._reader = SceneReader(bus, api, clock, self.hearing, policy)
        self._desk = ClusterDesk(bus, api, clock, act=policy.act)
        self._sizes = SizeDesk(bus, api.sizes, clock, act=policy.act)
        self._annotated: dict[str, int] = {}
        self._paused: dict[tuple[str, Change], float] = {}
        self._well_since: dict[str, float] = {}

    async def look(self) -> None:
        """Do once whatever is due; what did not answer is looked at again the next time."""
        with _forgiving("records"):
            entries = await self._bus.kv(JOBS).entries()
            records = [entry.value for entry in entries if entry.value]
            excluded = [exclusion.member for record in records for exclusion in record.excluded]
            self.hearing.know_excluded(excluded)
            for record in records:
                if record.rescale is not None and record.rescale.is_open:
                    with _forgiving(f"the size of {record.job}"):
                        await self._sizes.look(record.job)
                if record.excluded or self._annotated.get(record.job_uid, 0) < record.generation:
                    with _forgiving(str(record.job)):
                        await self._look_at(record)
            for known in await self._reader.node_records():
                if known.quarantined_by:
                    with _forgiving(known.node):
                        await self._look_at_node(known)

    async def _look_at(self, record: JobRecord) -> None:
        scene = await self._reader.read(record.job)
        if scene is None:
            return
        for change in decide_cluster(scene, self._policy):
            key = (record.job_uid, change)
            if self._clock.monotonic() < self._paused.get(key, 0.0):
                continue
            again = await self._reader.read(record.job)
            if again is None or change not in decide_cluster(again, self._policy):
                continue
            if not await self._desk.make(again, change):
                self._pause(key)
        self._annotated[record.job_uid] = scene.record.generation

    def _pause(self, key: tuple[str, Change]) -> None:
        if len(self._paused) >= PAUSED_LIMIT:
            self._paused.clear()
        seconds = PAUSE_SECONDS if self._policy.act else float("inf")
        self._paused[key] = self._clock.monotonic() + seconds

    async def _look_at_node(self, known: NodeRecord) -> None:
        node = await self._api.node(known.node)
        heard = self.hearing.heard_on(known.node, within_seconds=self._policy.silent_seconds)
        now = self._clock.monotonic()
        if is_well(known, node, heard=heard):
            since = self._well_since.setdefault(known.node, now)
        else:
            since = now
            self._well_since.pop(known.node, None)
        release = decide_release(known, node, well_seconds=now - since, policy=self._policy)
        if release is not None and await self._desk.release(known, release):
            self._well_since.pop(known.node, None)


async def serve_cluster(
    bus: Bus, api: ClusterApi, policy: ClusterPolicy, clock: Clock, *, holder: str
) -> None:
    """Keep the cluster as records ask for while holding the lease, until cancelled."""
    lease = Lease(bus, clock, name="rescaler", holder=holder)
    half = ClusterHalf(bus, api.guarded(lease.check), policy, clock)

    async def work(_revision: int) -> None:
        while True:
            await half.look()
            await asyncio.sleep(policy.look_seconds)

    async with asyncio.TaskGroup() as group:
        group.create_task(_hear(bus, half.hearing))
        group.create_task(_notice_deafness(bus, half.hearing, policy.silent_seconds / 4))
        group.create_task(lease.lead(work))


@contextmanager
def _forgiving(what: str) -> Iterator[None]:
    """Leave for the next look what did not answer now, or what somebody else changed meanwhile."""
    try:
        yield
    except (BusError, KubeError) as error:
        log.warning("cluster not settled", what=what, error=str(error))


async def _hear(bus: Bus, hearing: Hearing) -> None:
    async for report in bus.reports():
        hearing.hear(report)


async def _notice_deafness(bus: Bus, hearing: Hearing, every_seconds: float) -> None:
    while True:
        if not bus.connected:
            hearing.was_deaf()
        await asyncio.sleep(every_seconds)
