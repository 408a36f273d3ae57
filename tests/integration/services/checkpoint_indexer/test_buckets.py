"""The indexer on an object store, where a checkpoint is written where it stays."""

from uuid import uuid4

from everstep_bus.interface import Bus
from everstep_checkpoint.media import Key
from everstep_checkpoint.shards import write_shard
from everstep_checkpoint.storage import Storage
from support.indexing import indexed, indexer, keeping, latest, verified, written
from support.jobs import JOB, JOB_UID
from support.polling import eventually


async def test_in_a_bucket_checkpoints_are_committed_read_back_and_pruned(
    bus: Bus, agent: Bus, person: Bus
) -> None:
    storage = Storage(f"memory://{uuid4().hex}")
    zombie = storage.attempt(JOB, JOB_UID, 1, 300) / "0-zombie.safetensors"
    write_shard(storage.medium, zombie, [b"half"])
    async with indexer(bus, storage, keeping(2)):
        for step in (100, 200, 300):
            await agent.publish(written(storage, step=step))

        async def is_kept() -> bool:
            return await verified(person) == {200, 300}

        await eventually(is_kept)
        await eventually(lambda: len(storage.medium.names(Key(JOB.token))) == 2)
        assert await latest(person) == 300
        (newest,) = [one for one in (await indexed(person)).values() if one.step == 300]
    assert newest.path.startswith("memory://")
    assert {one.step for one in storage.manifests()[0]} == {200, 300}
    assert zombie.name not in storage.medium.names(zombie.parent)
