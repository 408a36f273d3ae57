"""How the life of a service's process ends, and with which status."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime

import pytest
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus
from everstep_bus.memory import CALM, MemoryBroker, MemoryBus
from everstep_runtime.health import Readiness
from everstep_runtime.service import EXIT_BUS_CLOSED, EXIT_FAILED, Start, run_connected
from everstep_runtime.settings import ServiceSettings

SETTINGS = ServiceSettings(metrics_port=0)


def memory(on_closed: Callable[[], None]) -> AbstractAsyncContextManager[Bus]:
    @asynccontextmanager
    async def connected() -> AsyncIterator[Bus]:
        bus = MemoryBus(MemoryBroker(CALM, now=lambda: datetime.now(UTC)), "everstep.rescaler.1")
        yield bus
        bus.close()

    return connected()


def run(start: Start) -> int:
    return run_connected("rescaler", start, SETTINGS, memory)


async def wait_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def test_a_service_that_has_finished_ends_well() -> None:
    async def start(bus: Bus, readiness: Readiness) -> None:
        assert bus.connected

    assert run(start) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cancels_the_service_which_may_still_clean_up(number: signal.Signals) -> None:
    cleaned: list[bool] = []

    async def start(bus: Bus, readiness: Readiness) -> None:
        os.kill(os.getpid(), number)
        try:
            await wait_for_ever()
        finally:
            cleaned.append(bus.connected)

    assert run(start) == 0
    assert cleaned == [True]


def test_ec38_a_connection_that_closes_for_good_ends_the_process_with_a_status_of_its_own() -> None:
    def connect(on_closed: Callable[[], None]) -> AbstractAsyncContextManager[Bus]:
        asyncio.get_running_loop().call_soon(on_closed)
        return memory(on_closed)

    async def start(bus: Bus, readiness: Readiness) -> None:
        await wait_for_ever()

    assert run_connected("rescaler", start, SETTINGS, connect) == EXIT_BUS_CLOSED


@pytest.mark.parametrize("error", [ValueError("a bug"), TransientBusError("no answer")])
def test_an_error_nobody_handled_ends_the_process(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    async def start(bus: Bus, readiness: Readiness) -> None:
        raise error

    assert run(start) == EXIT_FAILED
    assert str(error) in capsys.readouterr().err
