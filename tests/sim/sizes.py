"""The simulated Volcano Job: its size, its pods by index, and the rescaler's way to change it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from everstep_bus.errors import BusError, TransientBusError
from everstep_bus.interface import Bus
from everstep_contract.facts.job import JobObserved
from everstep_contract.identity import GangSpec, JobKey
from everstep_contract.layout import JOBS
from everstep_contract.rescaling import JobSize
from everstep_kube.errors import ConflictError, InvalidError, KubeError
from everstep_kube.resizing import Resizing, SizedJob
from everstep_rescaler.resizing import SizeDesk
from everstep_runtime.clock import Clock

LOOK_SECONDS: Final = 1.0
API_SECONDS: Final = 0.02
AGAIN_SECONDS: Final = 0.1
UID: Final = "uid-1"


class SimJob(Resizing):
    """One Job. ``fit`` makes its pods what it asks for; ``tell`` publishes a watcher's fact.

    ``denial``: why the next change is refused; empty: it is not.
    """

    def __init__(
        self,
        job: JobKey,
        gang: GangSpec,
        fit: Callable[[JobSize], None],
        tell: Callable[[JobObserved], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self.size = JobSize(replicas=gang.max_member, min_available=gang.min_member)
        self.denial = ""
        self._job = job
        self._gang = gang
        self._fit = fit
        self._tell = tell
        self._clock = clock
        self._version = 1
        self._telling: list[asyncio.Task[None]] = []

    async def read(self, job: JobKey) -> SizedJob | None:
        """As the API server answers."""
        await asyncio.sleep(API_SECONDS)
        return SizedJob(job, UID, str(self._version), self.size)

    async def change(self, job: SizedJob, size: JobSize) -> None:
        """As the API server and Volcano's webhook answer."""
        await asyncio.sleep(API_SECONDS)
        if job.resource_version != str(self._version):
            raise ConflictError("PATCH", status=409, message="changed")
        denial, self.denial = self.denial, ""
        if denial:
            raise InvalidError("PATCH", status=400, message=denial)
        self.become(size)

    def become(self, size: JobSize) -> None:
        """Somebody changed the Job: Volcano fits its pods, and the watcher sees it."""
        self.size = size
        self._version += 1
        self._fit(size)
        self._telling.append(asyncio.ensure_future(self._observe(size, self._version)))

    async def _observe(self, size: JobSize, version: int) -> None:
        counts = {"max_member": size.replicas, "min_member": size.min_available}
        while version == self._version:
            try:
                await self._tell(
                    JobObserved(
                        at=self._clock.now(),
                        job=self._job,
                        job_uid=UID,
                        gang=self._gang.model_copy(update=counts),
                        annotated_generation=0,
                        resource_version=str(version),
                    )
                )
            except TransientBusError:
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return

    def close(self) -> None:
        """End what is still to be told."""
        for task in self._telling:
            task.cancel()


async def keep_sizes(bus: Bus, job: SimJob, clock: Clock) -> None:
    """The rescaler's looks at wishes for another size, as its cluster half has them."""
    desk = SizeDesk(bus, job, clock, act=True)
    while True:
        try:
            for entry in await bus.kv(JOBS).entries():
                if entry.value is not None:
                    await desk.look(entry.value.job)
        except (BusError, KubeError):
            pass  # looked at again
        await asyncio.sleep(LOOK_SECONDS)
