"""A bus whose user dies at a chosen call: before it takes effect, or right after."""

import asyncio
from collections.abc import Callable
from typing import Any

from everstep_bus.interface import Bus

COUNTED = frozenset({"publish", "post_order", "last_order", "ask", "report"})
COUNTED_KV = frozenset({"get", "put", "delete", "entries"})


class CrashingBus:
    """Counts calls and, at the ``die_at``-th, has its user killed; everything else is the bus's."""

    def __init__(
        self, bus: Bus, die_at: int | None, *, after: bool, die: Callable[[str], None]
    ) -> None:
        self.calls = 0
        self._bus = bus
        self._die_at = die_at
        self._after = after
        self._die = die

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._bus, name)
        return self.counted(name, found) if name in COUNTED else found

    def kv(self, bucket: Any) -> Any:
        return _CrashingKeyValue(self, self._bus.kv(bucket))

    def counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, counted; at its number its caller dies instead of going on."""

        async def counted(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            now = self.calls == self._die_at
            if now and not self._after:
                await self._perish(f"before {name}")
            answer = await call(*arguments, **named)
            if now:
                await self._perish(f"after {name}")
            return answer

        return counted

    async def _perish(self, when: str) -> None:
        self._die(when)
        await asyncio.Event().wait()


class _CrashingKeyValue:
    def __init__(self, crashing: CrashingBus, kv: Any) -> None:
        self._crashing = crashing
        self._kv = kv

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._kv, name)
        return self._crashing.counted(name, found) if name in COUNTED_KV else found
