"""A simulated machine: its address, its power, its link, and the processes that live on it."""

import asyncio
import time
import uuid
from dataclasses import dataclass, field

from everstep_simcluster.processes import members_of


@dataclass(frozen=True)
class Instant:
    """When something happened, on both clocks of this machine, in seconds."""

    monotonic_seconds: float
    unix_seconds: float

    @classmethod
    def now(cls) -> "Instant":
        """This instant."""
        return cls(time.monotonic(), time.time())


def new_boot_id() -> str:
    """A name for one life of a machine's kernel."""
    return str(uuid.uuid4())


@dataclass(eq=False)
class Machine:
    """One node's hardware. Faults change it; its kubelet obeys it.

    ``netns`` is the path of its network namespace, None where nodes share the machine's own.
    ``leaders`` are the sessions of its pods that are running now.
    """

    name: str
    index: int
    address: str
    gpus: int
    netns: str | None
    labels: dict[str, str] = field(default_factory=dict)
    boot_id: str = field(default_factory=new_boot_id)
    leaders: set[int] = field(default_factory=set)
    powered: bool = True
    link_up: bool = True
    frozen: bool = False
    kubelet_up: bool = True
    _online: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.changed()

    @property
    def online(self) -> bool:
        """Whether its kubelet can reach the API server."""
        return self.powered and self.link_up and self.kubelet_up and not self.frozen

    async def wait_online(self) -> None:
        """Wait until the kubelet can act and be heard."""
        await self._online.wait()

    def changed(self) -> None:
        """To be called after power, link, frozen or kubelet were set."""
        if self.online:
            self._online.set()
        else:
            self._online.clear()

    def processes(self) -> set[int]:
        """Everything that runs on it."""
        return members_of(self.leaders, self.netns)
