"""Reads committed checkpoints back, one at a time, at low priority, and marks what it finds."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import structlog
from everstep_bus.errors import TransientBusError
from everstep_checkpoint.errors import StorageFullError
from everstep_checkpoint.keeping import damaged, read_back
from everstep_checkpoint.validity import Listed
from everstep_contract.facts.checkpoint import CheckpointDamaged
from everstep_contract.manifest import Manifest

from everstep_checkpoint_indexer.enact import Index
from everstep_checkpoint_indexer.metrics import DAMAGE, READ_BACK
from everstep_checkpoint_indexer.model import House

NICE: Final = 10
RETRY_SECONDS: Final = 1.0

log = structlog.get_logger()

Read = Callable[[Manifest], Awaitable[None]]
"""Called with each checkpoint that was read back."""


class Reader:
    """What is to be read back, newest claim of damage first, then in the order of commits."""

    def __init__(self, house: House, index: Index) -> None:
        self._house = house
        self._storage = house.storage
        self._index = index
        self._queue: list[Manifest] = []
        self._claimed: set[str] = set()
        self._current: Manifest | None = None
        self._wake = asyncio.Event()

    @property
    def busy(self) -> frozenset[str]:
        """Names of checkpoints that are being read, or in which damage is claimed and not found."""
        current = {self._current.checkpoint} if self._current else set()
        return frozenset(self._claimed | current)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Names of checkpoints that are yet to be read."""
        return tuple(manifest.checkpoint for manifest in self._queue)

    def enqueue(self, manifest: Manifest, *, first: bool = False) -> None:
        """Have a checkpoint read back."""
        if manifest in self._queue:
            self._queue.remove(manifest)
        self._queue.insert(0 if first else len(self._queue), manifest)
        self._wake.set()

    def enqueue_unproven(self) -> None:
        """Have all read back of which nothing is known, newest first: a former life ended first."""
        unread = [one for one in self._index.all() if not one.marks.verified_at]
        for one in sorted(unread, key=lambda one: one.manifest.committed_at, reverse=True):
            if not one.marks.damage:
                self.enqueue(one.manifest)

    async def suspect(self, fact: CheckpointDamaged) -> None:
        """A worker found damage: choose another at once, and look for ourselves.

        Raises:
            TransientBusError: Do it again.
        """
        DAMAGE.inc()
        for one in self._index.find(fact.job, fact.checkpoint, fact.member.job_uid):
            why = f"{fact.member.name} on {fact.member.node}: {fact.detail}"
            log.error("checkpoint damaged, says a worker", checkpoint=fact.checkpoint, why=why)
            await self._mark(one.manifest, damaged(why))
            self._claimed.add(one.manifest.checkpoint)
            self.enqueue(one.manifest, first=True)

    async def run(self, read: Read) -> None:
        """Read back whatever is enqueued, until cancelled."""
        stopped = threading.Event()
        with ThreadPoolExecutor(1, "read-back", initializer=_yield_to_others) as thread:
            try:
                while True:
                    manifest = self._current = await self._next()
                    await self._read_back(manifest, partial(self._in, thread, stopped.is_set))
                    self._current = None
                    self._claimed.discard(manifest.checkpoint)
                    await read(manifest)
            finally:
                self._current = None
                stopped.set()

    async def _next(self) -> Manifest:
        while not self._queue:
            self._wake.clear()
            await self._wake.wait()
        return self._queue.pop(0)

    async def _in(
        self, thread: ThreadPoolExecutor, stopped: Callable[[], bool], manifest: Manifest
    ) -> dict[str, object]:
        now = self._house.clock.now()
        work = partial(read_back, self._storage, manifest, now, stopped=stopped)
        return await asyncio.get_running_loop().run_in_executor(thread, work)

    async def _read_back(
        self, manifest: Manifest, look: Callable[[Manifest], Awaitable[dict[str, Any]]]
    ) -> None:
        if self._index.knows(manifest) is None:
            return  # pruned meanwhile
        began = self._house.clock.monotonic()
        changes = await look(manifest)
        seconds = self._house.clock.monotonic() - began
        READ_BACK.labels("damaged" if changes["damage"] else "whole").inc()
        fields = {"job": str(manifest.job), "checkpoint": manifest.checkpoint, "seconds": seconds}
        if changes["damage"]:
            log.error("checkpoint damaged", why=changes["damage"], **fields)
        else:
            log.info("checkpoint verified", **fields)
        await self._mark_until_known(manifest, changes)

    async def _mark_until_known(self, manifest: Manifest, changes: dict[str, object]) -> None:
        while True:
            try:
                await self._mark(manifest, changes)
            except TransientBusError as error:
                log.debug("mark not recorded yet", why=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def _mark(self, manifest: Manifest, changes: dict[str, object]) -> None:
        """On storage, then in the index; where storage refuses, the index alone knows for now."""
        known = self._index.knows(manifest)
        if known is None:
            return
        try:
            marks = await asyncio.to_thread(partial(self._storage.mark, manifest, **changes))
        except FileNotFoundError:  # somebody's hand deleted it
            await self._index.forget(manifest)
            return
        except (StorageFullError, OSError) as error:
            log.warning("mark not written", checkpoint=manifest.checkpoint, why=str(error))
            marks = known.marks.model_copy(update=changes)
        await self._index.enter(Listed(manifest, marks))


def _yield_to_others() -> None:
    """Training on the same machine goes first; Linux takes a thread's id where POSIX has none."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
