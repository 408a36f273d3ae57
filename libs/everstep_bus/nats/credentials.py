"""Credentials as files: one nkey seed a role, one for the agents of each job."""

import os
from pathlib import Path
from typing import Final

import nkeys  # type: ignore[import-untyped]  # it has no stubs
from everstep_contract.clients import Role
from everstep_contract.identity import JobKey

SEED_BYTES: Final = 32
OWNER_ONLY: Final = 0o600


def role_seed_path(directory: Path, role: Role) -> Path:
    """The seed of a service, a tool or a canary."""
    return directory / f"everstep-{role}.nk"


def agent_seed_path(directory: Path, job: JobKey) -> Path:
    """The seed of the agents of one job."""
    return directory / f"everstep-agent.{job.token}.nk"


def system_seed_path(directory: Path) -> Path:
    """The seed of the system account's user, whom the servers tell who is connected."""
    return directory / "everstep-system.nk"


def public_key(path: Path) -> str:
    """The public key to the seed in ``path``, which is made if there is none."""
    if not path.exists():
        _write_seed(path)
    key = nkeys.from_seed(bytearray(path.read_bytes().strip()))
    try:
        return str(key.public_key.decode())
    finally:
        key.wipe()


def _write_seed(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = nkeys.encode_seed(os.urandom(SEED_BYTES), nkeys.PREFIX_BYTE_USER)
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(opened, "wb") as file:
        file.write(seed + b"\n")
