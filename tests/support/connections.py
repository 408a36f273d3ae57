"""Connections of made-up agents, as nats-server would tell of them."""

from everstep_bus.interface import Connection
from everstep_contract.clients import AgentClient, agent_client_name
from everstep_contract.identity import Member
from everstep_node_watcher.model import Observation, Paged, PagingBegun
from support.jobs import JOB


def client(of: Member) -> AgentClient:
    """The agent of one incarnation."""
    return AgentClient(JOB, of.incarnation)


def link(of: Member, client_id: int, server: str = "A") -> Connection:
    """One connection of its agent."""
    return Connection(server, client_id, agent_client_name(JOB, of.incarnation))


def listed(*connections: Connection) -> tuple[Observation, ...]:
    """A whole reading of the connection lists."""
    return PagingBegun(), Paged(connections)
