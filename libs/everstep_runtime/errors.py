"""Everything that can keep a process from starting, or end it.

EverstepError
└── ProcessError                the process cannot go on as it is
    ├── SettingsError           a variable is unknown, or its value is none
    ├── PortUnavailableError    the metrics port is taken, or not ours to open
    ├── BusClosedError          the connection ended for good and nobody asked for it (EC-38)
    └── LeaseLostError          another may lead now: stop acting (R5)
"""

from everstep_contract.errors import EverstepError


class ProcessError(EverstepError):
    """The process cannot go on as it is."""


class SettingsError(ProcessError):
    """A variable that no setting has, or a value that its setting does not take."""

    def __init__(self, *, variable: str, value: str, why: str) -> None:
        super().__init__(f"{variable}={value!r}: {why}")
        self.variable = variable
        self.value = value


class PortUnavailableError(ProcessError):
    """The port that metrics and health were to be served on cannot be opened."""

    def __init__(self, *, host: str, port: int, why: str) -> None:
        super().__init__(f"cannot serve metrics on {host}:{port}: {why}")
        self.port = port


class BusClosedError(ProcessError):
    """The connection to the bus is closed and will not come back by itself."""

    def __init__(self) -> None:
        super().__init__("the connection to the bus closed unrequested")


class LeaseLostError(ProcessError):
    """The lease was not renewed in time, or another holds it."""

    def __init__(self, *, lease: str, why: str) -> None:
        super().__init__(f"lost the lease {lease!r}: {why}")
        self.lease = lease
