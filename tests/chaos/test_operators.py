"""Operators' commands on a job of real agents, ruled on and ordered by the services' processes."""

import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from everstep_contract.facts.job import VerdictReached
from support.agent_fleet import JOB, Fleet
from support.agent_home import FAKE_WORKER
from support.operators import Operator
from support.polling import eventually
from support.service_processes import service_process, settings_of

WHY = ("--reason", "maintenance of rack a")


@dataclass
class Site:
    """Three agents whose job runs, and an operator."""

    fleet: Fleet
    operator: Operator

    def steps(self) -> list[int]:
        """Completed steps of each member's worker, by its own notes."""
        return [self.fleet.steps(index) for index in range(len(self.fleet.agents))]

    def pids(self) -> list[list[int]]:
        return [self.fleet.pids(index) for index in range(len(self.fleet.agents))]


@pytest.fixture
async def site(agents: Fleet, tmp_path: Path) -> AsyncIterator[Site]:
    url, credentials = agents.server.url, agents.credentials
    async with (
        service_process(
            "adjudicator", settings_of("adjudicator", url, credentials), tmp_path / "adjudicator"
        ) as ruling,
        service_process(
            "rescaler", settings_of("rescaler", url, credentials), tmp_path / "rescaler"
        ) as ordering,
        service_process(
            "node_watcher", settings_of("node_watcher", url, credentials), tmp_path / "watcher"
        ) as watching,
    ):
        for service in (ruling, ordering, watching):
            await eventually(service.is_ready)
        for index in range(3):
            home = str(tmp_path / f"trainer-{index}")
            await agents.start_script("--nnodes", "2:3", str(FAKE_WORKER), "steps", home)
        found = Site(agents, Operator(url, credentials, agents.bus, JOB))
        await found.operator.resumed(3)
        yield found


async def test_a_suspended_job_keeps_its_processes_and_goes_on_where_it_stood(site: Site) -> None:
    before, operator = site.pids(), site.operator
    said = json.loads(await operator.said("suspend", str(JOB), *WHY, "--json"))
    assert (said["state"], said["members"], said["parked"]) == ("hold", 3, 3)
    held = site.steps()
    assert said["step"] - max(held) in (0, 1)  # the note of a step comes after it
    shown = await operator.said("status", JOB.name)
    assert "operator: maintenance of rack a" in shown
    assert site.steps() == held  # a command later, which takes longer than a hundred steps
    again = await operator.complaint("suspend", str(JOB), *WHY)
    assert again == "everstep: refused: the job is suspended already"
    line = await operator.said("resume", str(JOB), *WHY)
    assert line.startswith("goes on with step ")
    assert line.endswith(f"generation {said['generation'] + 1}; 3 members\n")
    await eventually(lambda: min(site.steps()) > max(held))
    assert site.pids() == before
    record = await operator.record()
    assert (record.failures_without_progress, record.incident, record.excluded) == (0, None, ())
    refused = await operator.complaint("resume", str(JOB), *WHY)
    assert refused == "everstep: refused: the job is not suspended"


async def test_a_suspended_job_that_loses_a_member_holds_on_and_resumes_without_it(
    site: Site,
) -> None:
    operator = site.operator
    line = await operator.said("suspend", JOB.name, *WHY)
    assert line.startswith("suspended at step ")
    assert line.endswith("3 members hold their state in memory\n")
    held = site.steps()
    site.fleet.agents[1].send_signal(signal.SIGKILL)

    async def left_out() -> bool:
        record = await operator.record()
        return len(record.seats) == 2 and record.verdict.kind == "suspend"

    await eventually(left_out)
    await eventually(lambda: [site.fleet.phases()[i][0] for i in (0, 2)] == ["holding"] * 2)
    assert site.steps() == held
    assert (await operator.record()).failures_without_progress == 0
    line = await operator.said("resume", JOB.name, *WHY)
    assert line.endswith("; 2 members\n")
    await eventually(lambda: site.steps()[0] > held[0] and site.steps()[2] > held[2])
    for index in (0, 2):
        os.kill(site.fleet.pids(index)[0], 0)
    kinds = [fact.verdict.kind for fact in site.fleet.events(VerdictReached)]
    assert kinds == ["form", "suspend", "suspend", "form"]


async def test_without_a_cluster_a_rescale_is_refused_with_what_to_do_by_hand(site: Site) -> None:
    line = await site.operator.complaint("rescale", str(JOB), "2")
    assert "refused: the rescaler has no cluster" in line
    assert "kubectl -n team.a patch jobs.batch.volcano.sh llama.ft --type=json -p '[" in line
    assert (await site.operator.record()).generation == 1
    assert line.removeprefix("everstep: ").strip() in await site.operator.said("status", JOB.name)
