"""nats-server's configuration, from the roles' grants and a few settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from everstep_contract.clients import AgentClient, Role, ServiceClient
from everstep_contract.identity import JobKey

from everstep_bus.nats.credentials import (
    agent_seed_path,
    public_key,
    role_seed_path,
    system_seed_path,
)
from everstep_bus.nats.permissions import permissions

ANY_PORT: Final = -1
PING_INTERVAL: Final = "200ms"
UNANSWERED_PINGS: Final = 2
"""Silence is noticed within 0.4 s to 0.8 s: nats-server is the failure detector (DESIGN 5)."""


@dataclass(frozen=True)
class ServerSettings:
    """One server: where it listens, what it keeps, and whose agents it admits."""

    directory: Path
    """Configuration, store, log and ports file."""
    credentials: Path
    """Seeds, made where they are missing; the server learns the public keys only."""
    host: str = "127.0.0.1"
    port: int = ANY_PORT
    jobs: tuple[JobKey, ...] = ()
    store_bytes: int = 8 << 30
    memory_bytes: int = 512 << 20


def log_path(settings: ServerSettings) -> Path:
    """Where the server logs."""
    return settings.directory / "nats-server.log"


def server_config(settings: ServerSettings) -> dict[str, Any]:
    """The whole configuration; nats-server reads JSON."""
    return {
        "server_name": "everstep",
        "host": settings.host,
        "port": settings.port,
        "ports_file_dir": str(settings.directory),
        "log_file": str(log_path(settings)),
        "ping_interval": PING_INTERVAL,
        "ping_max": UNANSWERED_PINGS,
        "jetstream": {
            "store_dir": str(settings.directory / "jetstream"),
            "max_file_store": settings.store_bytes,
            "max_memory_store": settings.memory_bytes,
        },
        **accounts_config(settings),
    }


def accounts_config(settings: ServerSettings) -> dict[str, Any]:
    """Who may connect and what each may do: public keys only, the same for all of a cluster."""
    return {
        "accounts": {
            "SYS": {"users": [{"nkey": public_key(system_seed_path(settings.credentials))}]},
            "EVERSTEP": {"jetstream": "enabled", "users": _users(settings)},
        },
        "system_account": "SYS",
    }


def _users(settings: ServerSettings) -> list[dict[str, Any]]:
    roles: list[Role] = [role for role in get_args(Role) if role != "agent"]
    users = [
        {
            "nkey": public_key(role_seed_path(settings.credentials, role)),
            "permissions": permissions(ServiceClient(role, "any")),
        }
        for role in roles
    ]
    users += [
        {
            "nkey": public_key(agent_seed_path(settings.credentials, job)),
            "permissions": permissions(AgentClient(job, "any")),
        }
        for job in settings.jobs
    ]
    return users
