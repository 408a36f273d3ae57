"""What is read from the environment, and what is set there."""

import os

import pytest
from everstep_contract.identity import Endpoint, JobKey
from everstep_trainer.library.environment import (
    foreign_place,
    forget_agent_store,
    read_launch,
    set_place,
)
from everstep_trainer.library.errors import LaunchError
from everstep_trainer.link import PAGE_FD_VARIABLE, SOCKET_FD_VARIABLE, Assignment

ORDER = Assignment(
    job=JobKey(namespace="default", name="job"),
    job_uid="uid",
    generation=4,
    verdict_id="v4",
    rank=2,
    world_size=3,
    local_rank=0,
    local_world_size=1,
    member_index=1,
    members=("a", "a", "b"),
    store=Endpoint(host="10.0.0.7", port=4000),
    store_prefix="g4-v4",
    form_seconds=5,
    construct_seconds=2,
)


def test_a_process_that_nobody_started_as_a_worker_is_alone() -> None:
    assert read_launch({"PATH": "/bin", "WORLD_SIZE": "1"}) is None


def test_a_worker_of_another_launcher_is_refused() -> None:
    with pytest.raises(LaunchError, match="WORLD_SIZE is 8, but this process"):
        read_launch({"WORLD_SIZE": "8", "RANK": "3"})


@pytest.mark.parametrize("page", [None, "x", "999999"])
def test_a_damaged_launch_is_told(page: str | None) -> None:
    read_end, write_end = os.pipe()
    environ = {SOCKET_FD_VARIABLE: str(read_end)}
    if page is not None:
        environ[PAGE_FD_VARIABLE] = page
    with pytest.raises(LaunchError, match="not what `everstep run` hands to a worker"):
        read_launch(environ)
    os.close(read_end)
    os.close(write_end)


def test_ec41_the_generations_place_replaces_the_schedulers() -> None:
    environ = {"WORLD_SIZE": "9", "RANK": "8", "HOME": "/root"}
    assert foreign_place(environ, ORDER) == {"WORLD_SIZE": "9", "RANK": "8"}
    set_place(environ, ORDER)
    assert (environ["RANK"], environ["WORLD_SIZE"], environ["GROUP_WORLD_SIZE"]) == ("2", "3", "2")
    assert (environ["MASTER_ADDR"], environ["MASTER_PORT"]) == ("10.0.0.7", "4000")
    assert foreign_place(environ, ORDER) == {}


def test_ec41_volcanos_host_lists_are_told_apart() -> None:
    assert foreign_place({"VC_WORKER_HOSTS": "a,b,c"}, ORDER) == {"VC_WORKER_HOSTS": "a,b,c"}


def test_ec75_the_launchers_word_about_stores_is_dropped() -> None:
    environ = {"TORCHELASTIC_USE_AGENT_STORE": "True"}
    forget_agent_store(environ)
    assert environ == {}
