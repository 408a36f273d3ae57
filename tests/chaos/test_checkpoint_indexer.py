"""The indexer's process among real members, and killed again and again while shards come in."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
from everstep_bus.background import background
from everstep_bus.interface import Bus
from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import eligible
from everstep_contract.manifest import Manifest
from everstep_trainer.exporting import export_safetensors
from safetensors.torch import load_file
from support.agent_fleet import Fleet
from support.indexing import written
from support.jobs import JOB, JOB_UID
from support.nats_world import NatsWorld
from support.polling import eventually
from support.service_processes import ServiceProcess, service_process, settings_of

TINY_TRAINING = Path(__file__).parents[1] / "support" / "tiny_training.py"
SAVE_SECONDS = 0.2
KEPT = 2
"""Verified checkpoints that stay, as is the service's default."""


@asynccontextmanager
async def indexer_process(url: str, credentials: Path, root: Path) -> AsyncIterator[ServiceProcess]:
    """The service as it runs in a cluster."""
    settings = settings_of("checkpoint_indexer", url, credentials)
    settings["EVERSTEP_CHECKPOINT_ROOT"] = str(root)
    async with service_process("checkpoint_indexer", settings, root.parent / "indexer.log") as one:
        yield one


async def test_ec45_what_members_save_at_their_end_is_committed_read_back_and_opened_by_stock_tools(
    agents: Fleet, tmp_path: Path
) -> None:
    (root := tmp_path / "checkpoints").mkdir()
    storage = Storage(root)
    async with indexer_process(agents.server.url, agents.credentials, root):
        for _ in range(2):
            arguments = ("--nproc-per-node", "1", str(TINY_TRAINING), str(agents.folder))
            await agents.start_script(*arguments, EVERSTEP_CHECKPOINT_ROOT=str(root))
        await agents.all_are("ready", 0)
        await agents.order(1, (0, 1))
        await agents.all_are("stepping", 1, 0, 1)
        await eventually(lambda: min(agents.step(0), agents.step(1)) > 5)
        for agent in agents.agents:
            agent.send_signal(signal.SIGTERM)
        await eventually(lambda: _proven(storage))
    best = _proven(storage)[0]
    assert [(one.kind, one.shard) for one in best.shards] == [
        ("state", 0),
        ("rank", 0),
        ("rank", 1),
    ]
    export_safetensors(storage, best, tmp_path / "model.safetensors", only="model")
    assert load_file(tmp_path / "model.safetensors")


def _proven(storage: Storage) -> list[Manifest]:
    return [one.manifest for one in storage.listed()[0] if one.is_proven]


def _is_settled(storage: Storage) -> bool:
    return len(_proven(storage)) == len(storage.listed()[0]) == KEPT


async def save_for_ever(agent: Bus, storage: Storage) -> None:
    """A member that saves all the time."""
    for step in count(1):
        fact = written(storage, step=step)
        await agent.publish(written(storage, step=step, kind="rank"))
        await agent.publish(fact)
        await asyncio.sleep(SAVE_SECONDS)


def newest(storage: Storage) -> int:
    """The step that the job would be restored from."""
    manifests, _ = storage.manifests(JOB)
    return max((one.step for one in eligible(manifests, JOB_UID)), default=0)


def newest_of_the_dead(storage: Storage) -> int:
    """The same, once every byte of every checkpoint was read; nobody deletes any meanwhile."""
    manifests, damaged = storage.manifests(JOB)
    assert damaged == []
    for one in manifests:
        storage.verify(one)
    return newest(storage)


@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.timeout(600)
async def test_ec13_killed_at_random_moments_the_indexer_leaves_only_whole_checkpoints(
    tmp_path: Path, kills: int
) -> None:
    (root := tmp_path / "root").mkdir()
    world, storage, seen = NatsWorld(tmp_path), Storage(root), [0]
    dice = random.Random(kills)
    await world.start()
    try:
        await world.service("rescaler", "provisioner")
        agent = await world.agent(JOB, "worker-0-1")
        reach = (world.server.url, world.credentials, root)
        async with background(save_for_ever(agent, storage)):
            for _ in range(kills):
                async with indexer_process(*reach) as indexer:
                    await eventually(lambda: newest(storage) > seen[-1], within_seconds=60)
                    await asyncio.sleep(dice.uniform(0, 0.3))
                    indexer.signal(signal.SIGKILL)
                    await indexer.ended()
                seen.append(newest_of_the_dead(storage))
        async with indexer_process(*reach):
            await eventually(lambda: _is_settled(storage), within_seconds=60)
    finally:
        await world.close()
    assert seen == sorted(set(seen))
