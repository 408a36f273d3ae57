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
from everstep_rescaler.cluster_model import Annotate, Change, Refrain, Release, Renew, Scene
from everstep_rescaler.cluster_nodes import NodeDesk
from everstep_rescaler.cluster_policy import ClusterPolicy
from everstep_rescaler.cluster_read import SceneReader
from everstep_rescaler.commands import NodeCommands
from everstep_rescaler.draining import DrainDesk
from everstep_rescaler.hearing import Hearing
from everstep_rescaler.house import House
from everstep_rescaler.incidents_told import tell_of_incidents
from everstep_rescaler.resizing import SizeDesk
from everstep_rescaler.returning import ReturnDesk
from everstep_rescaler.telling import Teller

PAUSE_SECONDS: Final = 60.0
"""How long a change that was refused, or that we refrain from, is not tried again."""
PAUSED_LIMIT: Final = 10_000
CHANGES_LIMIT: Final = 1_000
"""Changes of one job in one look; the rest waits for the next."""

log = structlog.get_logger()


class ClusterHalf:
    """Keeps one cluster as the records of all jobs, and the words of operators, ask for.

    Reads, and the write that follows from them, are made by one at a time: the loop or a command.
    """

    def __init__(self, house: House) -> None:
        self.hearing = Hearing(house.clock)
        self._bus = house.bus
        self._api = house.api
        self._policy = house.policy
        self._clock = house.clock
        self._writing = asyncio.Lock()
        self._reader = SceneReader(house, self.hearing)
        self._nodes = NodeDesk(house)
        self._desk = ClusterDesk(house, self._nodes)
        self._drains = DrainDesk(house, self._nodes)
        self.returns = ReturnDesk(house, self._nodes)
        self._sizes = SizeDesk(house.bus, house.api.sizes, house.clock, act=house.policy.act)
        self.commands = NodeCommands(house, self._nodes, self._drains, self._writing)
        self._annotated: dict[str, int] = {}
        self._paused: dict[tuple[str, Change | Release | Renew], float] = {}
        self._well_since: dict[str, float] = {}
        self._complaints: dict[str, str] = {}

    async def look(self) -> None:
        """Do once whatever is due; what did not answer is looked at again the next time."""
        with self._forgiving("records"):
            entries = await self._bus.kv(JOBS).entries()
            records = [entry.value for entry in entries if entry.value]
            excluded = [exclusion.member for record in records for exclusion in record.excluded]
            self.hearing.know_excluded(excluded)
            for record in records:
                if record.rescale is not None and record.rescale.is_open:
                    with self._forgiving(f"the size of {record.job}"):
                        await self._sizes.look(record.job)
                if record.excluded or self._annotated.get(record.job_uid, 0) < record.generation:
                    with self._forgiving(str(record.job)):
                        await self._look_at(record)
            known = await self._reader.node_records()
            for one in known:
                if one.quarantined_by:
                    with self._forgiving(one.node):
                        async with self._writing:
                            await self._look_at_node(one)
            with self._forgiving("machines that return"):
                async with self._writing:
                    await self.returns.look(known)
            with self._forgiving("drains"):
                async with self._writing:
                    await self._drains.look(records, known)

    @contextmanager
    def _forgiving(self, what: str) -> Iterator[None]:
        """Leave for the next look what did not answer now, or what somebody else changed meanwhile.

        What stays the same is logged once.
        """
        try:
            yield
            self._complaints.pop(what, None)
        except (BusError, KubeError) as error:
            if self._complaints.get(what) != str(error):
                log.warning("cluster not settled", what=what, error=str(error))
            if len(self._complaints) >= PAUSED_LIMIT:
                self._complaints.clear()
            self._complaints[what] = str(error)

    async def _look_at(self, record: JobRecord) -> None:
        """Make what is due, one change after the other; each is decided on what was just read."""
        tried: set[Change] = set()
        for _ in range(CHANGES_LIMIT):
            async with self._writing:
                scene = await self._reader.read(record.job)
                if scene is None:
                    return
                changes = decide_cluster(scene, self._policy)
                change = next((one for one in changes if self._may_try(record, one, tried)), None)
                if change is None:
                    self._settle(scene, changes)
                    return
                tried.add(change)
                if not await self._desk.make(scene, change):
                    self._pause((record.job_uid, change), told=isinstance(change, Refrain))

    def _settle(self, scene: Scene, changes: tuple[Change, ...]) -> None:
        """Look no more at a job that leaves nobody out, once its generation is on the Job."""
        if not self._policy.act or not any(isinstance(one, Annotate) for one in changes):
            self._annotated[scene.record.job_uid] = scene.record.generation

    def _may_try(self, record: JobRecord, change: Change, tried: set[Change]) -> bool:
        return change not in tried and not self._is_paused((record.job_uid, change))

    def _is_paused(self, key: tuple[str, Change | Release | Renew]) -> bool:
        return self._clock.monotonic() < self._paused.get(key, 0.0)

    def _pause(self, key: tuple[str, Change | Release | Renew], *, told: bool = False) -> None:
        """Leave a change for a while; one that will not be made is told once."""
        if len(self._paused) >= PAUSED_LIMIT:
            self._paused.clear()
        seconds = PAUSE_SECONDS if self._policy.act and not told else float("inf")
        self._paused[key] = self._clock.monotonic() + seconds

    async def _look_at_node(self, seen: NodeRecord) -> None:
        known = await self._nodes.known(seen.node)
        if known is None or not known.quarantined_by:
            return  # somebody's command was quicker
        node = await self._api.node(known.node)
        heard = self.hearing.heard_on(known.node, within_seconds=self._policy.silent_seconds)
        now = self._clock.monotonic()
        if is_well(known, node, heard=heard):
            since = self._well_since.setdefault(known.node, now)
        else:
            since = now
            self._well_since.pop(known.node, None)
        change = decide_release(known, node, well_seconds=now - since, policy=self._policy)
        if node is None and change is None:
            await self._nodes.note_deleted(known)
        if change is None or self._is_paused((known.node, change)):
            return
        if isinstance(change, Renew):
            assert node is not None, "a node that was made anew is there"
            refused = await self._nodes.quarantine(node, known)
        else:
            refused = await self._nodes.release(known, change)
        if refused:
            self._pause((known.node, change))
        elif isinstance(change, Release):
            self._well_since.pop(known.node, None)


async def serve_cluster(
    bus: Bus, api: ClusterApi, policy: ClusterPolicy, clock: Clock, *, holder: str
) -> None:
    """Keep the cluster as records ask for while holding the lease, until cancelled."""
    lease = Lease(bus, clock, name="rescaler", holder=holder)
    teller = Teller(api, clock, act=policy.act)
    half = ClusterHalf(House(bus, api.guarded(lease.check), clock, policy, teller))

    async def work(_revision: int) -> None:
        async with half.commands.answering():
            while True:
                await half.look()
                await asyncio.sleep(policy.look_seconds)

    async with asyncio.TaskGroup() as group:
        group.create_task(_hear(bus, half.hearing))
        group.create_task(_notice_deafness(bus, half.hearing, policy.silent_seconds / 4))
        group.create_task(lease.lead(work))
        group.create_task(half.returns.listen())
        if policy.act:
            group.create_task(teller.run())
            group.create_task(tell_of_incidents(bus, api, teller, clock))


async def _hear(bus: Bus, hearing: Hearing) -> None:
    async for report in bus.reports():
        hearing.hear(report)


async def _notice_deafness(bus: Bus, hearing: Hearing, every_seconds: float) -> None:
    while True:
        if not bus.connected:
            hearing.was_deaf()
        await asyncio.sleep(every_seconds)
