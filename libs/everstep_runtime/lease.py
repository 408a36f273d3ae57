"""Leader lease on key-value: expires by an unmoved revision on a monotonic clock (R5).

The holder renews by compare-and-set. A standby takes over once it has itself seen the revision
stand still for `LeaseTiming.expiry_seconds`; no clock of another machine is read. The holder stops
acting `LeaseTiming.lost_seconds` after the last renewal it knows of, which is sooner. A process
that was paused learns of that only some moments after it goes on, so effects ask `Lease.check`
right before they begin. What was sent just before may still arrive late, so everything written
carries a condition of its own: the revision given to the leader, or a version or uid.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from everstep_bus.cancelling import cancellable
from everstep_bus.errors import BusError, RevisionMismatchError, TransientBusError
from everstep_bus.interface import Bus, Entry
from everstep_contract.layout import LEASES
from everstep_contract.names import encode_name
from everstep_contract.record import LeaseRecord

from everstep_runtime.clock import Clock
from everstep_runtime.errors import LeaseLostError

log = structlog.get_logger()


@dataclass(frozen=True)
class LeaseTiming:
    """Durations of a lease in seconds; a standby takes over in about 2 s."""

    renew_seconds: float = 0.4
    lost_seconds: float = 1.2
    expiry_seconds: float = 1.8
    look_seconds: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.renew_seconds < self.lost_seconds < self.expiry_seconds:
            raise ValueError(f"two could lead at once with {self}")


class Lease:
    """One candidate's view of one lease."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        *,
        name: str,
        holder: str,
        timing: LeaseTiming | None = None,
    ) -> None:
        """``holder`` names one life of one process: it takes its own lease back at once."""
        self._kv = bus.kv(LEASES)
        self._clock = clock
        self._name = name
        self._key = encode_name(name)
        self._holder = holder
        self._timing = timing or LeaseTiming()
        self._renewals = 0
        self._held: _Held | None = None

    def check(self) -> None:
        """Go on only if the lease is surely ours now, however long this process stood still.

        Raises:
            LeaseLostError: It is not; whoever lets this out of `lead`'s work ends its term.
        """
        if self._held is None or self._seconds_left(self._held) <= 0:
            raise LeaseLostError(lease=self._name, why="not renewed in time")

    async def lead(self, work: Callable[[int], Awaitable[None]]) -> None:
        """Wait for the lease, do ``work`` while holding it; again after losing it, until it ends.

        ``work`` gets the revision at which the lease was taken: it only grows from holder to
        holder, and fences what they write. It is cancelled the moment the lease is lost, before
        a standby may act. When it returns or raises, the lease is given back.
        """
        while True:
            revision, taken_at = await self._acquire()
            log.info("lease taken", lease=self._name, holder=self._holder, revision=revision)
            with cancellable(over=LeaseLostError):
                try:
                    await self._hold(work, revision, taken_at)
                except* LeaseLostError as lost:
                    log.warning("lease lost", lease=self._name, why=str(lost.exceptions[0]))
                else:
                    return

    async def _hold(
        self, work: Callable[[int], Awaitable[None]], revision: int, taken_at: float
    ) -> None:
        held = self._held = _Held(revision, taken_at)
        try:
            async with asyncio.TaskGroup() as group:
                renewal = group.create_task(self._renew(held))
                await work(revision)
                renewal.cancel()
        finally:
            self._held = None
            await self._give_back(held)

    async def _acquire(self) -> tuple[int, float]:
        """The revision under which the lease is ours, and when we asked for it."""
        seen, seen_at = -1, self._clock.monotonic()
        while True:
            asked_at = self._clock.monotonic()
            try:
                async with asyncio.timeout(self._timing.lost_seconds):
                    entry = await self._kv.get(self._key)
                    revision = entry.revision if entry else 0
                    if revision != seen:
                        seen, seen_at = revision, self._clock.monotonic()
                    if self._may_take(entry, asked_at - seen_at):
                        return await self._kv.put(
                            self._key, self._next(), expected=revision
                        ), asked_at
            except (BusError, TimeoutError) as error:
                log.debug("lease not taken", lease=self._name, error=str(error))
            await asyncio.sleep(self._timing.look_seconds)

    def _may_take(self, entry: Entry[LeaseRecord] | None, unmoved_seconds: float) -> bool:
        if entry is None or entry.value is None or entry.value.holder == self._holder:
            return True
        promised = entry.value.expiry_seconds or 0.0
        return unmoved_seconds >= max(promised, self._timing.expiry_seconds)

    async def _renew(self, held: "_Held") -> None:
        while True:
            await asyncio.sleep(min(self._timing.renew_seconds, max(self._seconds_left(held), 0)))
            asked_at = self._clock.monotonic()
            try:
                async with asyncio.timeout(max(self._seconds_left(held), 0)):
                    held.revision = await self._renewed(held.revision)
                held.renewed_at = asked_at
            except TimeoutError:
                raise LeaseLostError(lease=self._name, why="not renewed in time") from None

    async def _renewed(self, revision: int) -> int:
        """The revision that one renewal leads to, however often the bus must be asked for it."""
        record = self._next()
        while True:
            try:
                return await self._kv.put(self._key, record, expected=revision)
            except RevisionMismatchError:
                if (written := await self._revision_of(record)) is not None:
                    return written  # an earlier try of ours, whose answer was lost
                raise LeaseLostError(lease=self._name, why="taken by another") from None
            except TransientBusError:
                await asyncio.sleep(self._timing.look_seconds)

    async def _revision_of(self, record: LeaseRecord) -> int | None:
        """Where the lease stands if it stands at ``record``."""
        while True:
            try:
                entry = await self._kv.get(self._key)
                return entry.revision if entry and entry.value == record else None
            except TransientBusError:
                await asyncio.sleep(self._timing.look_seconds)

    def _seconds_left(self, held: "_Held") -> float:
        return held.renewed_at + self._timing.lost_seconds - self._clock.monotonic()

    def _next(self) -> LeaseRecord:
        self._renewals += 1
        return LeaseRecord(
            holder=self._holder,
            renewals=self._renewals,
            expiry_seconds=self._timing.expiry_seconds,
        )

    async def _give_back(self, held: "_Held") -> None:
        """So that a standby need not wait; when it fails, the lease expires by itself."""
        try:
            async with asyncio.timeout(self._timing.look_seconds):
                await self._kv.delete(self._key, expected=held.revision)
        except (BusError, TimeoutError) as error:
            log.debug("lease not given back", lease=self._name, error=str(error))


@dataclass
class _Held:
    """The newest revision of a lease that we hold, and when the renewal to it was asked for."""

    revision: int
    renewed_at: float
