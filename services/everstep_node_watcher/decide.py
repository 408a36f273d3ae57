"""Which suspicions to publish: what is known against what has been said (R10, R14).

Silence is reported, never ruled on. While the watcher's own canaries fell silent together with
members, it may be the server or the watcher that is cut off, so nothing new is suspected.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from everstep_contract.base import Event
from everstep_contract.clients import AgentClient
from everstep_contract.facts.member import MemberRecovered
from everstep_contract.facts.node import WatcherBlinded, WatcherSighted
from everstep_contract.identity import Member
from everstep_runtime.clock import Moment

from everstep_node_watcher.model import Blindness, Cause, Policy, Said, Silence, Spoken, View
from everstep_node_watcher.suspicions import Voice, speak

_SAID_AT_ONCE: Final = ("connection_closed", "connection_stale")
"""A server's word on a connection; mere absence may be a reconnect, and waits for the grace."""
Saying = tuple[Said, tuple[Event, ...]]


def decide(view: View, said: Said, policy: Policy, now: Moment) -> Saying:
    """What to publish now, and what will have been said then. Pure.

    Nothing is said before the connection lists have been read.
    """
    if not view.paged:
        return said, ()
    said, sight = _look(view, said, policy, now)
    told, recovered = _withdraw(view, said.spoken, policy, now)
    if said.blindness is not None:
        return replace(said, spoken=told), (*sight, *recovered)
    voice = Voice(policy.witness, policy.reassert_seconds)
    spoken, suspected = speak(_causes(view, told, policy, now), told, voice, now)
    return replace(said, spoken=spoken), (*sight, *recovered, *suspected)


def _look(view: View, said: Said, policy: Policy, now: Moment) -> Saying:
    """Enter blindness, stay in it, or leave it."""
    blindness = said.blindness
    if blindness is None:
        if not _bereft_together(view, policy, said.sighted_at):
            return said, ()
        blindness = Blindness(said.episodes + 1, now.monotonic, now.monotonic)
        said = replace(said, blindness=blindness, episodes=blindness.episode)
        return said, (_blinded(blindness, policy, now),)
    dark = any(canary in view.silences for canary in policy.canaries)
    lit_since = now.monotonic if blindness.lit_since is None else blindness.lit_since
    back = not dark and now.monotonic - lit_since >= policy.reconnect_grace_seconds
    if back or now.monotonic - blindness.since >= policy.blind_seconds:
        sighted = WatcherSighted(at=now.at, node=policy.node, episode=blindness.episode)
        return replace(said, blindness=None, sighted_at=now.monotonic), (sighted,)
    again = now.monotonic - blindness.said_at >= policy.reassert_seconds
    said_at = now.monotonic if again else blindness.said_at
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


def _withdraw(
    view: View, spoken: Spoken, policy: Policy, now: Moment
) -> tuple[Spoken, tuple[MemberRecovered, ...]]:
    """End the suspicions of who is connected again, and forget those nobody needs any more."""
    spoken = spoken.only(lambda client: view.member(client) is not None and client not in view.gone)
    recovered = tuple(
        MemberRecovered(
            at=now.at,
            job=client.job,
            member=suspicion.cause.member,
            witness=policy.witness,
            observation=suspicion.observation,
        )
        for client, suspicion in spoken.standing.items()
        if client not in view.silences
    )
    standing = {c: suspicion for c, suspicion in spoken.standing.items() if c in view.silences}
    return replace(spoken, standing=standing), recovered


def _causes(view: View, spoken: Spoken, policy: Policy, now: Moment) -> Mapping[AgentClient, Cause]:
    """Who is silent, less who may only be reconnecting."""
    return {
        client: Cause(member, silence.reason, silence.since, silence.detail)
        for client, member, silence in _silent_members(view)
        if client in spoken.standing or not _may_be_reconnecting(silence, policy, now)
    }


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
    return now.monotonic - silence.since < policy.reconnect_grace_seconds
