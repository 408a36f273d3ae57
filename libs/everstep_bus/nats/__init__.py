"""The bus on NATS JetStream; nothing outside this package imports nats."""

from everstep_bus.nats.bus import NatsBus, connect
from everstep_bus.nats.server_events import NatsServerEvents, connect_server_events

__all__ = ["NatsBus", "NatsServerEvents", "connect", "connect_server_events"]
