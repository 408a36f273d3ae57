"""The flags of our own sub-commands; what carries one out is imported when it is called."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from everstep_cli.drill.fault import FaultName
from everstep_cli.errors import MisuseError
from everstep_cli.options import (
    DEFAULT_NATS_URL,
    Access,
    AsJson,
    AsJsonLines,
    Credentials,
    NatsUrl,
    Store,
)

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events.")]
JobName = Annotated[str | None, typer.Argument(help="NAMESPACE/NAME; all jobs without it.")]
IncidentId = Annotated[str, typer.Argument(help="An id that `everstep incidents` lists.")]


class Rival(StrEnum):
    """What Everstep can be compared with."""

    torchrun = "torchrun"


def drill(  # noqa: PLR0913  # a command line
    *,
    fault: Annotated[
        FaultName, typer.Option(metavar="NAME", help="What is done.")
    ] = FaultName.POWER_OFF,
    against: Annotated[
        Rival | None, typer.Option(help="Do the same to this, in the same run.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Chooses members and moments; another one each time.")
    ] = None,
    nproc: Annotated[int, typer.Option(min=1, max=4, help="Workers of each member.")] = 1,
    keep: Annotated[
        Path | None, typer.Option(help="Keep logs and the bus's store in this new folder.")
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            resolve_path=True,
            help="Train this, which calls everstep.join(), instead of the drill's own model.",
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGUMENT ...", help="Of the script.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show every event.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Run the whole loop on this machine, hurt it, and show what it did.

    --fault NAME, and what is done:
    """
    from everstep_cli.drill.command import Wanted, drill_and_show

    if arguments and not script:
        raise MisuseError(f"{arguments[0]!r} is no flag of a drill; arguments are --script's")
    training = (str(script), *(arguments or ())) if script else ()
    wanted = Wanted(fault, seed, nproc, keep, bool(against), training)
    drill_and_show(wanted, verbose=verbose, as_json=as_json)


def events(
    *,
    follow: Follow = False,
    as_json: AsJsonLines = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
    store: Store = None,
) -> None:
    """Print events, oldest first; with --json one CloudEvent a line."""
    from everstep_cli.events import show_events

    show_events(Access(nats_url, credentials, store), follow=follow, as_json=as_json)


def status(
    job: JobName = None,
    *,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
    store: Store = None,
) -> None:
    """Show jobs: generation, members, phase, open incidents, what the next verdict waits for."""
    from everstep_cli.status import show_status

    show_status(Access(nats_url, credentials, store), job, as_json=as_json)


def incidents(
    *,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
    store: Store = None,
) -> None:
    """List incidents, oldest first."""
    from everstep_cli.incidents import show_incidents

    show_incidents(Access(nats_url, credentials, store), as_json=as_json)


def incident(
    incident_id: IncidentId,
    *,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
    store: Store = None,
) -> None:
    """Explain one incident: timeline, evidence, rule, what was rejected, what it waits for."""
    from everstep_cli.incidents import show_incident

    show_incident(Access(nats_url, credentials, store), incident_id, as_json=as_json)


def plan(  # noqa: PLR0913  # a command line
    *,
    step_seconds: Annotated[float, typer.Option(help="One step, without a snapshot.")],
    stall_seconds: Annotated[float, typer.Option(help="Training stands still for a snapshot.")],
    flush_seconds: Annotated[float, typer.Option(help="Until a snapshot lies on storage.")],
    members: Annotated[int, typer.Option(help="Of the job: each of them can fail.")],
    member_mtbf_days: Annotated[
        float, typer.Option(help="Mean time between failures of one member.")
    ] = 150.0,
    restart_seconds: Annotated[float, typer.Option(help="From a failure to the next step.")] = 60.0,
    most_stall_percent: Annotated[
        float, typer.Option(help="Of training time that snapshots may cost.")
    ] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Say how often to snapshot and to checkpoint, from what was measured (Young, Daly)."""
    from everstep_cli.plan import Numbers, show_plan

    numbers = Numbers(
        step_seconds=step_seconds,
        stall_seconds=stall_seconds,
        flush_seconds=flush_seconds,
        members=members,
        member_mtbf_days=member_mtbf_days,
        restart_seconds=restart_seconds,
        most_stall_percent=most_stall_percent,
    )
    show_plan(numbers, as_json=as_json)


def preflight(  # noqa: PLR0913  # a command line
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE ...", help="YAML; - is standard input.")
    ] = None,
    *,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Put right what can be; what is no file goes to stdout."),
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix changes.")] = False,
    from_cluster: Annotated[
        str | None,
        typer.Option(metavar="NAMESPACE/NAME", help="This Job too, as it is in the cluster."),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Default: as kubectl's.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option(metavar="RULE", help="Say why a rule is one, and stop.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Find in Volcano Jobs what keeps them from healing, before they run.

    Exit status 0: nothing found; 1: something is wrong; 2: something could not be read.
    """
    from everstep_cli.preflight import Wishes, explain_rule, run_preflight

    if explain is not None:
        return explain_rule(explain)
    wishes = Wishes(
        fix=fix, diff=diff, as_json=as_json, from_cluster=from_cluster, kubeconfig=kubeconfig
    )
    return run_preflight(tuple(files or ()), wishes)
