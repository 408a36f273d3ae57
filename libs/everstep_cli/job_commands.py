"""The flags of commands that change a job; what carries one out is imported when it is called."""

from typing import Annotated, Final

import typer

from everstep_cli.options import DEFAULT_NATS_URL, Access, AsJson, Credentials, NatsUrl

Job = Annotated[str, typer.Argument(metavar="NAMESPACE/JOB", help="As `everstep status` has it.")]
MOST: Final = 100_000
"""Members of a job."""
REASON_LETTERS: Final = 1000
"""As many as every message that repeats it has room for."""


def short(reason: str) -> str:
    """A reason that has something to say, in one line, and that every message has room for."""
    said = " ".join(reason.split())
    if not 0 < len(said) <= REASON_LETTERS:
        raise typer.BadParameter(f"say it in 1 to {REASON_LETTERS} letters")
    try:
        said.encode()
    except UnicodeEncodeError:
        raise typer.BadParameter(f"{said!r} is not valid unicode") from None
    return said


Reason = Annotated[
    str, typer.Option("--reason", callback=short, help="Why; kept in the job's record.")
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="End as soon as it is ruled.")]
Within = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for it.")
]


def suspend(  # noqa: PLR0913  # a command line
    job: Job,
    *,
    reason: Reason,
    no_wait: NoWait = False,
    timeout: Within = 60.0,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
) -> None:
    """Let a job take no step, and keep its processes and their memory, until it is resumed.

    Exit status 1: it was refused, or not every member holds in time.
    """
    from everstep_cli.suspending import Wish, suspend_and_show

    wish = Wish(job, reason, None if no_wait else timeout, as_json)
    suspend_and_show(Access(nats_url, credentials, None), wish)


def resume(  # noqa: PLR0913  # a command line
    job: Job,
    *,
    reason: Reason,
    no_wait: NoWait = False,
    timeout: Within = 60.0,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
) -> None:
    """Let a suspended job go on where it stands.

    Exit status 1: it was refused, or takes no step in time.
    """
    from everstep_cli.suspending import Wish, resume_and_show

    wish = Wish(job, reason, None if no_wait else timeout, as_json)
    resume_and_show(Access(nats_url, credentials, None), wish)


def rescale(  # noqa: PLR0913  # a command line
    job: Job,
    replicas: Annotated[int, typer.Argument(min=1, max=MOST, help="Members that it shall have.")],
    *,
    min_available: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, help="Fewest that it may run with. Default: as now, or REPLICAS."
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option(callback=short, help="Why; kept in the job's record.")
    ] = "asked for",
    no_wait: NoWait = False,
    timeout: Within = 120.0,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
) -> None:
    """Give a job fewer members, or room for more, without losing a step or a healthy member.

    Those on the highest indices leave first, since their pods will go; then the Job changes.

    Exit status 1: it was refused, or is not done in time.
    """
    from everstep_cli.rescaling import Wish, rescale_and_show

    within = None if no_wait else timeout
    wish = Wish(job, replicas, min_available, reason, within, as_json)
    rescale_and_show(Access(nats_url, credentials, None), wish)
