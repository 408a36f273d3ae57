"""The environment of workers: what torchrun's scripts expect, and nothing stale (EC-41, EC-75)."""

import os
from typing import Final

import psutil

from everstep_trainer.agent.model import Me
from everstep_trainer.link import Assignment

_PER_GENERATION: Final = (
    "RANK",
    "WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_USE_AGENT_STORE",
)
"""Membership decides these, never a scheduler nor a launcher around us."""
_AGENT_ONLY: Final = ("EVERSTEP_NATS_URL", "EVERSTEP_NATS_SEED_PATH")
"""Only the agent speaks to the bus."""
GLOO_INTERFACE: Final = "GLOO_SOCKET_IFNAME"
STORE_PREFIX_VARIABLE: Final = "EVERSTEP_STORE_PREFIX"


def worker_environment(
    me: Me, local_rank: int, run_id: str, place: Assignment | None
) -> dict[str, str | None]:
    """Changes to the agent's environment for one worker; None where a variable must go.

    ``place`` is known at birth only on the restart rung. Else the library inside the worker sets
    the generation's part, each generation.
    """
    changes: dict[str, str | None] = dict.fromkeys((*_PER_GENERATION, *_AGENT_ONLY))
    changes |= {
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(me.gang.nproc_per_node),
        "ROLE_NAME": "default",
        "TORCHELASTIC_RUN_ID": run_id,
        "TORCHELASTIC_MAX_RESTARTS": str(me.limits.max_restarts),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }
    if GLOO_INTERFACE not in os.environ:
        changes[GLOO_INTERFACE] = interface_of(me.peer.host)
    return changes | _generation(place) if place else changes


def interface_of(host: str) -> str | None:
    """The network interface that has this address; None where it has a share of one, or none.

    Without a name gloo listens where the machine's own name resolves to: often loopback, which no
    peer reaches.
    """
    addresses = psutil.net_if_addrs()
    found = (name for name, had in addresses.items() if host in {one.address for one in had})
    return next(found, None)


def _generation(place: Assignment) -> dict[str, str | None]:
    return {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.world_size),
        "GROUP_RANK": str(place.member_index),
        "GROUP_WORLD_SIZE": str(len(set(place.members))),
        "ROLE_RANK": str(place.rank),
        "ROLE_WORLD_SIZE": str(place.world_size),
        "MASTER_ADDR": place.store.host,
        "MASTER_PORT": str(place.store.port),
        "TORCHELASTIC_RESTART_COUNT": str(place.generation),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        STORE_PREFIX_VARIABLE: place.store_prefix,
    }
