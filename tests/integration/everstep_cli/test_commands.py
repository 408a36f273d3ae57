"""The operator's commands against a real nats-server, with the operator's own credentials."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from everstep_bus.nats import connect
from everstep_bus.nats.config import ServerSettings
from everstep_bus.nats.credentials import role_seed_path
from everstep_bus.nats.server import NatsServer
from everstep_cli.drill.faults import FAULTS
from everstep_contract.clients import service_client_name
from everstep_contract.examples import EXAMPLES
from everstep_contract.facts.incident import IncidentEnded
from everstep_contract.facts.job import VerdictReached
from everstep_contract.layout import INCIDENTS, JOBS
from everstep_contract.names import encode_name
from everstep_contract.queries import JobStatusReply

COMMAND_SECONDS = 30
ENDED = cast("IncidentEnded", EXAMPLES[IncidentEnded.TYPE])
RULED = cast("VerdictReached", EXAMPLES[VerdictReached.TYPE])
RECORD = cast("JobStatusReply", EXAMPLES[JobStatusReply.TYPE]).record


@dataclass(frozen=True)
class Site:
    """A server with one job that had one incident, and who is asked about it."""

    url: str
    seed: Path

    def answer(self, *arguments: str) -> str:
        """What `everstep` prints for the operator."""
        done = self.run(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `everstep` as the operator."""
        access = ("--nats-url", self.url, "--credentials", str(self.seed))
        return everstep(*arguments, *access)


def everstep(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "everstep_cli", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
    )


async def fill(url: str, credentials: Path) -> None:
    """Write what the adjudicator would have written."""
    name = service_client_name("adjudicator", "test")
    seed = role_seed_path(credentials, "adjudicator")
    assert RECORD is not None
    async with connect((url,), name, seed_path=seed) as bus:
        await bus.kv(JOBS).put(RECORD.job.token, RECORD, expected=0)
        incident = ENDED.incident
        await bus.kv(INCIDENTS).put(encode_name(incident.id), incident, expected=0)
        await bus.publish(RULED)
        await bus.publish(ENDED)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    credentials = folder / "credentials"
    server = NatsServer(ServerSettings(folder / "nats", credentials))
    server.start()
    try:
        asyncio.run(fill(server.url, credentials))
        yield Site(server.url, role_seed_path(credentials, "operator"))
    finally:
        server.stop()


def test_ec69_one_command_explains_an_incident(site: Site) -> None:
    said = json.loads(site.answer("incident", ENDED.incident.id, "--json"))
    assert len(said["timeline"]) == 7
    assert sum(stage["seconds"] for stage in said["timeline"]) == pytest.approx(
        said["total_seconds"]
    )
    assert said["rulings"][0]["rule"] == RULED.reason
    assert [evidence["kind"] for evidence in said["incident"]["evidence"]] == [
        "connection_stale",
        "probe_silent",
    ]


def test_an_incident_is_shown_to_people(site: Site) -> None:
    shown = site.answer("incident", ENDED.incident.id)
    assert "first new step" in shown
    assert RULED.reason in shown


def test_incidents_are_listed(site: Site) -> None:
    assert [one["id"] for one in json.loads(site.answer("incidents", "--json"))] == [
        ENDED.incident.id
    ]


def test_events_come_oldest_first_as_cloud_events(site: Site) -> None:
    lines = [json.loads(line) for line in site.answer("events", "--json").splitlines()]
    assert [line["type"] for line in lines] == [VerdictReached.TYPE, IncidentEnded.TYPE]
    assert lines[0]["id"] == RULED.dedup_id


