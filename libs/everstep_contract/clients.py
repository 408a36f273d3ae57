"""Names of NATS connections: how the watcher knows whose silence an advisory is about (R1, R10)."""

from typing import Literal, NamedTuple, get_args

from everstep_contract.identity import JobKey
from everstep_contract.names import decode_name, encode_name

Role = Literal[
    "agent", "node_watcher", "adjudicator", "rescaler", "checkpoint_indexer", "operator", "canary"
]
"""Who connects; each role has its own credentials and permissions."""


class AgentClient(NamedTuple):
    """The agent of one incarnation of one job's member."""

    job: JobKey
    incarnation: str


class ServiceClient(NamedTuple):
    """A service, a tool or a canary; ``instance`` tells replicas apart."""

    role: Role
    instance: str


def agent_client_name(job: JobKey, incarnation: str) -> str:
    """The name an agent connects under."""
    return f"everstep.agent.{job.token}.{encode_name(incarnation)}"


def service_client_name(role: Role, instance: str) -> str:
    """The name anything else connects under."""
    return f"everstep.{role}.{encode_name(instance)}"


def parse_client_name(name: str) -> AgentClient | ServiceClient | None:
    """The inverse of both; None for a client that is not Everstep's.

    Raises:
        InvalidNameError: It looks like ours and has a token that is no encoded name.
    """
    match name.split("."):
        case ["everstep", "agent", namespace, job, incarnation]:
            return AgentClient(JobKey.from_token(f"{namespace}.{job}"), decode_name(incarnation))
        case ["everstep", role, instance] if role in get_args(Role):
            return ServiceClient(role, decode_name(instance))  # type: ignore[arg-type]  # checked
        case _:
            return None
