"""What the drill sees on the bus while it runs: every fact, every report, the newest order."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

from everstep_bus.interface import Bus
from everstep_contract.base import Event
from everstep_contract.facts.checkpoint import CheckpointCommitted
from everstep_contract.facts.incident import IncidentEnded, IncidentOpened
from everstep_contract.facts.job import OrderIssued, StepAdvanced, VerdictReached
from everstep_contract.identity import Member
from everstep_contract.layout import CHECKPOINTS, INCIDENTS
from everstep_contract.orders import Order
from everstep_contract.queries import Query
from everstep_contract.record import IncidentRecord
from everstep_contract.subjects import EVENTS
from everstep_contract.telemetry import MemberReport

from everstep_cli.drill.board import Board
from everstep_cli.errors import CommandError
from everstep_cli.nodes import told

T = TypeVar("T")

LATE_FACTS_SECONDS: Final = 1.0
"""How long the last facts may take to come before the drill counts them."""


class Watch:
    """Everything heard so far; `until` waits for a condition of it."""

    def __init__(self, bus: Bus, board: Board) -> None:
        self._bus = bus
        self._board = board
        self._changed = asyncio.Condition()
        self.events: list[Event] = []
        self.reports: dict[str, MemberReport] = {}
        self.order: Order | None = None

    async def ask_of_node(self, query: Query) -> None:
        """Ask the rescaler for something about a node, as an operator does.

        Raises:
            CommandError: It was refused, or nobody answers.
        """
        await told(self._bus, query)

    async def run(self) -> None:
        """Listen until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen_to_facts())
            group.create_task(self._listen_to_reports())

    async def until(self, look: Callable[[], T | None], *, within_seconds: float, what: str) -> T:
        """What ``look`` returns as soon as it is not None; asked after everything heard.

        Raises:
            CommandError: It stayed None for ``within_seconds``.
        """
        try:
            async with asyncio.timeout(within_seconds), self._changed:
                while (found := look()) is None:
                    await self._changed.wait()
                return found
        except TimeoutError:
            raise CommandError(f"{what}: not within {within_seconds:g} s") from None

    @property
    def members(self) -> dict[str, Member]:
        """The members of the newest order, by name."""
        seats = self.order.seats if self.order else ()
        return {seat.member.name: seat.member for seat in seats}

    def stepping(self, members: int, *, after: int) -> bool:
        """Whether an order newer than ``after`` has that many members, and they step."""
        order = self.order
        if order is None or order.generation <= after or len(order.seats) != members:
            return False
        return order.state == "run" and any(
            isinstance(event, StepAdvanced) and event.generation == order.generation
            for event in self.events
        )

    @property
    def committed(self) -> int:
        """Checkpoints that were committed so far."""
        return sum(isinstance(event, CheckpointCommitted) for event in self.events)

    def ended(self, since: datetime) -> tuple[IncidentRecord, ...]:
        """Incidents that ended after an instant."""
        return tuple(
            event.incident
            for event in self.events
            if isinstance(event, IncidentEnded) and event.at >= since
        )

    def settled(self, since: datetime, *, incidents: bool) -> bool:
        """Whether the verdict of every order is told, and every incident since then has ended.

        Orders can be out before either is told: whoever decided may have died in between.
        ``incidents``: at least one is expected.
        """
        ordered = {e.order.verdict_id for e in self.events if isinstance(e, OrderIssued)}
        told = {e.verdict_id for e in self.events if isinstance(e, VerdictReached)}
        opened = {e.incident.id for e in self.events if isinstance(e, IncidentOpened)}
        ended = {e.incident.id for e in self.events if isinstance(e, IncidentEnded)}
        return ordered <= told and opened <= ended and (not incidents or bool(self.ended(since)))

    async def incidents(self, since: datetime) -> tuple[IncidentRecord, ...]:
        """Incidents opened after an instant, as they are kept, oldest first."""
        kept = [entry.value for entry in await self._bus.kv(INCIDENTS).entries()]
        found = [record for record in kept if record and record.opened_at >= since]
        return tuple(sorted(found, key=lambda record: record.opened_at))

    async def believed(self) -> frozenset[str]:
        """Names of checkpoints that the index lists and knows no damage of."""
        kept = [entry.value for entry in await self._bus.kv(CHECKPOINTS).entries()]
        return frozenset(record.checkpoint for record in kept if record and not record.damage)

    async def _listen_to_facts(self) -> None:
        async for received in self._bus.facts((f"{EVENTS}.>",)):
            if isinstance(received.message, Event):
                self._note(received.message)
                self._board.event(received.message)
                await self._tell()

    async def _listen_to_reports(self) -> None:
        async for report in self._bus.reports():
            self.reports[report.member.incarnation] = report
            self._board.report(report)
            await self._tell()

    def _note(self, event: Event) -> None:
        self.events.append(event)
        newest = self.order.generation if self.order else 0
        if isinstance(event, OrderIssued) and event.order.generation > newest:
            self.order = event.order

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
