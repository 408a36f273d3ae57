"""Simulated workers: they leave, meet at a store's barrier, agree on state and step together."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from everstep_contract.identity import Endpoint
from everstep_trainer.link import (
    Assignment,
    Failed,
    Finish,
    Finished,
    FirstStep,
    Formed,
    Hello,
    Left,
    Park,
    Parked,
    ToAgent,
    ToWorker,
)
from everstep_trainer.page import PageView
from sim.ledger import Ledger

STEP_SECONDS: Final = 0.3
LEAVE_SECONDS: Final = 0.02
CONSTRUCT_SECONDS: Final = 0.02
COPY_SECONDS: Final = 0.1
NOTICE_SECONDS: Final = 0.2
"""How long a survivor's collective takes at most to notice that a peer's socket is closed."""


class Home(Protocol):
    """The member a worker runs on."""

    host: str

    async def gate(self) -> None:
        """Wait while the member is frozen."""
        ...

    async def network(self) -> None:
        """Wait while the member is cut off from the others."""
        ...


@dataclass
class Meeting:
    """A place where all ranks of one group wait for each other; what they bring is seen by all."""

    size: int
    brought: dict[int, int] = field(default_factory=dict)
    complete: asyncio.Event = field(default_factory=asyncio.Event)


class Fabric:
    """Stores and groups of the whole job."""

    def __init__(
        self,
        ledger: Ledger,
        dice: random.Random,
        *,
        store_answers: Callable[[str, Endpoint], bool],
        best_living_version: Callable[[], int],
    ) -> None:
        """``store_answers``: whether a host reaches a store, and its host process lives."""
        self.ledger = ledger
        self.dice = dice
        self.store_answers = store_answers
        self.best_living_version = best_living_version
        self._groups: dict[str, Group] = {}

    def group(self, assignment: Assignment) -> "Group":
        """The group of a generation's verdict on its store."""
        key = f"{assignment.store}/{assignment.store_prefix}"
        if key not in self._groups:
            self._groups[key] = Group(self, assignment)
        return self._groups[key]

    async def store_found(self, host: str, store: Endpoint) -> None:
        """Wait until a store answers; a client tries again and again."""
        while not self.store_answers(host, store):
            await self.pause(0.05)

    async def pause(self, seconds: float) -> None:
        """About so long."""
        await asyncio.sleep(seconds * self.dice.uniform(0.5, 1.5))


class Group:
    """One generation's workers, from the barrier to the last step."""

    def __init__(self, fabric: Fabric, assignment: Assignment) -> None:
        self.assignment = assignment
        self._fabric = fabric
        self._meetings: dict[str, Meeting] = {}
        self._present: dict[int, SimWorker] = {}
        self._dissolved = False
        self._agreed: int | None = None

    def enter(self, rank: int, worker: "SimWorker") -> None:
        """A worker has sockets to the others from now on."""
        self._present[rank] = worker

    def leave(self, rank: int, worker: "SimWorker", *, quiet: bool) -> None:
        """Its sockets close: the others notice, or hang; all hang when the node went silent."""
        if self._present.get(rank) is not worker:
            return
        del self._present[rank]
        self._dissolved = True
        if quiet:
            return
        for other in self._present.values():
            if self._fabric.dice.random() < 0.85:
                delay = self._fabric.dice.uniform(0.01, NOTICE_SECONDS)
                named = (rank,) if self._fabric.dice.random() < 0.5 else ()
                asyncio.get_running_loop().call_later(delay, other.fail, self, named)

    async def meet(self, what: str, rank: int, bring: int) -> dict[int, int]:
        """Wait until every rank has come; what each of them brought.

        For ever if a rank has left since, or another life of this rank was there before.
        """
        meeting = self._meetings.setdefault(what, Meeting(self.assignment.world_size))
        if rank in meeting.brought:
            await asyncio.Event().wait()
        meeting.brought[rank] = bring
        whole = len(meeting.brought) == meeting.size and not self._dissolved
        if whole and not meeting.complete.is_set():
            meeting.complete.set()
            self._completed(what)
        await meeting.complete.wait()
        return meeting.brought

    def _completed(self, what: str) -> None:
        kind, _, number = what.partition(" ")
        mine = self.assignment
        if kind == "step":
            members = len(dict.fromkeys(mine.members))
            self._fabric.ledger.completed(mine.generation, mine.verdict_id, int(number), members)

    def agree(self, versions: dict[int, int]) -> int:
        """The newest state any rank holds (R22); a step that nobody holds is lost."""
        if self._agreed is None:
            self._agreed = max(0, *versions.values())
            self._fabric.ledger.agreed(self._agreed, self._fabric.best_living_version())
        return self._agreed

    def holds(self, version: int) -> bool:
        """Whether somebody present has this state, to be copied from."""
        return any(worker.version == version for worker in self._present.values())


