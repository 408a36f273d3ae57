"""Everything that can go wrong in the simulated cluster itself.

EverstepError
└── SimulationError             the cluster cannot do what it was asked to
    ├── NetworkError            the kernel refused a network, or a change of one
    ├── LaunchError             a pod's process could not be started
    ├── UnsupportedPodError     a pod asks for what a process on this machine cannot have
    └── FaultNotPossibleError   that fault cannot be done here, or not to that node

What the API server answers to a client is an ApiError, which is part of its protocol: see there.
"""

from everstep_contract.errors import EverstepError


class SimulationError(EverstepError):
    """The cluster cannot do what it was asked to."""


class NetworkError(SimulationError):
    """The kernel refused a change of the network."""

    def __init__(self, command: str, why: str) -> None:
        super().__init__(f"{command}: {why.strip()}")


class LaunchError(SimulationError):
    """A pod's process could not be started."""

    def __init__(self, argv: tuple[str, ...], why: str) -> None:
        super().__init__(f"cannot start {argv[0] if argv else 'nothing'!r}: {why}")
        self.argv = argv


class UnsupportedPodError(SimulationError):
    """The pod asks for something that a process on this machine cannot have."""


class FaultNotPossibleError(SimulationError):
    """The fault cannot be done here, or not to that node."""
