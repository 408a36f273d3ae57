"""A container's startup, readiness and liveness probes, asked as a kubelet asks them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from everstep_simcluster.errors import UnsupportedPodError
from everstep_simcluster.resources import Object

Kind = Literal["startupProbe", "readinessProbe", "livenessProbe"]


@dataclass(frozen=True)
class Probe:
    """One question. ``path`` is asked for over HTTP; None: the port only has to open."""

    port: int
    path: str | None
    delay_seconds: float = 0.0
    period_seconds: float = 10.0
    timeout_seconds: float = 1.0
    failures: int = 3
    successes: int = 1

    async def passes(self, address: str) -> bool:
        """Whether it is answered well, once and in time."""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return await self._ask(address)
        except (OSError, TimeoutError, EOFError, ValueError):
            return False

    async def _ask(self, address: str) -> bool:
        reader, writer = await asyncio.open_connection(address, self.port)
        try:
            if self.path is None:
                return True
            head = f"GET {self.path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode())
            status = (await reader.readuntil(b"\r\n")).split()[1]
            return 200 <= int(status) < 400
        finally:
            writer.close()


def probe_of(container: Object, kind: Kind) -> Probe | None:
    """The container's probe of that kind, if it has one.

    Raises:
        UnsupportedPodError: It is neither httpGet nor tcpSocket, or names a port that is not there.
    """
    spec = container.get(kind)
    if spec is None:
        return None
    action = spec.get("httpGet") or spec.get("tcpSocket")
    if action is None:
        raise UnsupportedPodError(f"{kind} is neither httpGet nor tcpSocket")
    return Probe(
        port=_port(container, kind, action.get("port")),
        path=action.get("path", "/") if "httpGet" in spec else None,
        delay_seconds=spec.get("initialDelaySeconds", Probe.delay_seconds),
        period_seconds=spec.get("periodSeconds", Probe.period_seconds),
        timeout_seconds=spec.get("timeoutSeconds", Probe.timeout_seconds),
        failures=spec.get("failureThreshold", Probe.failures),
        successes=spec.get("successThreshold", Probe.successes),
    )


def _port(container: Object, kind: Kind, wanted: object) -> int:
    if isinstance(wanted, int):
        return wanted
    for port in container.get("ports") or ():
        if port.get("name") == wanted:
            return int(port["containerPort"])
    raise UnsupportedPodError(f"{kind} asks port {wanted!r}, which the container does not have")


class Probes:
    """All probes of one container, asked at ``address`` from :meth:`run` on.

    ``online`` waits until the kubelet can ask at all; ``changed`` is called when ``started`` or
    ``ready`` has changed.
    """

    def __init__(
        self,
        container: Object,
        address: str,
        online: Callable[[], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        self._startup = probe_of(container, "startupProbe")
        self._readiness = probe_of(container, "readinessProbe")
        self._liveness = probe_of(container, "livenessProbe")
        self._address = address
        self._online = online
        self._changed = changed
        self.started = self._startup is None
        self.ready = self.started and self._readiness is None

    async def run(self) -> None:
        """Ask until the container has to be killed; for ever while it starts and lives well."""
        if self._startup is not None:
            if not await self._turns(self._startup, to=True):
                return
            self.started, self.ready = True, self._readiness is None
            self._changed()
        asking = [asyncio.ensure_future(self._live())]
        if self._readiness is not None:
            asking.append(asyncio.ensure_future(self._keep_ready(self._readiness)))
        try:
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in asking:
                task.cancel()

    async def _live(self) -> None:
        """Return once the liveness probe has failed too often."""
        if self._liveness is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self._turns(self._liveness, to=False)

    async def _keep_ready(self, probe: Probe) -> None:
        while True:
            self.ready = await self._turns(probe, to=not self.ready)
            self._changed()

    async def _turns(self, probe: Probe, *, to: bool) -> bool:
        """Ask until the answer is ``to`` often enough; a startup that fails too often returns too.

        Returns:
            What the probe says then.
        """
        limits = {True: probe.successes, False: probe.failures}
        counts = {True: 0, False: 0}
        await asyncio.sleep(probe.delay_seconds)
        while True:
            await self._online()
            passed = await probe.passes(self._address)
            counts = {passed: counts[passed] + 1, not passed: 0}
            decided = counts[passed] >= limits[passed]
            if decided and (passed == to or probe is self._startup):
                return passed
            await asyncio.sleep(probe.period_seconds)
