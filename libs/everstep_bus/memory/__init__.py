"""The in-memory twin of the bus: the same behaviour as NATS, and on request a nastier one.

It uses nothing but asyncio and the loop's own time, so it also runs in simulated time, and it
is deterministic for a given `Mischief` seed.
"""

from everstep_bus.memory.broker import MemoryBroker
from everstep_bus.memory.bus import MemoryBus
from everstep_bus.memory.mischief import CALM, Mischief
from everstep_bus.memory.server_events import MemoryServerEvents

__all__ = ["CALM", "MemoryBroker", "MemoryBus", "MemoryServerEvents", "Mischief"]
