"""What is said of the silent: once, again while it stands, and nothing while blind."""

from datetime import timedelta

from everstep_bus.interface import Connected, Connection, Disconnected
from everstep_contract.base import Event
from everstep_contract.clients import ServiceClient, service_client_name
from everstep_contract.facts.member import MemberLeft, MemberRecovered, MemberSuspected
from everstep_contract.facts.node import WatcherBlinded, WatcherSighted
from everstep_contract.identity import Member
from everstep_node_watcher.decide import decide
from everstep_node_watcher.model import Observation, Policy, Said, View
from everstep_node_watcher.view import fold
from everstep_runtime.clock import Moment
from support.connections import link, listed
from support.jobs import JOB, NOW, member, record

CANARY = ServiceClient("canary", "mine")
POLICY = Policy(witness="watcher", node="here", canaries=frozenset({CANARY}))
GRACE = POLICY.reconnect_grace_seconds
ONE, TWO, THREE = member(1), member(2), member(3)


def canary_link(client_id: int) -> Connection:
    return Connection("A", client_id, service_client_name("canary", "mine"))


class Watcher:
    """A watcher that has members 1, 2 and 3 and its canary connected at second 0."""

    def __init__(self, *, seen: bool = True) -> None:
        self.view = View()
        self.said = Said()
        self.hear(record(1, (ONE, TWO, THREE)))
        if seen:
            everybody = link(ONE, 1), link(TWO, 2), link(THREE, 3), canary_link(4)
            self.hear(*listed(*everybody))

    def hear(self, *observations: Observation, at: float = 0.0) -> tuple[Event, ...]:
        """What is published on hearing all of ``observations`` one after the other."""
        facts: tuple[Event, ...] = ()
        for observation in observations:
            self.view = fold(self.view, observation, POLICY, at)
            facts += self.tick(at)
        return facts

    def tick(self, at: float) -> tuple[Event, ...]:
        """What is published with the mere passing of time."""
        now = Moment(NOW + timedelta(seconds=at), at)
        self.said, facts = decide(self.view, self.said, POLICY, now)
        return facts


def lost(of: Member, client_id: int, reason: str = "Client Closed") -> Disconnected:
    return Disconnected(link(of, client_id), reason)


def kinds(facts: tuple[Event, ...]) -> list[type[Event]]:
    return [type(fact) for fact in facts]


def test_a_closed_connection_is_suspected_at_once() -> None:
    (fact,) = Watcher().hear(lost(ONE, 1), at=5.0)
    assert isinstance(fact, MemberSuspected)
    assert (fact.member, fact.reason, fact.observation) == (ONE, "connection_closed", 1)


def test_unanswered_pings_are_suspected_at_once() -> None:
    (fact,) = Watcher().hear(lost(ONE, 1, "Stale Connection"))
    assert isinstance(fact, MemberSuspected)
    assert fact.reason == "connection_stale"


def test_r10_nothing_is_said_before_the_connection_lists_have_been_read() -> None:
    watcher = Watcher(seen=False)
    assert watcher.hear(lost(ONE, 1)) == ()
    facts = watcher.hear(*listed(link(TWO, 2), link(THREE, 3), canary_link(4)))
    assert kinds(facts) == [MemberSuspected]


def test_r10_mere_absence_from_the_lists_is_suspected_only_after_the_grace() -> None:
    watcher = Watcher()
    assert watcher.hear(*listed(link(TWO, 2), link(THREE, 3), canary_link(4)), at=1.0) == ()
    assert watcher.tick(1.0 + GRACE / 2) == ()
    (fact,) = watcher.tick(1.0 + GRACE)
    assert isinstance(fact, MemberSuspected)
    assert (fact.member, fact.reason, fact.silence_seconds) == (ONE, "not_connected", GRACE)


def test_r10_a_standing_suspicion_is_reasserted_under_ids_of_its_own() -> None:
    watcher = Watcher()
    first = watcher.hear(lost(ONE, 1))
    assert watcher.tick(POLICY.reassert_seconds / 2) == ()
    again = watcher.tick(POLICY.reassert_seconds)
    more = watcher.tick(2 * POLICY.reassert_seconds)
    assert [fact.reassertion for fact in (*first, *again, *more)] == [0, 1, 2]  # type: ignore[attr-defined]  # suspicions
    assert len({fact.dedup_id for fact in (*first, *again, *more)}) == 3


