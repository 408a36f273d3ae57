"""Several real agents on one real nats-server: forked from a template, ordered by a test.

The test is the rescaler here: it posts orders itself. Each agent is a process with everything an
agent has, and `fake_worker` scripts as its workers.
"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everstep_bus.nats import NatsBus, connect
from everstep_bus.nats.config import ServerSettings
from everstep_bus.nats.credentials import agent_seed_path, role_seed_path
from everstep_bus.nats.server import NatsServer
from everstep_contract.base import Event
from everstep_contract.clients import Role, service_client_name
from everstep_contract.identity import JobKey, Seat
from everstep_contract.orders import Order
from everstep_contract.record import Durations
from everstep_contract.subjects import EVENTS
from everstep_contract.telemetry import MemberReport
from everstep_simcluster.launcher import PodCommand, PodProcess, TemplateLauncher
from support.agent_home import FAKE_WORKER
from support.polling import collected, eventually
from support.s3 import python_path

JOB = JobKey(namespace="team.a", name="llama.ft")
HERE = "127.0.0.1"
DURATIONS = Durations(form_seconds=10, construct_seconds=2, hold_seconds=60, self_fence_seconds=60)


@contextmanager
def template(folder: Path) -> Iterator[Path]:
    """A template server; the path of its socket."""
    socket = folder / "template.sock"
    with subprocess.Popen(
        [sys.executable, "-m", "everstep_trainer.template", str(socket)],
        env={**os.environ, "PYTHONPATH": python_path()},  # what forks from it imports no later
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        try:
            yield socket
        finally:
            server.kill()


@dataclass
class Fleet:
    """What a test sees: the bus, and each agent by the order it was started in."""

    folder: Path
    server: NatsServer
    launcher: TemplateLauncher
    bus: NatsBus
    agents: list[PodProcess] = field(default_factory=list)
    reports: list[MemberReport] = field(default_factory=list)
    facts: list[Any] = field(default_factory=list)
    posted: int = 0

    @property
    def credentials(self) -> Path:
        return self.folder / "credentials"

    def environment(self, **changes: str) -> dict[str, str]:
        """What a pod of the job would be given."""
        return {
            **{name: value for name, value in os.environ.items() if name != "EVERSTEP_NATS_URL"},
            "EVERSTEP_NATS_URL": self.server.url,
            "EVERSTEP_NATS_SEED_PATH": str(agent_seed_path(self.credentials, JOB)),
            "EVERSTEP_JOB_NAMESPACE": JOB.namespace,
            "EVERSTEP_JOB_NAME": JOB.name,
            "EVERSTEP_JOB_UID": "uid-1",
            "EVERSTEP_POD_IP": HERE,
            **changes,
        }

    async def start(
        self, behaviour: str = "steps", *, nproc: int = 1, **changes: str
    ) -> PodProcess:
        """One more agent, with fake workers."""
        home = str(self.folder / f"trainer-{len(self.agents)}")
        program = (str(FAKE_WORKER), behaviour, home)
        return await self.start_script("--nproc-per-node", str(nproc), *program, **changes)

    async def start_script(self, *arguments: str, **changes: str) -> PodProcess:
        """One more agent, with these arguments and changes of its environment."""
        name = f"trainer-{len(self.agents)}"
        home = self.folder / name
        home.mkdir()
        process = await self.launcher.start(
            PodCommand(
                argv=("everstep", "run", "--nnodes", "1:8", *arguments),
                env=self.environment(**{"EVERSTEP_POD_NAME": name, **changes}),
                cwd=home,
                netns=None,
                log=home / "log",
            )
        )
        self.agents.append(process)
        return process

    def report(self, index: int) -> MemberReport | None:
        """The newest report of the agent that was started ``index``-th."""
        name = f"trainer-{index}"
        return next((r for r in reversed(self.reports) if r.member.name == name), None)

    def phases(self) -> list[tuple[str, int]]:
        """Phase and generation of every agent."""
        newest = [self.report(index) for index in range(len(self.agents))]
        return [(r.phase, r.generation) if r else ("unheard", 0) for r in newest]

    async def all_are(self, phase: str, generation: int, *among: int) -> None:
        """Wait until these agents, or all, report this."""
        await eventually(
            lambda: all(
                self.phases()[index] == (phase, generation)
                for index in among or range(len(self.agents))
            ),
            what=f"not all {phase} in {generation}",
        )

    def seat(self, index: int) -> Seat:
        """The agent's seat, by its own word."""
        report = self.report(index)
        assert report is not None
        return Seat(
            member=report.member,
            peer=report.peer,
            store=report.store,
            nproc=report.gang.nproc_per_node,
        )

    def step(self, index: int) -> int:
        """The newest step that an agent has reported."""
        report = self.report(index)
        return report.step if report else 0

    def pids(self, index: int) -> list[int]:
        """The workers of one agent."""
        report = self.report(index)
        assert report is not None
        return [worker.pid for worker in report.workers]

    async def order(self, generation: int, members: tuple[int, ...], **changes: Any) -> Order:
        """Post an order that lists these agents."""
        seats = tuple(self.seat(index) for index in members)
        order = Order(
            job=JOB,
            job_uid="uid-1",
            generation=generation,
            verdict_id=f"v{generation}",
            state="run",
            seats=seats,
            store_host=seats[0].member.incarnation if seats else None,
            durations=DURATIONS,
        ).model_copy(update=changes)
        self.posted = await self.bus.post_order(order, expected=self.posted)
        return order

    def events(self, kind: type[Event], index: int | None = None) -> list[Any]:
        """Facts of one kind, of one agent or of all."""
        found: list[Any] = [f.message for f in self.facts if isinstance(f.message, kind)]
        if index is None:
            return found
        return [event for event in found if event.member.name == f"trainer-{index}"]

    def steps(self, index: int) -> int:
        """Steps that an agent's workers have completed, by their own notes and not by the bus."""
        notes = (self.folder / f"trainer-{index}").glob("steps-*")
        return sum(int(note.read_text() or 0) for note in notes)

    def log(self, index: int) -> str:
        """What an agent and its workers have written."""
        return (self.folder / f"trainer-{index}" / "log").read_text()

    async def connect(self, role: Role, stack: AsyncExitStack) -> NatsBus:
        """A service's connection."""
        seed = role_seed_path(self.credentials, role)
        name = service_client_name(role, "test")
        return await stack.enter_async_context(connect((self.server.url,), name, seed_path=seed))


@asynccontextmanager
async def fleet(folder: Path, template_socket: Path) -> AsyncIterator[Fleet]:
    """A server and nobody on it yet; every agent is killed at the end."""
    launcher = TemplateLauncher(template_socket)
    server = NatsServer(ServerSettings(folder / "nats", folder / "credentials", jobs=(JOB,)))
    server.start()
    async with AsyncExitStack() as stack:
        stack.callback(server.kill)
        seed = role_seed_path(folder / "credentials", "rescaler")
        name = service_client_name("rescaler", "test")
        bus = await stack.enter_async_context(connect((server.url,), name, seed_path=seed))
        found = Fleet(folder, server, launcher, bus)
        adjudicator = await found.connect("adjudicator", stack)
        found.reports = await stack.enter_async_context(collected(adjudicator.reports()))
        facts = adjudicator.facts((f"{EVENTS}.>",))
        found.facts = await stack.enter_async_context(collected(facts))
        try:
            yield found
        finally:
            for agent in found.agents:
                agent.send_signal(signal.SIGCONT)
                agent.send_signal(signal.SIGKILL)
                await agent.wait()
            await launcher.close()
