"""Folds what is heard into what is known: who is connected, who is silent, who is watched (R10)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar, assert_never

from everstep_bus.interface import Connected, Connection, Disconnected
from everstep_contract.clients import AgentClient, ServiceClient, parse_client_name
from everstep_contract.errors import InvalidNameError
from everstep_contract.facts.member import MemberLeft, SuspicionReason
from everstep_contract.record import JobRecord
from everstep_contract.telemetry import MemberReport

from everstep_node_watcher.model import (
    NOTHING,
    Client,
    JobForgotten,
    Link,
    Observation,
    OutOfSight,
    Paged,
    PagingBegun,
    Policy,
    Silence,
    View,
)

_ENDED_BY_CLIENT: Final = frozenset({"Client Closed", "Read Error", "Write Error"})
"""nats-server's reasons that mean that the client's end is gone or broken."""
_STALE: Final = "Stale Connection"
K = TypeVar("K")
V = TypeVar("V")


def fold(view: View, observation: Observation, policy: Policy, seconds: float) -> View:
    """What is known after ``observation`` at ``seconds``; the same object if nothing changed."""
    match observation:
        case Connected(connection=connection):
            return _connected(view, connection, policy)
        case Disconnected(connection=connection, reason=reason):
            silence = Silence(seconds, _reason(reason), reason)
            return _disconnected(view, connection, policy, silence)
        case OutOfSight():
            return replace(view, paged=False)
        case PagingBegun():
            return replace(view, changes=NOTHING)
        case Paged(connections=connections):
            return _paged(view, connections, policy, seconds)
        case JobRecord():
            return _recorded(view, observation)
        case JobForgotten(job=job):
            seats, ended = _without(view.seats, job), _without(view.ended, job)
            return replace(view, seats=seats, ended=ended)
        case MemberReport():
            return _reported(view, observation)
        case MemberLeft(job=job, member=member):
            return replace(view, gone=view.gone | {AgentClient(job, member.incarnation)})
        case _:
            assert_never(observation)


def _reason(advised: str) -> SuspicionReason:
    """What an advisory's reason means. What a server does by itself is only absence."""
    if advised == _STALE:
        return "connection_stale"
    return "connection_closed" if advised in _ENDED_BY_CLIENT else "not_connected"


def _client(connection: Connection, policy: Policy) -> Client | None:
    """Whose connection it is, if it is one that is followed."""
    try:
        client = parse_client_name(connection.name)
    except InvalidNameError:
        return None
    if isinstance(client, ServiceClient) and client not in policy.canaries:
        return None
    return client


def _connected(view: View, connection: Connection, policy: Policy) -> View:
    client, link = _client(connection, policy), Link(connection.server_id, connection.client_id)
    if client is None:
        return view
    return replace(
        view,
        links={**view.links, link: client},
        changes=None if view.changes is None else {**view.changes, link: client},
        silences=_without(view.silences, client),
    )


def _disconnected(view: View, connection: Connection, policy: Policy, silence: Silence) -> View:
    client, link = _client(connection, policy), Link(connection.server_id, connection.client_id)
    if client is None:
        return view
    links = _without(view.links, link)
    known = view.silences.get(client)
    if known is not None and known.reason == "not_connected":  # a page was read before this came
        silence = replace(silence, since=known.since)
        known = None
    silent = client not in links.values() and known is None
    return replace(
        view,
        links=links,
        changes=None if view.changes is None else {**view.changes, link: None},
        silences={**view.silences, client: silence} if silent else view.silences,
    )


def _paged(view: View, connections: tuple[Connection, ...], policy: Policy, seconds: float) -> View:
    listed = {
        Link(connection.server_id, connection.client_id): client
        for connection in connections
        if (client := _client(connection, policy)) is not None
    }
    unseen = _unseen(view, {connection.server_id for connection in connections}, seconds)
    grace = policy.reconnect_grace_seconds
    for link, client in view.links.items():
        since = unseen.get(link.server_id)
        if since is not None and seconds - since < grace:
            listed.setdefault(link, client)
    for link, change in (view.changes or {}).items():
        if change is None:
            listed.pop(link, None)
        else:
            listed[link] = change
    known = replace(view, paged=True, links=listed, changes=None, unseen=unseen)
    silences = _silences(view, known, policy, seconds)
    return _pruned(replace(known, silences=silences), policy, seconds)


def _unseen(view: View, answered: set[str], seconds: float) -> Mapping[str, float]:
    """Servers with connections of ours that did not answer, and since when."""
    servers = {link.server_id for link in view.links} - answered
    return {server: view.unseen.get(server, seconds) for server in servers}


def _silences(before: View, now: View, policy: Policy, seconds: float) -> Mapping[Client, Silence]:
    """Silences by the connection lists: who is absent, less who is there."""
    there = set(now.links.values())
    expected = {client for members in now.seats.values() for client in members}
    missed_at: dict[Client, float] = dict.fromkeys(expected | policy.canaries, seconds)
    for link, client in before.links.items():
        missed_at[client] = now.unseen.get(link.server_id, seconds)
    detail = "absent from the servers' connection lists"
    absent = {client: Silence(at, "not_connected", detail) for client, at in missed_at.items()}
    return {c: silence for c, silence in {**absent, **before.silences}.items() if c not in there}


def _pruned(view: View, policy: Policy, seconds: float) -> View:
    """Without agents that have been silent for long and hold no seat."""
    seated = {client for members in view.seats.values() for client in members}
    forgotten = {
        client
        for client, silence in view.silences.items()
        if isinstance(client, AgentClient)
        and client not in seated
        and seconds - silence.since > policy.forget_seconds
    }
    known = {*seated, *view.candidates, *view.links.values(), *view.silences} - forgotten
    return replace(
        view,
        silences={c: silence for c, silence in view.silences.items() if c not in forgotten},
        candidates={c: member for c, member in view.candidates.items() if c not in forgotten},
        gone=view.gone & known,
    )


def _recorded(view: View, record: JobRecord) -> View:
    if record.phase == "ended" or record.state == "stop":
        return replace(
            view,
            seats=_without(view.seats, record.job),
            candidates={c: m for c, m in view.candidates.items() if m.job_uid != record.job_uid},
            ended={**view.ended, record.job: record.job_uid},
        )
    members = {
        AgentClient(record.job, seat.member.incarnation): seat.member for seat in record.seats
    }
    return replace(
        view,
        seats={**view.seats, record.job: members},
        candidates={c: m for c, m in view.candidates.items() if c not in members},
        ended=_without(view.ended, record.job),
    )


def _reported(view: View, report: MemberReport) -> View:
    """A member without a seat is watched from its first report on, once it is connected."""
    client = AgentClient(report.job, report.member.incarnation)
    if report.phase == "stopped" and client not in view.gone:
        return replace(view, gone=view.gone | {client})
    if view.member(client) is not None or client in view.gone:
        return view
    if view.ended.get(report.job) == report.member.job_uid or client not in view.links.values():
        return view
    return replace(view, candidates={**view.candidates, client: report.member})


def _without(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    return {at: value for at, value in mapping.items() if at != key}
