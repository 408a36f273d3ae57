"""What an agent can be told by EVERSTEP_* variables, and what it finds out by itself."""

import socket
import uuid
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from everstep_contract.base import Name
from everstep_contract.identity import Endpoint, GangSpec, JobKey, Member
from everstep_runtime.settings import ProcessSettings
from pydantic import Field

from everstep_trainer.agent.flags import Command, UsageError
from everstep_trainer.agent.model import Limits, Me, Replication

LEAST_BYTES_PER_SECOND: Final = 1 << 20
"""Slower than this, who receives gives up."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_NATS_PORT: Final = 4222
_NAMELESS: Final = (
    "the job has no name: a pod's manifest sets EVERSTEP_JOB_NAME and the like (docs/adopting.md),"
    " elsewhere give --job; without a cluster, `python` trains the same script alone"
)


class AgentSettings(ProcessSettings):
    """In a cluster the pod's downward API sets who we are; elsewhere the defaults do."""

    job_namespace: Name = "default"
    job_name: Name | None = None
    job_uid: Name | None = Field(default=None, description="Default: made of namespace and name.")
    pod_group: str = Field(default="", description="PodGroup's name, <job>-<job uid> by Volcano.")
    pod_name: Name | None = Field(default=None, description="Default: unlike any other agent's.")
    pod_uid: Name | None = None
    pod_ip: str | None = Field(default=None, description="Default: what NATS is reached from.")
    node_name: Name = Field(default_factory=socket.gethostname)
    connect_seconds: float = Field(default=30.0, gt=0, description="To the first connection.")
    leave_seconds: float = Field(default=5.0, gt=0, description="See agent.model.Limits.")
    grace_seconds: float = Field(default=10.0, gt=0, description="Of workers told to end.")
    step_log: str = Field(
        default="",
        description="Folder in which each worker writes down its steps; made if need be.",
    )
    resume_from: str = Field(
        default="",
        description="Job uid of an earlier life of this job: go on from its newest checkpoint.",
    )
    checkpoint_root: str = Field(
        default="",
        description="Folder, shared with the indexer and every member, of all jobs' checkpoints;"
        " empty: snapshots stay in memory.",
    )

    replicate_bytes_per_second: int = Field(
        default=Replication.bytes_per_second,
        ge=LEAST_BYTES_PER_SECOND,
        description="Sent at most to the partner that keeps copies of this member's snapshots.",
    )
    replicate_within_node: bool = Field(
        default=False, description="Copy to members of the same node too, if there is no other."
    )
    replicas_limit_bytes: int = Field(
        default=Replication.limit_bytes,
        ge=0,
        description="Memory for copies of other members' snapshots; half of what is left at most.",
    )

    def host(self) -> str:
        """The numeric address that peers reach this member under.

        Raises:
            OSError: The address given is none, or NATS cannot be resolved.
        """
        if self.pod_ip:
            return str(socket.getaddrinfo(self.pod_ip, 0, flags=socket.AI_NUMERICHOST)[0][4][0])
        nats = urlsplit(self.nats_urls[0])
        target = (nats.hostname or "127.0.0.1", nats.port or _NATS_PORT)
        family, _, _, _, address = socket.getaddrinfo(*target, type=socket.SOCK_DGRAM)[0]
        with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
            probe.connect(address)  # sends nothing: asks for the route
            return str(probe.getsockname()[0])


def me(settings: AgentSettings, command: Command, peer: Endpoint) -> Me:
    """This life of this agent: a new incarnation, never used before or again (R1).

    Raises:
        UsageError: Nothing says what the job is called.
    """
    if settings.job_name is None:
        raise UsageError(_NAMELESS)
    incarnation = uuid.uuid4().hex
    job = JobKey(namespace=settings.job_namespace, name=settings.job_name)
    return Me(
        job=job,
        member=Member(
            job_uid=settings.job_uid or _uid_in(settings.pod_group, job.name) or str(job),
            name=settings.pod_name or f"{socket.gethostname()}-{incarnation[:8]}",
            pod_uid=settings.pod_uid or incarnation,
            incarnation=incarnation,
            node=settings.node_name,
        ),
        gang=GangSpec(
            min_member=command.min_member,
            max_member=command.max_member,
            nproc_per_node=command.nproc_per_node,
        ),
        peer=peer,
        boot_id=_BOOT_ID.read_text().strip(),
        has_storage=bool(settings.checkpoint_root),
        rung="restart" if command.restart_rung else "in_process",
        limits=Limits(
            leave_seconds=settings.leave_seconds,
            grace_seconds=settings.grace_seconds,
            max_restarts=command.max_restarts,
        ),
        replication=Replication(
            within_node=settings.replicate_within_node,
            bytes_per_second=settings.replicate_bytes_per_second,
            limit_bytes=settings.replicas_limit_bytes,
        ),
    )


def _uid_in(pod_group: str, job_name: str) -> str:
    """The Job's uid, which a pod's downward API has nowhere else; empty if it is not there."""
    prefix = f"{job_name}-"
    return pod_group.removeprefix(prefix) if pod_group.startswith(prefix) else ""
