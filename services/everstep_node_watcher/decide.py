"""Which suspicions to publish: what is known against what has been said (R10, R14).

Silence is reported, never ruled on. While the watcher's own canaries fell silent together with
members, it may be the server or the watcher that is cut off, so nothing new is suspected.
"""

from dataclasses import replace
from typing import Final

from everstep_contract.base import Event
from everstep_contract.clients import AgentClient
from everstep_contract.facts.member import MemberRecovered, MemberSuspected
from everstep_contract.facts.node import WatcherBlinded, WatcherSighted
from everstep_contract.identity import Member

from everstep_node_watcher.model import (
    Blindness,
    Moment,
    Policy,
    Said,
    Silence,
    Standing,
    View,
)

_SAID_AT_ONCE: Final = ("connection_closed", "connection_stale")
"""A server's word on a connection; mere absence may be a reconnect, and waits for the grace."""
Saying = tuple[Said, tuple[Event, ...]]


def decide(view: View, said: Said, policy: Policy, now: Moment) -> Saying:
    """What to publish now, and what will have been said then. Pure.

    Nothing is said before the connection lists have been read once.
    """
    if not view.paged:
        return said, ()
    said, sight = _look(view, said, policy, now)
    said, recovered = _withdraw(view, said, policy, now)
    if said.blindness is not None:
        return said, (*sight, *recovered)
    said, suspected = _suspect(view, said, policy, now)
    return said, (*sight, *recovered, *suspected)


def _look(view: View, said: Said, policy: Policy, now: Moment) -> Saying:
    """Enter blindness, stay in it, or leave it."""
    blindness = said.blindness
    if blindness is None:
        if not _bereft_together(view, policy, said.sighted_at):
            return said, ()
        blindness = Blindness(said.episodes + 1, now.seconds, now.seconds)
        said = replace(said, blindness=blindness, episodes=blindness.episode)
        return said, (_blinded(blindness, policy, now),)
    dark = any(canary in view.silences for canary in policy.canaries)
    lit_since = now.seconds if blindness.lit_since is None else blindness.lit_since
    back = not dark and now.seconds - lit_since >= policy.reconnect_grace_seconds
    if back or now.seconds - blindness.since >= policy.blind_seconds:
        sighted = WatcherSighted(at=now.at, node=policy.node, episode=blindness.episode)
        return replace(said, blindness=None, sighted_at=now.seconds), (sighted,)
    again = now.seconds - blindness.said_at >= policy.reassert_seconds
    said_at = now.seconds if again else blindness.said_at
    blindness = replace(blindness, said_at=said_at, lit_since=None if dark else lit_since)
    facts = (_blinded(blindness, policy, now),) if again else ()
    return replace(said, blindness=blindness), facts


def _bereft_together(view: View, policy: Policy, after: float) -> bool:
    """Whether a canary fell silent at about the same time as many members (R14)."""
    dark = policy.canaries & view.silences.keys()
    canaries = [since for canary in dark if (since := view.silences[canary].since) > after]
    members = [silence.since for _, _, silence in _silent_members(view)] if canaries else []
    window = policy.blind_window_seconds
    return any(
        sum(abs(since - canary) <= window for since in members) >= policy.blind_members
        for canary in canaries
    )


def _blinded(blindness: Blindness, policy: Policy, now: Moment) -> WatcherBlinded:
    return WatcherBlinded(
        at=now.at,
        node=policy.node,
        episode=blindness.episode,
        detail="canary connections fell silent together with members",
    )


def _withdraw(view: View, said: Said, policy: Policy, now: Moment) -> Saying:
    """End the suspicions of who is connected again, and forget those nobody needs any more."""
    standing, facts = dict(said.standing), list[Event]()
    for client, suspicion in said.standing.items():
        unwatched = view.member(client) is None or client in view.gone
        if client in view.silences and not unwatched:
            continue
        del standing[client]
        if not unwatched:
            facts.append(
                MemberRecovered(
                    at=now.at,
                    job=client.job,
                    member=suspicion.member,
                    witness=policy.witness,
                    observation=suspicion.observation,
                )
            )
    observations = {c: count for c, count in said.observations.items() if view.member(c)}
    return replace(said, standing=standing, observations=observations), tuple(facts)


def _suspect(view: View, said: Said, policy: Policy, now: Moment) -> Saying:
    """Suspect who is silent, once; say it again while it stands."""
    standing, observations = dict(said.standing), dict(said.observations)
    facts = list[Event]()
    for client, member, silence in _silent_members(view):
        known = standing.get(client)
        if known is None and _may_be_reconnecting(silence, policy, now):
            continue
        if known is None:
            observations[client] = observations.get(client, 0) + 1
            known = Standing(member, observations[client], 0, now.seconds)
        elif now.seconds - known.said_at >= policy.reassert_seconds:
            known = replace(known, reassertion=known.reassertion + 1, said_at=now.seconds)
        else:
            continue
        standing[client] = known
        facts.append(_suspected(client, known, silence, policy, now))
    return replace(said, standing=standing, observations=observations), tuple(facts)


def _silent_members(view: View) -> list[tuple[AgentClient, Member, Silence]]:
    """Who is watched, has no connection, and did not say goodbye."""
    return [
        (client, member, silence)
        for client, silence in view.silences.items()
        if isinstance(client, AgentClient)
        and client not in view.gone
        and (member := view.member(client)) is not None
    ]


def _may_be_reconnecting(silence: Silence, policy: Policy, now: Moment) -> bool:
    if silence.reason in _SAID_AT_ONCE:
        return False
    return now.seconds - silence.since < policy.reconnect_grace_seconds


def _suspected(
    client: AgentClient, known: Standing, silence: Silence, policy: Policy, now: Moment
) -> MemberSuspected:
    return MemberSuspected(
        at=now.at,
        job=client.job,
        member=known.member,
        reason=silence.reason,
        witness=policy.witness,
        observation=known.observation,
        reassertion=known.reassertion,
        silence_seconds=now.seconds - silence.since,
        detail=silence.detail,
    )
