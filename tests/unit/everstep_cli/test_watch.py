"""When a drill has seen all that there is to see."""

from datetime import UTC, datetime
from typing import cast

from everstep_bus.memory import MemoryBroker, MemoryBus
from everstep_cli.drill.board import Board
from everstep_cli.drill.watch import Watch
from everstep_contract.base import Event
from everstep_contract.clients import service_client_name
from everstep_contract.examples import EXAMPLES
from everstep_contract.facts.incident import IncidentEnded, IncidentOpened
from everstep_contract.facts.job import OrderIssued, VerdictReached
from rich.console import Console

START = datetime(2020, 1, 1, tzinfo=UTC)
ORDERED, OPENED, ENDED = (
    cast("Event", EXAMPLES[kind.TYPE]) for kind in (OrderIssued, IncidentOpened, IncidentEnded)
)


def told() -> VerdictReached:
    verdict = EXAMPLES[VerdictReached.TYPE]
    assert isinstance(verdict, VerdictReached)
    assert isinstance(ORDERED, OrderIssued)
    return verdict.model_copy(update={"verdict_id": ORDERED.order.verdict_id})


async def settled(*events: Event) -> bool:
    bus = MemoryBus(MemoryBroker(), service_client_name("operator", "drill"))
    watch = Watch(bus, Board(Console(quiet=True)))
    watch.events.extend(events)
    return watch.settled(START, incidents=True)


async def test_a_drill_waits_for_the_verdict_of_an_order_whose_author_died_before_telling() -> None:
    assert not await settled(ORDERED)
    assert not await settled(ORDERED, OPENED, ENDED)
    assert await settled(ORDERED, told(), OPENED, ENDED)


async def test_a_drill_waits_for_the_end_of_every_incident() -> None:
    assert not await settled(ORDERED, told())
    assert not await settled(ORDERED, told(), OPENED)
