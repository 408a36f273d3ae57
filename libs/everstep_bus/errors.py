"""Everything that can go wrong on the bus.

EverstepError
└── BusError
    ├── TransientBusError           the same call may succeed later: redeliver
    │   └── NoReplyError            nobody answered a query in time
    └── PermanentBusError           it never will: dead-letter
        ├── UndecodableMessageError
        ├── RevisionMismatchError   somebody wrote first: read again, decide again
        ├── QueryRefusedError       the service answered no, with a reason
        ├── AccessDeniedError       the server does not know these credentials
        │   └── NoSeedError         they are not even some
        └── ServerNotStartedError   the embedded nats-server does not come up
"""

from everstep_contract.errors import EverstepError


class BusError(EverstepError):
    """Something about the bus, not about the message's meaning."""


class TransientBusError(BusError):
    """The same call may succeed later."""


class NoReplyError(TransientBusError):
    """Nobody answered a query within its timeout."""

    def __init__(self, *, subject: str, timeout_seconds: float) -> None:
        super().__init__(f"no reply on {subject!r} within {timeout_seconds:g} s")
        self.subject = subject
        self.timeout_seconds = timeout_seconds


class PermanentBusError(BusError):
    """The same call never succeeds."""


class UndecodableMessageError(PermanentBusError):
    """A payload that fits no model of its declared type."""

    def __init__(self, *, subject: str, reason: str) -> None:
        super().__init__(f"cannot decode a message on {subject!r}: {reason}")
        self.subject = subject


class RevisionMismatchError(PermanentBusError):
    """A compare-and-set, or a conditional publish, met another revision than the one expected."""

    def __init__(self, *, key: str, expected: int) -> None:
        super().__init__(f"{key!r} is not at revision {expected}")
        self.key = key
        self.expected = expected


class QueryRefusedError(PermanentBusError):
    """The service understood the query and said no."""

    def __init__(self, *, subject: str, reason: str) -> None:
        super().__init__(f"refused on {subject!r}: {reason}")
        self.reason = reason


class AccessDeniedError(PermanentBusError):
    """The server does not know these credentials."""

    def __init__(self, *, client: str) -> None:
        super().__init__(f"the bus refuses the credentials of {client!r}")
        self.client = client


class NoSeedError(AccessDeniedError):
    """What should be the seed of an nkey is none."""

    def __init__(self, *, client: str, path: str) -> None:
        PermanentBusError.__init__(self, f"{path} holds no nkey seed for {client!r}")
        self.client = client
        self.path = path


class ServerNotStartedError(PermanentBusError):
    """The embedded nats-server did not come up."""

    def __init__(self, *, why: str) -> None:
        super().__init__(f"nats-server did not start: {why}")