def test_r12_the_same_incarnation_connected_again_recovers_once() -> None:
    watcher = Watcher()
    watcher.hear(lost(ONE, 1))
    assert kinds(watcher.hear(Connected(link(ONE, 9)))) == [MemberRecovered]
    assert watcher.tick(100.0) == ()


def test_a_second_suspicion_after_a_recovery_is_another_observation() -> None:
    watcher = Watcher()
    watcher.hear(lost(ONE, 1), Connected(link(ONE, 9)))
    (fact,) = watcher.hear(lost(ONE, 9))
    assert isinstance(fact, MemberSuspected)
    assert fact.observation == 2


def test_whoever_said_goodbye_is_not_suspected() -> None:
    left = MemberLeft(at=NOW, job=JOB, member=ONE, reason="finished")
    assert Watcher().hear(left, lost(ONE, 1)) == ()


def test_the_members_of_a_job_that_ended_are_not_suspected() -> None:
    assert Watcher().hear(record(2, (ONE,), phase="ended", state="stop"), lost(ONE, 1)) == ()


def test_a_suspicion_of_somebody_without_a_seat_is_not_reasserted() -> None:
    watcher = Watcher()
    watcher.hear(lost(ONE, 1))
    assert watcher.hear(record(2, (TWO, THREE))) == ()
    assert watcher.tick(10 * POLICY.reassert_seconds) == ()


def test_r14_two_members_lost_while_the_canary_sings_are_two_suspicions() -> None:
    assert kinds(Watcher().hear(lost(ONE, 1), lost(TWO, 2))) == [MemberSuspected] * 2


def test_r14_one_member_lost_together_with_the_canary_is_still_suspected() -> None:
    facts = Watcher().hear(Disconnected(canary_link(4), "Stale Connection"), lost(ONE, 1))
    assert kinds(facts) == [MemberSuspected]


def test_r14_members_lost_together_with_the_canary_make_the_watcher_blind() -> None:
    watcher = Watcher()
    dark = Disconnected(canary_link(4), "Stale Connection")
    facts = watcher.hear(dark, lost(ONE, 1), lost(TWO, 2), lost(THREE, 3))
    assert kinds(facts) == [MemberSuspected, WatcherBlinded]
    assert kinds(watcher.tick(POLICY.reassert_seconds)) == [WatcherBlinded]


def test_r14_a_canary_that_was_long_dead_blinds_nobody() -> None:
    watcher = Watcher()
    watcher.hear(Disconnected(canary_link(4), "Client Closed"))
    later = 10 * POLICY.blind_window_seconds
    assert kinds(watcher.hear(lost(ONE, 1), lost(TWO, 2), at=later)) == [MemberSuspected] * 2


def test_r14_with_the_canary_back_for_the_grace_the_still_silent_are_suspected() -> None:
    watcher = Watcher()
    dark = Disconnected(canary_link(4), "Server Shutdown")
    watcher.hear(dark, *(lost(each, i + 1, "Server Shutdown") for i, each in enumerate((ONE, TWO))))
    watcher.hear(Connected(canary_link(8)), Connected(link(TWO, 9)), at=1.0)
    assert watcher.tick(1.0 + GRACE / 4) == ()
    facts = watcher.tick(1.0 + GRACE)
    assert kinds(facts) == [WatcherSighted, MemberSuspected]
    assert facts[1].entity_id == ONE.incarnation


def test_r14_recoveries_are_told_while_blind() -> None:
    watcher = Watcher()
    watcher.hear(lost(ONE, 1), Disconnected(canary_link(4), "Stale Connection"), lost(TWO, 2))
    assert watcher.said.blindness is not None
    assert kinds(watcher.hear(Connected(link(ONE, 9)))) == [MemberRecovered]


def test_r14_blindness_is_bounded_and_not_entered_twice_for_one_silence() -> None:
    watcher = Watcher()
    dark = Disconnected(canary_link(4), "Stale Connection")
    watcher.hear(dark, lost(ONE, 1), lost(TWO, 2))
    facts = watcher.tick(POLICY.blind_seconds)
    assert kinds(facts) == [WatcherSighted, MemberSuspected, MemberSuspected]
    assert WatcherBlinded not in kinds(watcher.tick(POLICY.blind_seconds + GRACE))