class SimWorker:
    """One life of one worker."""

    def __init__(self, home: Home, fabric: Fabric, local_rank: int, say: Callable[[ToAgent], None]):
        self.version = 0
        self.stuck = False
        self.total_steps = 1 << 30
        self._home = home
        self._fabric = fabric
        self._local_rank = local_rank
        self._say = say
        self._step_begun = 0
        self._steps = 0
        self._phase = "start"
        self._orders: asyncio.Queue[ToWorker] = asyncio.Queue()
        self._group: Group | None = None
        self._rank = -1
        self._body: asyncio.Task[None] | None = None
        self._doing = ""

    def tell(self, message: ToWorker) -> None:
        """A message from the agent."""
        self._orders.put_nowait(message)

    def page(self) -> PageView:
        """What its page shows now."""
        generation = self._group.assignment.generation if self._group else 0
        durations = (STEP_SECONDS,) * min(self._steps, 20)
        return PageView(
            self.version,
            max(self.version, 0),
            self._step_begun,
            generation,
            self._phase,
            0,
            durations,
        )

    async def run(self, start_seconds: float) -> None:
        """From its birth until it is cancelled, or has finished."""
        await self._fabric.pause(start_seconds)
        await self._home.gate()
        self._say(Hello(local_rank=self._local_rank, pid=1 + self._local_rank))
        self._say(Parked(generation=0, version=self.version))
        self._phase = "parked"
        message = await self._orders.get()
        try:
            while not isinstance(message, Finish):
                message = await self._follow(message)
        finally:
            self._leave_group()

    async def _follow(self, message: Assignment | Park) -> ToWorker:
        """Do what a message says until the next one interrupts it."""
        self._doing = message.verdict_id if isinstance(message, Assignment) else ""
        self._body = asyncio.ensure_future(self._obey(message))
        newer = asyncio.ensure_future(self._orders.get())
        try:
            await newer
            await self._home.gate()
        finally:
            self._body.cancel()
            newer.cancel()
            await asyncio.wait([self._body])
            if not self._body.cancelled() and self._body.exception() is not None:
                self._fabric.ledger.breach(repr(self._body.exception()))
        return newer.result()

    async def _obey(self, message: Assignment | Park) -> None:
        if self.stuck and self._group is not None:
            await asyncio.Event().wait()
        await self._fabric.pause(LEAVE_SECONDS)
        await self._home.gate()
        left = self._group.assignment.generation if self._group else 0
        self._leave_group()
        if isinstance(message, Park):
            self._phase = "parked"
            self._say(Parked(generation=message.generation, version=self.version))
            return
        self._phase = "form"
        self._say(Left(generation=message.generation, left_generation=left, version=self.version))
        await self._form(message)
        await self._step(message)

    async def _form(self, mine: Assignment) -> None:
        await self._fabric.store_found(self._home.host, mine.store)
        group = self._fabric.group(mine)
        await group.meet("barrier", mine.rank, 0)
        await self._home.gate()
        await self._home.network()
        self._group, self._rank = group, mine.rank
        group.enter(mine.rank, self)
        await self._fabric.pause(CONSTRUCT_SECONDS)
        await self._home.gate()
        held = self.version
        agreed = group.agree(await group.meet("state", mine.rank, held))
        if held != agreed:
            await self._copy(group, agreed)
        await group.meet("whole", mine.rank, 0)
        await self._home.gate()
        self._say(
            Formed(
                generation=mine.generation,
                verdict_id=mine.verdict_id,
                agreed_step=agreed,
                steps_lost=max(0, held - agreed),
            )
        )

    async def _copy(self, group: Group, agreed: int) -> None:
        """Not whole from before the first byte until the last one (R22)."""
        self.version = -1
        await self._fabric.pause(COPY_SECONDS)
        await self._home.gate()
        if agreed > 0 and not group.holds(agreed):
            self.fail(group, ())
            await asyncio.Event().wait()
        self.version = agreed

    async def _step(self, mine: Assignment) -> None:
        group = self._group
        assert group is not None
        self._phase = "step"
        first = True
        while self.version < self.total_steps:
            step = self.version + 1
            self._step_begun = step
            await self._fabric.pause(STEP_SECONDS)
            await self._home.gate()
            await self._home.network()
            await group.meet(f"step {step}", mine.rank, 0)
            await self._home.gate()
            self.version = step
            self._steps += 1
            if first:
                self._say(
                    FirstStep(
                        generation=mine.generation,
                        verdict_id=mine.verdict_id,
                        step=step,
                        step_seconds=STEP_SECONDS,
                    )
                )
            first = False
        self._leave_group()
        self._say(Finished(step=self.version))

    def fail(self, group: Group, named: tuple[int, ...]) -> None:
        """A collective of this group failed here."""
        if self._group is not group or self._body is None or self._body.done():
            return
        if self._doing != group.assignment.verdict_id:
            return  # it is leaving already
        self._body.cancel()
        self._say(
            Failed(
                generation=group.assignment.generation,
                verdict_id=group.assignment.verdict_id,
                while_forming=self._phase == "form",
                peer_ranks=named,
                detail="connection closed by peer",
            )
        )

    def vanish(self, *, quiet: bool) -> None:
        """The process ends; ``quiet``: together with its node, so that nobody hears of it."""
        if self._group is not None:
            self._group.leave(self._rank, self, quiet=quiet)
            self._group = None

    def _leave_group(self) -> None:
        if self._group is not None:
            self._group.leave(self._rank, self, quiet=False)
            self._group = None
