"""Everything that one leader does with the checkpoints of all jobs, and what it has gathered."""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog
from everstep_bus.interface import Received
from everstep_checkpoint.media import Key
from everstep_contract.errors import EverstepError
from everstep_contract.facts.checkpoint import CheckpointDamaged, SaveFailed, ShardPrepared

from everstep_checkpoint_indexer.answering import Answers
from everstep_checkpoint_indexer.committing import Committer
from everstep_checkpoint_indexer.decide import is_possible
from everstep_checkpoint_indexer.enact import Index
from everstep_checkpoint_indexer.gathering import (
    attempt_of,
    finished,
    gather,
    next_ready_at,
    postponed,
    ready,
    without_idle,
)
from everstep_checkpoint_indexer.metrics import FAILED_SAVES, PENDING
from everstep_checkpoint_indexer.model import Complete, Gathering, House
from everstep_checkpoint_indexer.pruning import Pruner
from everstep_checkpoint_indexer.reading import Reader

LOOK_SECONDS: Final = 60.0
"""How often idle attempts are looked for when nothing else happens."""

log = structlog.get_logger()


class ImpossibleShardError(EverstepError):
    """A shard that is none of its checkpoint's, or lies in no file that a shard can lie in."""

    def __init__(self, fact: ShardPrepared) -> None:
        place = f"shard {fact.shard} of {fact.shards} of {fact.checkpoint!r}"
        super().__init__(f"{place}, file {fact.path!r}")


class Keeper:
    """What one process knows; it acts on it while it leads."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.index = Index(house)
        self.reader = Reader(house, self.index)
        self.pruner = Pruner(house, self.index, self.reader)
        self.answers = Answers(house, self.index, self.pruner)
        self._committer = Committer(house, self.index, self.reader, self.pruner)
        self._gathering = Gathering()
        self._wake = asyncio.Event()

    def take(self, fact: ShardPrepared) -> None:
        """Take one shard in; what is committed already is done with."""
        attempt = attempt_of(fact)
        if not is_possible(fact):
            return
        if self.index.find(fact.job, fact.checkpoint, attempt.job_uid):
            self._gathering = finished(self._gathering, attempt)
            return
        self._gathering = gather(self._gathering, fact, self._house.clock.monotonic())
        self._wake.set()

    async def commit_forever(self) -> None:
        """Commit whatever is complete, one at a time, until cancelled."""
        while True:
            await self._commit_ready()
            PENDING.set(len(self._gathering.pending))
            await self._pause()

    async def hear(self, received: Received) -> None:
        """Act on a fact that counts once.

        Raises:
            ImpossibleShardError: No checkpoint can be made of it.
            TransientBusError: Do it again.
        """
        match received.message:
            case ShardPrepared() as fact if not is_possible(fact):
                raise ImpossibleShardError(fact)
            case SaveFailed() as fact:
                FAILED_SAVES.labels(fact.trouble).inc()
                log.warning("save failed", checkpoint=fact.checkpoint, why=fact.trouble)
                if fact.trouble == "full":
                    await self.pruner.make_room(fact.job)
            case CheckpointDamaged() as fact:
                await self.reader.suspect(fact)
            case _:
                pass

    async def compare_with_storage(self) -> None:
        """Take in what was imported, and delete the attempts that nobody goes on with.

        Raises:
            TransientBusError: Not all of it was done; do it again.
            OSError: Storage does not answer; do it again.
        """
        await self.pruner.discover()
        await self.pruner.collect(self._awaited())

    def _awaited(self) -> set[Key]:
        storage = self._house.storage
        return {
            storage.attempt(attempt.job, attempt.job_uid, attempt.generation, attempt.step)
            for attempt in self._gathering.pending
        }

    async def _commit_ready(self) -> None:
        clock, policy = self._house.clock, self._house.policy
        now = clock.monotonic()
        self._gathering = without_idle(self._gathering, policy, now)
        completes = ready(self._gathering, policy, now)
        for complete in await self._without_gone(completes) if completes else ():
            if await self._committer.commit(complete):
                self._gathering = finished(self._gathering, complete.attempt)
            else:
                self._gathering = postponed(self._gathering, complete.attempt, clock.monotonic())

    async def _without_gone(self, completes: Sequence[Complete]) -> Sequence[Complete]:
        try:
            left = await self._committer.without_gone(completes)
        except OSError as error:
            log.warning("storage does not answer", why=str(error))
            return completes  # each waits for it
        gone = {one.attempt for one in completes} - {one.attempt for one in left}
        self._gathering = finished(self._gathering, *gone)
        return left

    async def _pause(self) -> None:
        """Until a shard comes, or something that is waited for has been waited for enough."""
        at = next_ready_at(self._gathering, self._house.policy)
        left = LOOK_SECONDS if at is None else at - self._house.clock.monotonic()
        try:
            async with asyncio.timeout(min(LOOK_SECONDS, max(left, 0.0))):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()
