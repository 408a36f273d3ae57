"""Who was heard lately: silences, counted on our own clock and only while we could hear."""

from collections.abc import Iterable
from typing import Final

from everstep_contract.identity import Member
from everstep_contract.telemetry import MemberReport
from everstep_runtime.clock import Clock

HEARD_LIMIT: Final = 65_536
"""Pods, and nodes, that are remembered; who was heard longest ago is forgotten first."""


class Hearing:
    """When anything in a pod, or on a node, last reported.

    A silence is never longer than we have listened without a break, nor than we have known of
    the exclusion: durations are counted from receipt (R27).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listening_since = clock.monotonic()
        self._pods: dict[str, float] = {}
        self._nodes: dict[str, float] = {}
        self._excluded: dict[str, float] = {}
        self._boots: dict[str, str] = {}

    def hear(self, report: MemberReport) -> None:
        """Somebody reported."""
        _note(self._pods, report.member.pod_uid, self._clock.monotonic())
        _note(self._nodes, report.member.node, self._clock.monotonic())

    def was_deaf(self) -> None:
        """Nobody could be heard just now: all silences begin anew."""
        self._listening_since = self._clock.monotonic()

    def know_excluded(self, members: Iterable[Member]) -> None:
        """These are excluded now; what is known of others' pods is of no more use."""
        now = self._clock.monotonic()
        excluded = {member.incarnation: member for member in members}
        self._excluded = {name: self._excluded.get(name, now) for name in excluded}
        self._boots = {name: boot for name, boot in self._boots.items() if name in excluded}

    def know_boot(self, member: Member, boot_id: str) -> None:
        """The excluded member's node is in this life now; the first one that is known counts."""
        if boot_id:
            self._boots.setdefault(member.incarnation, boot_id)

    def boot_of(self, member: Member) -> str:
        """The life in which its node was when the exclusion became known; empty: not known."""
        return self._boots.get(member.incarnation, "")

    def pod_silence_seconds(self, member: Member) -> float:
        """How long nothing in the member's pod has been heard, since it was excluded."""
        return self._since(member, self._pods.get(member.pod_uid))

    def node_silence_seconds(self, member: Member) -> float:
        """How long nothing on the member's node has been heard, since it was excluded."""
        return self._since(member, self._nodes.get(member.node))

    def heard_on(self, node: str, *, within_seconds: float) -> bool:
        """Whether anything on the node has reported lately."""
        heard = self._nodes.get(node)
        return heard is not None and self._clock.monotonic() - heard <= within_seconds

    def _since(self, member: Member, heard: float | None) -> float:
        now = self._clock.monotonic()
        excluded = self._excluded.get(member.incarnation, now)
        return now - max(excluded, self._listening_since, heard or self._listening_since)


def _note(heard: dict[str, float], who: str, now: float) -> None:
    heard.pop(who, None)
    heard[who] = now
    if len(heard) > HEARD_LIMIT:
        del heard[next(iter(heard))]
