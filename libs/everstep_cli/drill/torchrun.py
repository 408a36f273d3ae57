"""The same work and the same fault under plain torchrun, with every timer tuned."""

import asyncio
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from everstep_cli.drill.document import TorchrunResult
from everstep_cli.drill.fault import MEMBERS, MIN_MEMBER, TORCHRUN_HEAL_SECONDS, TorchrunFault
from everstep_cli.drill.processes import Processes, Program, descendants, signal_pid
from everstep_cli.drill.worker_logs import StepLine, read_steps
from everstep_cli.errors import CommandError
from everstep_cli.waiting import seen

T = TypeVar("T")

TUNED: Final = "keep_alive_interval=1,keep_alive_max_attempt=2,last_call_timeout=1,read_timeout=10"
"""The shortest settings of torchrun's c10d rendezvous under which it still forms reliably."""
GROUP_TIMEOUT_SECONDS: Final = 10
FIRST_STEPS: Final = 25
"""Steps before the fault: a checkpoint, every 20 steps, is there to come back to."""
START_SECONDS: Final = 180.0
PROGRESS_SECONDS: Final = 5.0
"""How often is said that it is still waited for."""
HOST_HEAD_START_SECONDS: Final = 3.0
"""The first agent hosts the store: the others must find it listening."""


@dataclass(frozen=True)
class TorchrunPlan:
    """What to run and how to hurt it; ``workers`` is the folder of the workers' logs.

    ``say`` is told what is waited for.
    """

    fault: TorchrunFault
    workers: Path
    seed: int
    say: Callable[[str], None]


async def against_torchrun(plan: TorchrunPlan, processes: Processes) -> TorchrunResult:
    """Train, hurt one member at a random moment, and wait for the first step without it.

    Raises:
        CommandError: It did not start within `START_SECONDS`.
    """
    plan.workers.mkdir(parents=True)
    names = await _start_agents(plan, processes)
    try:
        await _first_steps(plan)
        await asyncio.sleep(random.Random(plan.seed).uniform(0.0, 1.0))  # noqa: S311  # a moment
        victim = names[0] if plan.fault == "store_kill" else names[-1]
        fault_at = time.time()
        _hurt(plan.fault, processes.pid(victim))
        return await _healed(plan, fault_at)
    finally:
        for name in names:
            await processes.kill(name)


async def _start_agents(plan: TorchrunPlan, processes: Processes) -> list[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = [f"torchrun-{index}" for index in range(MEMBERS)]
    for index, name in enumerate(names):
        await processes.start(_agent(name, port, plan.workers, host=index == 0))
        if index == 0:
            await asyncio.sleep(HOST_HEAD_START_SECONDS)
    return names


def _agent(name: str, port: int, workers: Path, *, host: bool) -> Program:
    command = (
        *(sys.executable, "-m", "torch.distributed.run"),
        *(f"--nnodes={MIN_MEMBER}:{MEMBERS}", "--nproc-per-node=1", "--max-restarts=100"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=drill"),
        *(f"--rdzv-conf={TUNED},is_host={int(host)}", "--monitor-interval=0.1"),
        *("-m", "everstep_trainer.drill_torchrun", "--directory", str(workers)),
        *("--timeout-seconds", str(GROUP_TIMEOUT_SECONDS)),
    )
    variables = {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        # torch 2.13 keeps one workers' store for every round, and gloo reads dead addresses there
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    return Program(name, command, variables)


def _hurt(fault: TorchrunFault, agent: int) -> None:
    workers = descendants(agent)
    number = signal.SIGSTOP if fault == "node_freeze" else signal.SIGKILL
    for pid in workers if fault == "worker_kill" else {agent, *workers}:
        signal_pid(pid, number)


async def _first_steps(plan: TorchrunPlan) -> None:
    def enough() -> bool | None:
        whole = (s.step for s in read_steps(plan.workers) if s.world_size == MEMBERS)
        return max(whole, default=0) >= FIRST_STEPS or None

    if not await _seen(enough, plan, START_SECONDS, f"its first {FIRST_STEPS} steps"):
        raise CommandError(f"torchrun took no {FIRST_STEPS} steps within {START_SECONDS:g} s")


async def _healed(plan: TorchrunPlan, fault_at: float) -> TorchrunResult:
    """The first step of a new process: at 7 members, or at 6 when torchrun lost one more."""

    def result() -> TorchrunResult | None:
        steps = read_steps(plan.workers)
        before = {step.pid for step in steps if step.at <= fault_at}
        new = [step for step in steps if step.pid not in before]
        return _result(steps, new[0], fault_at) if new else None

    never = TorchrunResult(healed=False, first_new_step_seconds=None, steps_lost=None)
    found = await _seen(result, plan, TORCHRUN_HEAL_SECONDS, "its first step after the fault")
    return found or never


async def _seen(
    look: Callable[[], T | None], plan: TorchrunPlan, within_seconds: float, what: str
) -> T | None:
    """As `seen`, and says every few seconds what it waits for."""
    waited = 0.0
    while waited < within_seconds:
        plan.say(f"torchrun: waiting for {what}, {waited:g} of at most {within_seconds:g} s")
        if (found := await seen(look, within_seconds=PROGRESS_SECONDS)) is not None:
            return found
        waited += PROGRESS_SECONDS
    return None


def _result(steps: tuple[StepLine, ...], first: StepLine, fault_at: float) -> TorchrunResult:
    newest = max(step.step for step in steps if step.at < first.at)
    return TorchrunResult(
        healed=True,
        first_new_step_seconds=first.at - fault_at,
        steps_lost=max(0, newest - first.step + 1),
    )
