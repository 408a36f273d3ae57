"""Snapshots in memory and what is made durable of them, with real processes that are killed."""

import os
import signal
from pathlib import Path

from support.agent_home import AgentHome, agent_home, gone
from support.polling import eventually


async def stepping(home: AgentHome, generation: int = 1) -> None:
    """Ready, ordered to run, and some steps on."""
    await home.reaches("ready")
    await home.order(generation)
    await home.reaches("stepping", generation)
    await eventually(lambda: home.report.step > 20)


async def test_a_state_survives_the_kill_of_its_worker_in_the_agents_memory(
    tmp_path: Path,
) -> None:
    async with agent_home(tmp_path, "saves-64") as home:
        await stepping(home)
        (worker,) = home.pids
        os.kill(worker, signal.SIGKILL)
        await gone(worker)
        lost_at = int((tmp_path / f"steps-{worker}").read_text())
        await home.order(2)
        await home.reaches("stepping", 2)
        (successor,) = home.pids
        await eventually(lambda: (tmp_path / f"steps-{successor}").read_text())
        assert int((tmp_path / f"steps-{successor}").read_text()) >= lost_at
