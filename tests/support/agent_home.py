"""A real agent inside the test's process, on the in-memory bus, with real workers."""

import gc
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from everstep_bus.background import background
from everstep_bus.memory import MemoryBroker, MemoryBus
from everstep_contract.base import Event
from everstep_contract.identity import Endpoint, GangSpec, Seat
from everstep_contract.orders import Order
from everstep_contract.telemetry import MemberPhase, MemberReport
from everstep_runtime.clock import SystemClock
from everstep_trainer.agent.inputs import Terminate
from everstep_trainer.agent.model import Limits, Me, Rung
from everstep_trainer.agent.service import Agent, Life
from everstep_trainer.agent.spawning import Program
from everstep_trainer.agent.zygote import start_zygote
from support.agent_core import make_order
from support.messages import JOB, member
from support.polling import collected, eventually

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch  # noqa: F401 - inherited by every zygote, so that store hosts start at once

gc.collect()
gc.freeze()

FAKE_WORKER = Path(__file__).with_name("fake_worker.py")
HERE = "127.0.0.1"


class AgentHome:
    """What a test sees of the agent: its bus, its reports, its facts, its workers' notes."""

    def __init__(self, agent: Agent, me: Me, folder: Path, bus: MemoryBus) -> None:
        self.agent = agent
        self.me = me
        self.folder = folder
        self.bus = bus
        self.reports: list[MemberReport] = []
        self.facts: list[Any] = []
        self.status: int | None = None
        self._posted = 0

    @property
    def report(self) -> MemberReport:
        return self.reports[-1]

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self.report.workers]

    def events(self, kind: type[Event]) -> list[Any]:
        return [fact.message for fact in self.facts if isinstance(fact.message, kind)]

    async def reaches(self, phase: MemberPhase, generation: int = 0) -> None:
        await eventually(
            lambda: (
                self.reports and (self.report.phase, self.report.generation) == (phase, generation)
            )
        )

    async def order(self, generation: int, **changes: Any) -> Order:
        """Post an order that lists this member alone, with these changes."""
        mine = Seat(
            member=self.me.member,
            peer=self.me.peer,
            store=self.report.store,
            nproc=self.me.gang.nproc_per_node,
        )
        order = make_order(generation).model_copy(
            update={"seats": (mine,), "store_host": self.me.incarnation, **changes}
        )
        self._posted = await self.bus.post_order(order, expected=self._posted)
        return order

    def notes(self) -> list[dict[str, str]]:
        """The environments of all workers that ever lived, oldest first."""
        files = sorted(self.folder.glob("env-*.json"), key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(path.read_text()) for path in files]


@asynccontextmanager
async def agent_home(
    folder: Path,
    behaviour: str = "steps",
    *,
    nproc: int = 1,
    rung: Rung = "in_process",
    limits: Limits | None = None,
    storage: Path | None = None,
) -> AsyncIterator[AgentHome]:
    """An agent that lives while the context is open; its zygote imports nothing beforehand.

    ``storage``: the folder of all checkpoints; None: they have no place.
    """
    zygote = start_zygote(Program(str(FAKE_WORKER), (behaviour, str(folder))), preload=())
    broker = MemoryBroker()
    mine, other = MemoryBus(broker, "agent"), MemoryBus(broker, "other")
    listener = socket.create_server((HERE, 0))
    me = Me(
        job=JOB,
        member=member(0),
        gang=GangSpec(min_member=1, max_member=1, nproc_per_node=nproc),
        peer=Endpoint(host=HERE, port=listener.getsockname()[1]),
        boot_id="boot-1",
        rung=rung,
        has_storage=storage is not None,
        limits=limits or Limits(),
    )
    agent = Agent(
        Life(me, zygote, listener, "run", checkpoint_root=str(storage or "")), SystemClock()
    )
    home = AgentHome(agent, me, folder, other)

    async def live() -> None:
        home.status = await agent.live(mine)

    async with (
        collected(other.reports()) as reports,
        collected(other.facts(("everstep.evt.>",))) as facts,
    ):
        home.reports, home.facts = reports, facts
        async with background(live()):
            try:
                yield home
            finally:
                agent.hear(Terminate("the test ends"))
                agent.hear(Terminate("the test ends"))
                await eventually(lambda: home.status is not None)
    listener.close()
    await eventually(lambda: os.waitpid(zygote.pid, os.WNOHANG) != (0, 0))


async def gone(pid: int) -> None:
    """Wait until no such process runs; a zombie does not."""

    def ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    await eventually(ended, what=f"process {pid} still runs")
