"""Says once whom there is cause to suspect, and again while the cause stands (R10)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from everstep_contract.clients import AgentClient
from everstep_contract.facts.member import MemberSuspected
from everstep_runtime.clock import Moment

from everstep_node_watcher.model import Cause, Spoken, Standing


@dataclass(frozen=True)
class Voice:
    """In whose name suspicions are told, and how often a standing one is told again."""

    witness: str
    reassert_seconds: float


def speak(
    causes: Mapping[AgentClient, Cause],
    spoken: Spoken,
    voice: Voice,
    now: Moment,
    held: frozenset[AgentClient] = frozenset(),
) -> tuple[Spoken, tuple[MemberSuspected, ...]]:
    """What to tell of ``causes``, and what has been told then. Whoever has no cause is dropped.

    What stands against those in ``held`` goes on standing and is not told again.
    """
    standing = {client: known for client, known in spoken.standing.items() if client in held}
    counts = dict(spoken.observations)
    facts: list[MemberSuspected] = []
    for client, cause in causes.items():
        known = spoken.standing.get(client)
        if known is None or known.cause.reason != cause.reason:
            counts[client] = counts.get(client, 0) + 1
            known = Standing(cause, counts[client], reassertion=0, said_at=now.monotonic)
        elif now.monotonic - known.said_at >= voice.reassert_seconds:
            known = replace(known, reassertion=known.reassertion + 1, said_at=now.monotonic)
        else:
            standing[client] = known
            continue
        standing[client] = known
        facts.append(_suspected(client, known, voice, now))
    return Spoken(standing, counts), tuple(facts)


def _suspected(client: AgentClient, known: Standing, voice: Voice, now: Moment) -> MemberSuspected:
    return MemberSuspected(
        at=now.at,
        job=client.job,
        member=known.cause.member,
        reason=known.cause.reason,
        witness=voice.witness,
        observation=known.observation,
        reassertion=known.reassertion,
        silence_seconds=now.monotonic - known.cause.since,
        detail=known.cause.detail,
    )
