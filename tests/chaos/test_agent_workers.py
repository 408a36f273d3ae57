"""An agent and its workers as real processes: deaths, stuck ones, several of them, their ends."""

import os
import signal
from pathlib import Path

from everstep_contract.facts.member import MemberFormed, MemberLeft
from everstep_contract.facts.worker import WorkerExited
from everstep_trainer.agent.inputs import Terminate
from everstep_trainer.agent.model import Limits
from support.agent_core import seat
from support.agent_home import AgentHome, agent_home, gone
from support.messages import member
from support.polling import eventually


async def stepping(home: AgentHome, generation: int = 1) -> None:
    """Ready, ordered to run, and past its first step."""
    await home.reaches("ready")
    await home.order(generation)
    await home.reaches("stepping", generation)


async def test_several_workers_form_and_step_on_one_order(tmp_path: Path) -> None:
    async with agent_home(tmp_path, nproc=3) as home:
        await stepping(home)
        assert {note["LOCAL_RANK"] for note in home.notes()} == {"0", "1", "2"}
        assert {note["name"] for note in home.notes()} == {"__main__"}
        await eventually(lambda: home.report.step > 5)
        assert len(home.events(MemberFormed)) == 1


async def test_a_killed_worker_is_told_within_moments_and_started_anew(tmp_path: Path) -> None:
    async with agent_home(tmp_path, nproc=2) as home:
        await stepping(home)
        killed, kept = home.pids
        os.kill(killed, signal.SIGKILL)
        await eventually(lambda: home.events(WorkerExited))
        (exited,) = home.events(WorkerExited)
        assert (exited.pid, exited.signal, exited.classified) == (killed, 9, "killed")
        await home.order(2)
        await home.reaches("stepping", 2)
        assert home.pids[1] == kept
        assert home.pids[0] != killed


async def test_a_crashed_worker_tells_its_traceback_and_its_status(tmp_path: Path) -> None:
    limits = Limits(max_restarts=0)
    async with agent_home(tmp_path, "crash", limits=limits) as home:
        await home.reaches("ready")
        await home.order(1)
        await eventually(lambda: home.status == 1)
        (exited,) = home.events(WorkerExited)
        assert (exited.exit_code, exited.classified) == (1, "application")


async def test_a_script_that_fails_before_it_joins_ends_the_member_in_the_end(
    tmp_path: Path,
) -> None:
    limits = Limits(max_restarts=2, restart_backoff_seconds=0.01)
    async with agent_home(tmp_path, "early-crash", limits=limits) as home:
        await eventually(lambda: home.status == 1)
        assert len(home.notes()) == 3
        await eventually(lambda: home.events(MemberLeft))
        assert home.events(MemberLeft)[-1].reason == "failed"


async def test_ec12_a_stuck_worker_is_killed_after_its_budget_and_which_it_was_is_told(
    tmp_path: Path,
) -> None:
    async with agent_home(tmp_path, "deaf", limits=Limits(leave_seconds=0.5)) as home:
        await stepping(home)
        (stuck,) = home.pids
        await home.order(2)
        await gone(stuck)
        await home.reaches("stepping", 2)
        exits = home.events(WorkerExited)
        assert exits[0].pid == stuck
        assert "did not leave for generation 2" in exits[0].detail


async def test_ec12_a_frozen_worker_is_killed_too(tmp_path: Path) -> None:
    async with agent_home(tmp_path, limits=Limits(leave_seconds=0.5)) as home:
        await stepping(home)
        (frozen,) = home.pids
        os.kill(frozen, signal.SIGSTOP)
        await home.order(2)
        await gone(frozen)
        await home.reaches("stepping", 2)


async def test_r20_a_hold_keeps_every_process(tmp_path: Path) -> None:
    async with agent_home(tmp_path, nproc=2) as home:
        await stepping(home)
        before = home.pids
        await home.order(2, state="hold")
        await home.reaches("holding", 2)
        assert home.pids == before
        assert home.report.version > 0


