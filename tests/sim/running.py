"""A simulated job that runs undisturbed, for a test to disturb; a failure tells its story."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from everstep_bus.memory import Mischief
from sim.world import World


@asynccontextmanager
async def running(
    members: int = 4,
    min_member: int = 2,
    *,
    mischief: Mischief | None = None,
) -> AsyncIterator[World]:
    """A world whose members all step."""
    world = World(1, members=members, min_member=min_member, mischief=mischief)
    try:
        world.start_services()
        world.start_members()
        await world.steps()
        await world.go_on(4)
        yield world
        world.ledger.check()
    except AssertionError:
        print("\n".join(world.ledger.lines))
        raise
    finally:
        await world.close()


def incarnations(world: World) -> list[str]:
    """Those of the members that the record lists."""
    record = world.record()
    assert record is not None
    return list(record.incarnations)
