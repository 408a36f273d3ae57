"""A role's grant as subjects that nats-server lets it publish and subscribe; all else is denied."""

from typing import Any, Final

from everstep_contract import subjects
from everstep_contract.clients import AgentClient, ServiceClient
from everstep_contract.identity import JobKey
from everstep_contract.layout import ALL_STREAMS, ORDERS, Stream, bucket_stream
from everstep_contract.queries import Query
from everstep_contract.roles import Grant, grant_of, inbox_prefix

API: Final = "$JS.API"
ANSWER_SECONDS: Final = 60
"""How long after a query its answer may be published."""


def permissions(client: AgentClient | ServiceClient) -> dict[str, Any]:
    """The ``permissions`` block of one user in nats-server's configuration."""
    grant = grant_of(client)
    job = client.job if isinstance(client, AgentClient) else None
    answers = {"max": 1, "expires": f"{ANSWER_SECONDS}s"}
    return {
        "publish": _rule(_publishes(grant, job)),
        "subscribe": _rule([f"{inbox_prefix(client)}.>", *_listens(grant, job)]),
        **({"allow_responses": answers} if grant.answers else {}),
    }


def _rule(allowed: list[str]) -> dict[str, list[str]]:
    """An empty list of what is allowed would mean everything."""
    return {"allow": sorted(set(allowed))} if allowed else {"deny": [">"]}


def _publishes(grant: Grant, job: JobKey | None) -> list[str]:
    found = [subjects.event_filter(event_class, job) for event_class in grant.publishes]
    found += [subject for query in grant.asks for subject in _asked(query)]
    found += [f"$KV.{bucket.name}.>" for bucket in grant.writes_buckets]
    if grant.reports:
        found.append(f"{subjects.TELEMETRY}.job.{job.token if job else '*.*'}.*")
    if grant.posts_orders:
        found.append(f"{subjects.ORDERS}.>")
    if grant.hears_orders and job is not None:
        found.append(f"{API}.DIRECT.GET.{ORDERS.name}.{subjects.order_subject(job)}")
    if grant.buries:
        found += _buries(grant, job)
    streams = (*grant.reads, *map(bucket_stream, grant.reads_buckets))
    found += [subject for stream in streams for subject in _reads(stream)]
    if grant.consumes:
        found += [f"$JS.ACK.{stream.name}.>" for stream in grant.reads]
    if grant.provisions:
        found += [subject for stream in ALL_STREAMS for subject in _provisions(stream)]
    return found


def _listens(grant: Grant, job: JobKey | None) -> list[str]:
    found = [subject for query in grant.answers for subject in _served(query, job)]
    if grant.hears_orders and job is not None:
        found.append(subjects.posted_order_subject(job))
    return found


def _asked(query: type[Query]) -> list[str]:
    base = subjects.served_subject(query)
    return [base, f"{base}.>"]


def _served(query: type[Query], job: JobKey | None) -> list[str]:
    base = subjects.served_subject(query)
    return [f"{base}.{job.token}.*"] if job else [base]


def _buries(grant: Grant, job: JobKey | None) -> list[str]:
    """Where the dead letters go of what the role reads; an agent reads what is about its job."""
    if job is None:
        return [f"{subjects.DEAD}.>"]
    reads = [subjects.order_subject(job)]
    reads += [subject for query in grant.answers for subject in _served(query, job)]
    return [subjects.dead_subject(subject) for subject in reads]


def _reads(stream: Stream) -> list[str]:
    """Look at a stream, and follow it through consumers that acknowledge nothing."""
    name = stream.name
    return [
        f"{API}.STREAM.INFO.{name}",
        f"{API}.STREAM.MSG.GET.{name}",
        f"{API}.DIRECT.GET.{name}",
        f"{API}.DIRECT.GET.{name}.>",
        f"{API}.CONSUMER.CREATE.{name}.*",
        f"{API}.CONSUMER.CREATE.{name}.*.>",
        f"{API}.CONSUMER.INFO.{name}.*",
        f"{API}.CONSUMER.MSG.NEXT.{name}.*",
    ]


def _provisions(stream: Stream) -> list[str]:
    return [f"{API}.STREAM.{verb}.{stream.name}" for verb in ("CREATE", "UPDATE", "INFO")]
