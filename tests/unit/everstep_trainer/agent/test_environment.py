"""The environment that workers see."""

import pytest
from everstep_trainer.agent.environment import interface_of, worker_environment
from everstep_trainer.agent.meaning import assignment
from support.agent_core import Core, make_order


def test_a_worker_of_the_library_gets_what_never_changes_and_nothing_stale() -> None:
    me = Core(nproc=2).state.me
    changes = worker_environment(me, 1, "llama", None)
    assert changes["LOCAL_RANK"] == "1"
    assert changes["LOCAL_WORLD_SIZE"] == "2"
    assert changes["TORCHELASTIC_RUN_ID"] == "llama"
    for stale in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        assert changes[stale] is None


def test_ec75_a_launchers_claim_to_host_the_store_is_not_passed_on() -> None:
    changes = worker_environment(Core().state.me, 0, "llama", None)
    assert changes["TORCHELASTIC_USE_AGENT_STORE"] is None


def test_a_worker_never_gets_the_way_to_the_bus() -> None:
    changes = worker_environment(Core().state.me, 0, "llama", None)
    assert changes["EVERSTEP_NATS_SEED_PATH"] is None
    assert changes["EVERSTEP_NATS_URL"] is None


def test_gloo_listens_where_peers_reach_the_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") is None
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    assert "GLOO_SOCKET_IFNAME" not in worker_environment(Core().state.me, 0, "llama", None)


def test_ec41_an_unmodified_script_gets_torchruns_environment_from_the_order_alone() -> None:
    core = Core(index=1, nproc=2, rung="restart")
    place = assignment(make_order(3, (0, 1), nproc=2), core.state.me, 1)
    changes = worker_environment(core.state.me, 1, "llama", place)
    assert (changes["RANK"], changes["WORLD_SIZE"]) == ("3", "4")
    assert (changes["GROUP_RANK"], changes["GROUP_WORLD_SIZE"]) == ("1", "2")
    assert (changes["MASTER_ADDR"], changes["MASTER_PORT"]) == ("10.0.0.1", "7001")
    assert changes["TORCHELASTIC_RESTART_COUNT"] == "3"
