"""The life of a service's process: connect, run, stop when told to, and say why it ended."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import structlog
from everstep_bus.errors import AccessDeniedError
from everstep_bus.interface import Bus
from everstep_bus.nats import connect
from everstep_contract.clients import Role, service_client_name
from everstep_contract.errors import EverstepError

from everstep_runtime.clock import SystemClock
from everstep_runtime.errors import BusClosedError, PortUnavailableError
from everstep_runtime.health import Readiness, serve_health
from everstep_runtime.logs import configure_logs
from everstep_runtime.metrics import exported
from everstep_runtime.settings import ServiceSettings

EXIT_FAILED: Final = 1
EXIT_PORT_UNAVAILABLE: Final = 3
EXIT_BUS_CLOSED: Final = 4
EXIT_STUCK: Final = 5
EXIT_ACCESS_DENIED: Final = 6
SHUTDOWN_SECONDS: Final = 5.0
"""How long a service may take to stop; well under a pod's grace of 30 s."""

log = structlog.get_logger()

Start = Callable[[Bus, Readiness], Awaitable[None]]
"""What a service does with its connection, until it is cancelled."""
Connect = Callable[[Callable[[], None]], AbstractAsyncContextManager[Bus]]
"""A connection while the context is open; calls its argument if it closes for good."""


class _StopRequestedError(Exception):
    """A signal asked the process to end."""


def run_service(role: Role, start: Start, settings: ServiceSettings) -> int:
    """Connect under ``role`` and do ``start`` until told to stop; the process's exit status.

    Metrics and health are served meanwhile, also while the bus cannot be reached yet. The status
    is 0 when it was asked to stop or had finished, else an ``EXIT_*`` that says why, after one
    line in the log.
    """

    @asynccontextmanager
    async def connected(on_closed: Callable[[], None]) -> AsyncIterator[Bus]:
        name = service_client_name(role, settings.instance)
        seed = settings.nats_seed_path
        opened = connect(settings.nats_urls, name, seed_path=seed, on_closed=on_closed)
        async with opened as bus:
            with exported(bus.counts):
                yield bus

    return run_connected(role, start, settings, connected)


def run_connected(role: Role, start: Start, settings: ServiceSettings, connect: Connect) -> int:
    """As `run_service`, on a bus of the caller's choice."""
    configure_logs(role, instance=settings.instance, level=settings.log_level)
    status = 0
    try:
        asyncio.run(_live(start, settings, connect))
    except* Exception as ended:  # noqa: BLE001  # the process's last words
        status = _last_words(ended)
    return status


def _last_words(ended: ExceptionGroup) -> int:
    """Log why the process ends; which of several reasons comes first decides its status."""
    reasons: tuple[tuple[type[Exception], int], ...] = (
        (PortUnavailableError, EXIT_PORT_UNAVAILABLE),
        (AccessDeniedError, EXIT_ACCESS_DENIED),
        (_StopRequestedError, 0),
        (BusClosedError, EXIT_BUS_CLOSED),
        (EverstepError, EXIT_FAILED),
    )
    for kind, status in reasons:
        if found := ended.subgroup(kind):
            tell = log.error if status else log.info
            tell("ended", why=str(_first(found)), status=status)
            return status
    log.error("failed", why=str(_first(ended)), exc_info=ended)
    return EXIT_FAILED


def _first(group: BaseExceptionGroup) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


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