async def test_r9_a_member_that_is_not_listed_stops_stepping(tmp_path: Path) -> None:
    async with agent_home(tmp_path) as home:
        await stepping(home)
        await home.order(2, seats=(seat(1),), store_host=member(1).incarnation)
        await eventually(lambda: home.report.left_generation == 1)
        step, seen = home.report.step, len(home.reports)
        await eventually(lambda: len(home.reports) > seen + 1)
        assert home.report.step == step > 0


async def test_ec20_a_terminated_agent_says_so_and_lets_its_workers_end(tmp_path: Path) -> None:
    async with agent_home(tmp_path) as home:
        await stepping(home)
        (worker,) = home.pids
        home.agent.hear(Terminate("SIGTERM"))
        await eventually(lambda: home.status == 143)
        await gone(worker)
        await eventually(lambda: home.events(WorkerExited))
        assert home.events(WorkerExited)[-1].classified == "finished"
        assert home.events(MemberLeft)[-1].reason == "terminated"


async def test_a_worker_that_will_not_end_is_killed_after_its_grace(tmp_path: Path) -> None:
    async with agent_home(tmp_path, "stubborn", limits=Limits(grace_seconds=0.3)) as home:
        await stepping(home)
        (worker,) = home.pids
        home.agent.hear(Terminate("SIGTERM"))
        await gone(worker)
        await eventually(lambda: home.status == 143)


async def test_a_script_that_reaches_its_end_ends_the_member_well(tmp_path: Path) -> None:
    async with agent_home(tmp_path, "exit-0", nproc=2) as home:
        await home.reaches("ready")
        await home.order(1)
        await eventually(lambda: home.status == 0)
        await eventually(lambda: home.events(MemberLeft))
        assert home.events(MemberLeft)[-1].reason == "finished"


async def test_the_restart_rung_runs_an_unmodified_script_anew_each_generation(
    tmp_path: Path,
) -> None:
    limits = Limits(settle_seconds=0.2)
    async with agent_home(tmp_path, "unmodified", rung="restart", limits=limits) as home:
        await stepping(home)
        (first,) = home.pids
        await home.order(2)
        await home.reaches("stepping", 2)
        await gone(first)
        await eventually(lambda: len(home.notes()) == 2)
        assert [note["TORCHELASTIC_RESTART_COUNT"] for note in home.notes()] == ["1", "2"]
        assert home.notes()[-1]["MASTER_PORT"] == str(home.report.store.port)


async def test_a_lost_zygote_ends_the_member_even_before_its_workers_are_born(
    tmp_path: Path,
) -> None:
    async with agent_home(tmp_path, nproc=2) as home:
        os.kill(home.agent.zygote_pid, signal.SIGKILL)
        await eventually(lambda: home.status == 1)


async def test_a_worker_that_ended_well_is_not_taken_for_failed_by_a_slow_zygote(
    tmp_path: Path,
) -> None:
    async with agent_home(tmp_path) as home:
        await stepping(home)
        os.kill(home.agent.zygote_pid, signal.SIGSTOP)
        home.agent.hear(Terminate("SIGTERM"))
        seen = len(home.reports)
        await eventually(lambda: len(home.reports) > seen + 3)
        os.kill(home.agent.zygote_pid, signal.SIGCONT)
        await eventually(lambda: home.events(WorkerExited))
        assert home.events(WorkerExited)[-1].classified == "finished"


async def test_a_failure_is_told_though_the_zygote_is_slow(tmp_path: Path) -> None:
    async with agent_home(tmp_path) as home:
        await stepping(home)
        os.kill(home.agent.zygote_pid, signal.SIGSTOP)
        os.kill(home.pids[0], signal.SIGKILL)
        await eventually(lambda: home.events(WorkerExited))
        os.kill(home.agent.zygote_pid, signal.SIGCONT)
        assert home.events(WorkerExited)[-1].signal == signal.SIGKILL


async def test_a_dead_store_host_comes_back_on_another_port(tmp_path: Path) -> None:
    async with agent_home(tmp_path) as home:
        await home.reaches("ready")
        before = home.report.store
        os.kill(store_host_pid(home), signal.SIGKILL)
        await eventually(lambda: home.report.store != before)


def store_host_pid(home: AgentHome) -> int:
    """The zygote's only child beside the workers."""
    zygote = home.agent.zygote_pid
    children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
    return next(int(pid) for pid in children if int(pid) not in home.pids)
