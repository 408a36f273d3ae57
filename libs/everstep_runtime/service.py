"""The life of a service's process: connect, run, stop when told to, and say why it ended."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import structlog
from everstep_bus.interface import Bus

from everstep_runtime.clock import SystemClock
from everstep_runtime.errors import BusClosedError, PortUnavailableError
from everstep_runtime.health import Readiness, serve_health
from everstep_runtime.logs import configure_logs
from everstep_runtime.settings import ServiceSettings

EXIT_FAILED: Final = 1
EXIT_PORT_UNAVAILABLE: Final = 3
EXIT_BUS_CLOSED: Final = 4
EXIT_STUCK: Final = 5
SHUTDOWN_SECONDS: Final = 5.0
"""How long a service may take to stop; well under a pod's grace of 30 s."""

log = structlog.get_logger()

Start = Callable[[Bus, Readiness], Awaitable[None]]
"""What a service does with its connection, until it is cancelled."""
Connect = Callable[[Callable[[], None]], AbstractAsyncContextManager[Bus]]
"""A connection while the context is open; calls its argument if it closes for good."""


class _StopRequestedError(Exception):
    """A signal asked the process to end."""


def run_connected(name: str, start: Start, settings: ServiceSettings, connect: Connect) -> int:
    """Run ``start`` until it returns, a signal comes, or the connection closes for good.

    Serves metrics and health meanwhile. Returns the exit status: 0 when it was asked to stop or
    had finished, else an ``EXIT_*`` that says why, after one line in the log.
    """
    configure_logs(name, instance=settings.instance, level=settings.log_level)
    status = 0
    try:
        asyncio.run(_live(start, settings, connect))
    except* _StopRequestedError as stop:
        log.info("stopped", why=str(stop.exceptions[0]))
    except* PortUnavailableError as taken:
        log.error("not started", why=str(taken.exceptions[0]))
        status = EXIT_PORT_UNAVAILABLE
    except* BusClosedError as closed:
        log.error("ended", why=str(closed.exceptions[0]))
        status = EXIT_BUS_CLOSED
    except* Exception as failure:  # the process's last word, then it ends
        log.error("failed", why=str(failure.exceptions[0]), exc_info=failure)
        status = EXIT_FAILED
    return status


async def _live(start: Start, settings: ServiceSettings, connect: Connect) -> None:
    readiness = Readiness(SystemClock())
    ending = _Ending()
    for stop_signal in (signal.SIGTERM, signal.SIGINT):
        why = _StopRequestedError(stop_signal.name)
        asyncio.get_running_loop().add_signal_handler(stop_signal, ending.set, why)
    async with (
        serve_health(settings.metrics_host, settings.metrics_port, readiness),
        asyncio.TaskGroup() as group,
    ):
        watch = group.create_task(ending.wait())
        async with connect(lambda: ending.set(BusClosedError())) as bus:
            await start(bus, readiness)
            watch.cancel()


class _Ending:
    """Why the process shall end; raised once in its task group, which cancels all the others."""

    def __init__(self) -> None:
        self._why: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def set(self, why: Exception) -> None:
        """End for this reason, and by force if that takes longer than `SHUTDOWN_SECONDS`."""
        if not self._why.done():
            self._why.set_exception(why)
            asyncio.get_running_loop().call_later(SHUTDOWN_SECONDS, _end_by_force)

    async def wait(self) -> None:
        """Raise the reason once there is one."""
        await self._why


def _end_by_force() -> None:
    log.error("did not stop in time", seconds=SHUTDOWN_SECONDS)
    os._exit(EXIT_STUCK)
