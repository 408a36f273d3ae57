"""Unmodified scripts, started anew by each order, on real gloo groups."""

from pathlib import Path

from support.agent_fleet import Fleet
from support.polling import eventually

PLAIN_SCRIPT = Path(__file__).parents[1] / "support" / "plain_script.py"


async def test_an_unmodified_script_forms_its_group_anew_on_the_same_store(agents: Fleet) -> None:
    sums = agents.folder / "sums"
    sums.mkdir()
    for _ in range(3):
        await agents.start_script("--rung", "restart", str(PLAIN_SCRIPT), str(sums))
    await agents.all_are("ready", 0)
    for generation, members in ((1, (0, 1, 2)), (2, (0, 2)), (3, (0, 1, 2))):
        await agents.order(generation, members)
        wanted = f"{generation} {len(members)} {len(members)}\n"
        await eventually(lambda: wanted in text(sums / "sums-0"), within_seconds=60)  # noqa: B023
    rows = [line.split() for line in text(sums / "sums-0").splitlines()]
    assert all(world == total for _, world, total in rows)


def text(path: Path) -> str:
    """What was written so far."""
    return path.read_text() if path.exists() else ""