def test_status_says_that_nobody_answers_when_no_adjudicator_runs(site: Site) -> None:
    (job,) = json.loads(site.answer("status", "--json"))
    assert job["record"]["generation"] == 8
    assert "no adjudicator answers" in job["waiting_for"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("incident", "no-such-thing"), 1),
        (("status", "training/no-such-job"), 1),
        (("suspend", "training/no-such-job", "--reason", "rack a"), 1),
        (("suspend", "training/llama", "--reason", " "), 2),
        (("resume", "training/llama"), 2),
        (("quarantine", "node-1"), 2),
        (("drain", "node-1", "--timeout", "0"), 2),
        (("events", "--no-such-flag"), 2),
    ],
)
def test_a_mistake_is_one_line_and_a_status(
    site: Site, arguments: tuple[str, ...], status: int
) -> None:
    done = site.run(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("everstep: ")
    assert done.stderr.count("\n") == 1


def test_no_node_is_listed_where_none_is_quarantined(site: Site) -> None:
    assert site.answer("nodes") == "no node is quarantined\n"


def test_who_names_no_job_is_told_which_there_are(site: Site) -> None:
    assert RECORD is not None
    done = site.run("resume", "training/none", "--reason", "rack a is back")
    assert (
        done.stderr
        == f"everstep: no job 'training/none', as NAMESPACE/JOB; there are: {RECORD.job}\n"
    )


def test_a_command_that_no_adjudicator_hears_says_so(site: Site) -> None:
    assert RECORD is not None
    done = site.run("suspend", str(RECORD.job), "--reason", "rack a")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("everstep: no adjudicator answers")


@pytest.mark.parametrize(
    "arguments",
    [
        ("drill", "--fault", "no-such-fault"),
        ("drill", "--fault", "bus", "--against", "torchrun"),
        ("drill", "--nproc", "0"),
        ("drill", "--keep", "/"),
        ("drill", "--keep", "/proc/no/folder"),
        ("events", "--nats-url", "http://127.0.0.1:1"),
        ("no-such-command",),
        ("events", "--credentials", "/no/such/file"),
        ("events", "--follow", "--store", "/"),
    ],
)
def test_misuse_is_one_line_and_status_two(arguments: tuple[str, ...]) -> None:
    done = everstep(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert not any(word in done.stderr for word in ("Traceback", "Value error"))


def test_an_incident_says_who_knows_what(site: Site) -> None:
    rows = site.answer("incident", ENDED.incident.id).splitlines()
    assert any("connection_stale" in row and "node_watcher" in row for row in rows)


def test_help_comes_without_being_asked_for() -> None:
    done = everstep()
    assert (done.returncode, done.stderr) == (0, "")
    assert "incidents" in done.stdout


def test_the_version_is_said() -> None:
    assert everstep("--version").stdout.startswith("everstep ")


def test_every_fault_is_explained_on_a_line_of_its_own() -> None:
    lines = [" ".join(line.split()) for line in everstep("drill", "--help").stdout.splitlines()]
    assert {f"{name} {fault.summary}" for name, fault in FAULTS.items()} <= set(lines)


def test_help_loads_neither_the_bus_nor_the_contract() -> None:
    looks = "import sys; from everstep_cli.app import build; build('status'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", looks], capture_output=True, text=True, check=True)
    assert not {"nats", "everstep_contract.base", "aiohttp"} & set(done.stdout.split())


def test_a_server_that_is_not_there_is_one_line() -> None:
    done = everstep("events", "--nats-url", "nats://127.0.0.1:1")
    assert (done.returncode, done.stderr) == (
        1,
        "everstep: no NATS server answers at nats://127.0.0.1:1; --nats-url names another,"
        " --store reads what a drill kept\n",
    )


def test_a_folder_that_is_no_drills_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    done = everstep("incidents", "--store", str(tmp_path))
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert done.stderr == f"everstep: --store {tmp_path}: no drill was kept there\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_changes_no_status(closed: str) -> None:
    command = ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-m", "everstep_cli", "events"]
    done = subprocess.run(
        [*command, "--nats-url", "http://127.0.0.1:1"],
        capture_output=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert done.returncode == 2


def test_a_password_is_not_repeated() -> None:
    done = everstep("events", "--nats-url", "nats://bob:hunter2@127.0.0.1:1")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "hunter2" not in done.stderr


def test_a_reader_that_has_enough_is_no_failure_to_talk_about(site: Site) -> None:
    access = ("--nats-url", site.url, "--credentials", str(site.seed))
    command = [sys.executable, "-m", "everstep_cli", "events", *access]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as shown:
        assert shown.stdout is not None
        shown.stdout.close()
        assert shown.stderr is not None
        said = shown.stderr.read()
    assert (shown.returncode, said) == (1, b"")


async def test_what_a_drill_kept_is_read_without_a_running_bus(tmp_path: Path) -> None:
    server = NatsServer(ServerSettings(tmp_path / "nats", tmp_path / "credentials"))
    server.start()
    await fill(server.url, tmp_path / "credentials")
    server.stop()
    done = await asyncio.to_thread(everstep, "incidents", "--json", "--store", str(tmp_path))
    assert [one["id"] for one in json.loads(done.stdout)] == [ENDED.incident.id]
    done = await asyncio.to_thread(everstep, "status", "--store", str(tmp_path))
    assert "an archive" in done.stdout
    assert "adjudicator" not in done.stdout
