"""What the library reads from the environment, and what it sets there for each generation.

Membership comes from orders alone. What a scheduler or another launcher left behind describes the
job as it was when the pod was made (EC-41), so it is told apart, logged, and never used.
"""

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final

from everstep_trainer.library.errors import LaunchError
from everstep_trainer.link import (
    PAGE_FD_VARIABLE,
    RANK_SLOTS_FD_VARIABLE,
    SOCKET_FD_VARIABLE,
    STATE_SLOTS_FD_VARIABLE,
    Assignment,
)

_AGENT_STORE_VARIABLE: Final = "TORCHELASTIC_USE_AGENT_STORE"
"""torchrun's word that somebody else hosts every store; a private one would wait for ever."""

_HANDED: Final = (
    SOCKET_FD_VARIABLE,
    PAGE_FD_VARIABLE,
    STATE_SLOTS_FD_VARIABLE,
    RANK_SLOTS_FD_VARIABLE,
)
_PLACE: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_VOLCANO_PREFIX: Final = "VC_"


@dataclass(frozen=True)
class Launch:
    """How `everstep run` started this worker: descriptors of its link, page and snapshot slots."""

    link_fd: int
    page_fd: int
    state_slots_fd: int
    rank_slots_fd: int
    local_rank: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All of them: nothing that the script starts may have one."""
        return self.link_fd, self.page_fd, self.state_slots_fd, self.rank_slots_fd


def read_launch(environ: Mapping[str, str]) -> Launch | None:
    """How this worker was started; None if nobody started it as one.

    Raises:
        LaunchError: It is one worker of many, but not one of ours; or its launch is damaged.
    """
    if SOCKET_FD_VARIABLE not in environ:
        world_size = environ.get("WORLD_SIZE", "1")
        if world_size != "1":
            raise LaunchError(
                f"WORLD_SIZE is {world_size}, but this process was not started by `everstep run`: "
                "start the script with `everstep run`, or without a launcher to train alone"
            )
        return None
    try:
        link, page, state_slots, rank_slots = (int(environ[name]) for name in _HANDED)
        launch = Launch(link, page, state_slots, rank_slots, int(environ.get("LOCAL_RANK", "0")))
        for descriptor in launch.descriptors:
            os.fstat(descriptor)
    except (KeyError, ValueError, OSError) as error:
        found = ", ".join(f"{name}={environ.get(name)}" for name in _HANDED)
        raise LaunchError(f"{found}: not what `everstep run` hands to a worker: {error}") from error
    return launch


def forget_agent_store(environ: MutableMapping[str, str]) -> None:
    """Let stores that the script makes for itself be its own (EC-75)."""
    environ.pop(_AGENT_STORE_VARIABLE, None)


def set_place(environ: MutableMapping[str, str], order: Assignment) -> None:
    """Set torchrun's variables to this generation's, for whatever in the script reads them."""
    environ.update(_place_in(order))


def foreign_place(environ: Mapping[str, str], order: Assignment) -> dict[str, str]:
    """What the environment says of the job's shape and the order does not; for one warning."""
    ours = _place_in(order)
    found = {name: environ[name] for name in _PLACE if environ.get(name, ours[name]) != ours[name]}
    hosts = {
        name: value
        for name, value in environ.items()
        if name.startswith(_VOLCANO_PREFIX) and name.endswith(("_NUM", "_HOSTS"))
    }
    return found | hosts


def _place_in(order: Assignment) -> dict[str, str]:
    members = len(dict.fromkeys(order.members))
    return {
        "RANK": str(order.rank),
        "WORLD_SIZE": str(order.world_size),
        "LOCAL_RANK": str(order.local_rank),
        "LOCAL_WORLD_SIZE": str(order.local_world_size),
        "GROUP_RANK": str(order.member_index),
        "GROUP_WORLD_SIZE": str(members),
        "ROLE_RANK": str(order.rank),
        "ROLE_WORLD_SIZE": str(order.world_size),
        "MASTER_ADDR": order.store.host,
        "MASTER_PORT": str(order.store.port),
    }
