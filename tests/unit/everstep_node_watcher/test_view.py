"""Who is connected and who is silent, from advisories, connection lists, records and reports."""

from dataclasses import replace

from everstep_bus.interface import Connected, Connection, Disconnected
from everstep_contract.clients import ServiceClient, service_client_name
from everstep_contract.facts.member import MemberLeft
from everstep_node_watcher.model import Observation, Paged, PagingBegun, Policy, View
from everstep_node_watcher.view import fold
from support.connections import client, link, listed
from support.jobs import JOB, JOB_UID, NOW, member, record, report

POLICY = Policy(witness="watcher", node="here")
ONE, TWO = member(1), member(2)


def after(view: View, *observations: Observation, seconds: float = 0.0) -> View:
    for observation in observations:
        view = fold(view, observation, POLICY, seconds)
    return view


def test_r10_a_member_is_silent_only_when_its_last_connection_is_gone() -> None:
    view = after(View(), Connected(link(ONE, 1)), Connected(link(ONE, 2)))
    view = after(view, Disconnected(link(ONE, 1), "Client Closed"))
    assert not view.silences
    view = after(view, Disconnected(link(ONE, 2), "Client Closed"), seconds=5.0)
    assert view.silences[client(ONE)].since == 5.0


def test_r10_equal_client_ids_of_two_servers_are_two_connections() -> None:
    view = after(View(), Connected(link(ONE, 1, "A")), Connected(link(ONE, 1, "B")))
    assert not after(view, Disconnected(link(ONE, 1, "A"), "Client Closed")).silences


def test_the_reason_tells_a_closed_socket_from_unanswered_pings_and_from_the_servers_will() -> None:
    view = after(View(), Connected(link(ONE, 1)))
    reasons = {
        reason: after(view, Disconnected(link(ONE, 1), reason)).silences[client(ONE)].reason
        for reason in ("Client Closed", "Stale Connection", "Server Shutdown")
    }
    assert reasons == {
        "Client Closed": "connection_closed",
        "Stale Connection": "connection_stale",
        "Server Shutdown": "not_connected",
    }


def test_r10_the_connection_list_finds_who_vanished_while_nobody_listened() -> None:
    view = after(View(), Connected(link(ONE, 1)), Connected(link(TWO, 2)))
    view = after(view, *listed(link(TWO, 2)), seconds=3.0)
    assert set(view.silences) == {client(ONE)}


def test_r10_a_seat_in_a_record_without_a_connection_is_silent() -> None:
    view = after(View(), record(1, (ONE, TWO)), *listed(link(TWO, 2)))
    assert set(view.silences) == {client(ONE)}


def test_r10_what_an_advisory_said_during_the_paging_is_newer_than_the_page() -> None:
    view = after(View(), Connected(link(ONE, 1)), PagingBegun())
    view = after(view, Disconnected(link(ONE, 1), "Client Closed"), Connected(link(TWO, 2)))
    view = after(view, Paged((link(ONE, 1),)))
    assert set(view.links.values()) == {client(TWO)}
    assert set(view.silences) == {client(ONE)}


def test_r10_an_advisory_that_a_page_overtook_still_tells_how_the_connection_ended() -> None:
    view = after(View(), Connected(link(ONE, 1)), *listed(link(TWO, 2)), seconds=3.0)
    view = after(view, Disconnected(link(ONE, 1), "Client Closed"), seconds=3.1)
    assert view.silences[client(ONE)].reason == "connection_closed"
    assert view.silences[client(ONE)].since == 3.0


def test_r12_whoever_connects_again_is_silent_no_more() -> None:
    view = after(View(), Connected(link(ONE, 1)), Disconnected(link(ONE, 1), "Stale Connection"))
    assert not after(view, Connected(link(ONE, 7))).silences


def test_a_server_that_does_not_answer_takes_nobody_with_it_for_the_grace() -> None:
    view = after(View(), Connected(link(ONE, 1, "A")), Connected(link(TWO, 2, "B")))
    view = after(view, *listed(link(TWO, 2, "B")), seconds=1.0)
    assert not view.silences
    view = after(view, *listed(link(TWO, 2, "B")), seconds=2.0)
    view = after(view, *listed(link(TWO, 2, "B")), seconds=1.0 + POLICY.reconnect_grace_seconds)
    assert set(view.silences) == {client(ONE)}


def test_a_candidate_is_watched_from_its_report_on_but_only_if_it_is_connected() -> None:
    view = after(View(), report(ONE))
    assert view.member(client(ONE)) is None
    view = after(view, Connected(link(ONE, 1)), report(ONE, 2))
    assert view.member(client(ONE)) == ONE


def test_a_report_that_changes_nothing_leaves_the_very_same_view() -> None:
    view = after(View(), record(1, (ONE,)), Connected(link(ONE, 1)))
    assert fold(view, report(ONE, 9), POLICY, 1.0) is view


def test_r1_another_incarnation_of_the_same_member_is_somebody_else() -> None:
    view = after(View(), record(1, (ONE,)), Connected(link(ONE, 1)))
    view = after(
        view, Disconnected(link(ONE, 1), "Client Closed"), Connected(link(member(1, 2), 2))
    )
    assert set(view.silences) == {client(ONE)}


def test_members_of_a_job_that_ended_are_not_watched() -> None:
    view = after(View(), record(1, (ONE,)), Connected(link(ONE, 1)), Connected(link(TWO, 2)))
    view = after(view, report(TWO), record(2, (ONE,), phase="ended", state="stop"), report(TWO, 2))
    assert view.member(client(ONE)) is None
    assert view.member(client(TWO)) is None
    assert view.ended[JOB] == JOB_UID


def test_whoever_said_goodbye_is_remembered_while_it_matters() -> None:
    left = MemberLeft(at=NOW, job=JOB, member=ONE, reason="terminated")
    view = after(View(), record(1, (ONE,)), Connected(link(ONE, 1)), left)
    assert client(ONE) in after(view, *listed(link(ONE, 1))).gone
    view = after(view, record(2, (TWO,)), *listed(link(TWO, 2)))
    later = POLICY.forget_seconds + 1
    assert client(ONE) not in after(view, *listed(link(TWO, 2)), seconds=later).gone


def test_a_silent_candidate_is_forgotten_in_the_end() -> None:
    view = after(View(), Connected(link(ONE, 1)), report(ONE), *listed(link(TWO, 2)))
    assert view.member(client(ONE)) == ONE
    view = after(view, *listed(link(TWO, 2)), seconds=POLICY.forget_seconds + 1)
    assert view.member(client(ONE)) is None


def test_connections_of_others_and_of_foreign_canaries_are_left_alone() -> None:
    names = ["someone", "everstep.agent.not=encoded", service_client_name("rescaler", "r")]
    names += [service_client_name("canary", "other"), service_client_name("canary", "mine")]
    listing = tuple(Connection("A", index, name) for index, name in enumerate(names))
    own = ServiceClient("canary", "mine")
    policy = replace(POLICY, canaries=frozenset({own}))
    assert set(fold(View(), Paged(listing), policy, 0.0).links.values()) == {own}
