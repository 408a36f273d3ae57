"""A checkpoint indexer that runs while a block does, and shards that lie on its storage."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from everstep_bus.background import background
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus
from everstep_checkpoint.retention import Retention
from everstep_checkpoint.shards import write_shard
from everstep_checkpoint.storage import Storage
from everstep_checkpoint_indexer.model import House, Policy
from everstep_checkpoint_indexer.service import serve
from everstep_contract.envelope import decode
from everstep_contract.facts.checkpoint import CheckpointCommitted, ShardPrepared
from everstep_contract.layout import CHECKPOINTS, EVENTS
from everstep_contract.queries import LatestCheckpoint, LatestCheckpointReply
from everstep_contract.record import CheckpointRecord
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from support.bus_worlds import BusWorld
from support.checkpoints import shard
from support.jobs import JOB

IMPATIENT = Policy(rank_patience_seconds=0.05)


def indexer(
    bus: Bus, storage: Storage, policy: Policy = IMPATIENT, *, instance: str = "a"
) -> AbstractAsyncContextManager[None]:
    """The service on this bus and this storage."""
    clock = SystemClock()
    house = House(bus, storage, policy, clock)
    return background(serve(house, Readiness(clock), instance=instance))


def keeping(keep_last: int = 2, **changes: Any) -> Policy:
    """A policy of this retention."""
    return Policy(retention=Retention(keep_last, **changes), rank_patience_seconds=0.05)


def written(storage: Storage, index: int = 0, *, step: int = 100, **changes: Any) -> ShardPrepared:
    """A shard that lies on storage, as its writer tells of it; alone, it is a whole state."""
    told = shard(index, step=step, **{"shards": 1, **changes})
    attempt = storage.attempt(JOB, told.member.job_uid, told.generation, step)
    key = attempt / f"{told.kind}-{index}-{told.member.incarnation}.safetensors"
    file = write_shard(storage.medium, key, [b"x" * 10])
    place = {"path": storage.where(key), "xxh3_128": file.xxh3_128}
    return told.model_copy(update=place)


async def committed(world: BusWorld) -> list[CheckpointRecord]:
    """What was told to be committed, in order."""
    facts = [decode(headers, payload) for _, headers, payload in await world.stored(EVENTS.name)]
    return [fact.record for fact in facts if isinstance(fact, CheckpointCommitted)]


async def indexed(bus: Bus) -> dict[int, CheckpointRecord]:
    """The index in key-value, by step."""
    entries = await bus.kv(CHECKPOINTS).entries()
    return {entry.value.step: entry.value for entry in entries if entry.value}


async def verified(bus: Bus) -> set[int]:
    """Steps of the checkpoints that were read back whole, as the index has them."""
    return {step for step, one in (await indexed(bus)).items() if one.verified_at}


async def latest(bus: Bus) -> int | None:
    """The step that a job would be restored from."""
    try:
        reply = await bus.ask(LatestCheckpoint(job=JOB), LatestCheckpointReply, timeout_seconds=0.3)
    except TransientBusError:
        return None  # the indexer is only starting
    return reply.record.step if reply.record else None


async def is_latest(bus: Bus, step: int) -> bool:
    """Whether a job would be restored from there."""
    return await latest(bus) == step
