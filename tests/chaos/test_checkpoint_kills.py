"""Parts of a whole job are killed at random moments: no torn, mixed or stale state lives on.

Everything is real: nats-server, services, agents, workers with torch, flushers and files.
"""

import random

import pytest
from everstep_bus.interface import Bus
from everstep_checkpoint.storage import MANIFEST, MARKS
from everstep_checkpoint_indexer.keeper import Keeper
from everstep_checkpoint_indexer.model import House, Policy
from everstep_contract.layout import CHECKPOINTS
from support.agent_fleet import Fleet
from support.jobs import NOW
from support.kill_house import PARTS, KillHouse, Part, Training, kill_house
from support.kill_ledger import Version
from support.places import folder_of
from support.polling import eventually
from support.stepped_clock import SteppedClock

TRIALS = 20
BATCH_SECONDS = 600
SLOW_SEEDS = range(1, 11)
TRAININGS = (Training(1, 3), Training(2, 4), Training(1, 5), Training(2, 2, nproc=2))


def parts(chance: random.Random) -> list[Part]:
    """What is killed, each part some times, in a random order."""
    chosen = [PARTS[number % len(PARTS)] for number in range(TRIALS)]
    chance.shuffle(chosen)
    return chosen


@pytest.mark.timeout(BATCH_SECONDS)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in SLOW_SEEDS)]
)
async def test_no_kill_makes_a_job_go_on_from_a_state_that_is_not_whole_and_newest(
    agents: Fleet, seed: int
) -> None:
    chance = random.Random(seed)
    async with kill_house(agents, TRAININGS[seed % len(TRAININGS)]) as house:
        for part in parts(chance):
            await house.kill(part, chance)
        house.require_no_failures()
        await house.end()
        await require_verified(house)
        await require_nothing_left(house)
        tell(house)
        assert house.killed.keys() == set(PARTS)
        assert house.killed.total() >= TRIALS
        assert house.sources.keys() >= {"fresh", "living", "memory", "disk"}


async def require_verified(house: KillHouse) -> None:
    """The newest checkpoints were read back whole by the indexer that lives."""
    bus = await house.fleet.connect("operator", house.stack)

    async def are_verified() -> bool:
        house.look_at_files()
        entries = [entry.value for entry in await bus.kv(CHECKPOINTS).entries()]
        known = {Version(one.generation, one.step): one for one in entries if one is not None}
        assert not [one for one in known.values() if one.damage]
        newest = max(house.judged.values())
        return newest in known and all(one.verified_at for one in known.values())

    await eventually(are_verified, within_seconds=30, what="newest checkpoint not verified")


async def require_nothing_left(house: KillHouse) -> None:
    """Of attempts that were cut off nothing stays, and nothing but whole checkpoints."""
    await house.services["checkpoint_indexer"].close()
    bus: Bus = await house.fleet.connect("checkpoint_indexer", house.stack)
    clock, policy = SteppedClock(NOW), Policy()
    keeper = Keeper(House(bus, house.storage, policy, clock))
    await keeper.index.rebuild()
    await keeper.compare_with_storage()
    clock.step(seconds=policy.idle_seconds)
    await keeper.compare_with_storage()
    manifests, damaged = house.storage.manifests()
    assert damaged == []
    whole = {
        folder_of(house.storage, one) / name
        for one in manifests
        for name in (*(shard.file for shard in one.shards), MANIFEST, MARKS)
    }
    there = {path for path in house.root.rglob("*") if path.is_file()}
    assert there <= whole


def tell(house: KillHouse) -> None:
    """What was killed, what was chosen, what it cost."""
    print("killed", dict(house.killed), "sources", dict(house.sources))
    print("steps lost", dict(house.lost_of_living), "and of a dead job", dict(house.lost_of_dead))
    print("checkpoints judged", len(house.judged))
