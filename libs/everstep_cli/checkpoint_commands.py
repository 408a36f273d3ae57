"""The flags of `everstep checkpoints`; what carries one out is imported when it is called."""

from pathlib import Path
from typing import Annotated, Final

import typer

from everstep_cli.options import Access, AsJson, Credentials


def _readable_root(root: str | None) -> str | None:
    from everstep_checkpoint.errors import UnusableRootError
    from everstep_checkpoint.storage import storage_at

    try:
        if root is not None:
            storage_at(root)
    except UnusableRootError as error:
        raise typer.BadParameter(str(error)) from error
    return root


Root = Annotated[
    str,
    typer.Option(
        "--root",
        envvar="EVERSTEP_CHECKPOINT_ROOT",
        callback=_readable_root,
        help="The folder, or URL of a bucket, below which all jobs' checkpoints lie.",
    ),
]
RootWithoutBus = Annotated[
    str | None,
    typer.Option(
        "--root",
        envvar="EVERSTEP_CHECKPOINT_ROOT",
        callback=_readable_root,
        help="Where no bus is given, and no indexer runs: do it in this folder or bucket.",
    ),
]
BusUrl = Annotated[
    str | None,
    typer.Option(
        "--nats-url",
        envvar="EVERSTEP_NATS_URL",
        help="Ask the checkpoint indexer on this bus to do it.",
    ),
]
Job = Annotated[
    str | None, typer.Option("--job", help="NAMESPACE/NAME or uid, where several have the name.")
]
OfJob = Annotated[str | None, typer.Option("--job", help="NAMESPACE/NAME; all jobs without it.")]
Name = Annotated[str, typer.Argument(help="As `everstep checkpoints list` has it.")]
Names = Annotated[list[str] | None, typer.Argument(help="Of checkpoints; all without one.")]

checkpoints: Final = typer.Typer(
    help="Look at checkpoints on storage, and keep, delete, take out or bring in some."
)


@checkpoints.command("list")
def list_checkpoints(*, root: Root, as_json: AsJson = False) -> None:
    """List committed checkpoints: which one a job would be restored from, and which are void."""
    from everstep_cli.checkpoints import show_checkpoints

    show_checkpoints(root, as_json=as_json)


@checkpoints.command("show")
def show_checkpoint(name: Name, *, root: Root, job: Job = None, as_json: AsJson = False) -> None:
    """Show what a checkpoint holds: its shards, their tensors, types and shapes."""
    from everstep_cli import checkpoints as shown

    shown.show_checkpoint(root, name, job, as_json=as_json)


@checkpoints.command("verify")
def verify_checkpoints(
    names: Names = None,
    *,
    root: Root,
    mark: Annotated[
        bool,
        typer.Option("--mark", help="Write what is found beside the manifests, for all to know."),
    ] = False,
) -> None:
    """Read checkpoints back, every byte, against their manifests; status 1 if one is damaged."""
    from everstep_cli.checkpoints import verify_and_show

    verify_and_show(root, tuple(names or ()), mark=mark)


@checkpoints.command("pin")
def pin_checkpoint(
    name: Name,
    *,
    job: Job = None,
    nats_url: BusUrl = None,
    credentials: Credentials = None,
    root: RootWithoutBus = None,
) -> None:
    """Keep a checkpoint whatever retention says: by the indexer, or without a bus in --root."""
    from everstep_cli.checkpoint_keeping import pin

    pin(_access(nats_url, credentials) or root, name, job, pinned=True)


@checkpoints.command("unpin")
def unpin_checkpoint(
    name: Name,
    *,
    job: Job = None,
    nats_url: BusUrl = None,
    credentials: Credentials = None,
    root: RootWithoutBus = None,
) -> None:
    """Keep it no longer than retention says: by the indexer, or without a bus in --root."""
    from everstep_cli.checkpoint_keeping import pin

    pin(_access(nats_url, credentials) or root, name, job, pinned=False)


@checkpoints.command("prune")
def prune_checkpoints(  # noqa: PLR0913  # a command line
    *,
    job: OfJob = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AsJson = False,
    nats_url: BusUrl = None,
    credentials: Credentials = None,
    root: RootWithoutBus = None,
    keep_last: Annotated[
        int, typer.Option(min=2, help="With --root: newest verified ones that stay.")
    ] = 2,
    keep_every: Annotated[
        int, typer.Option(min=0, help="With --root: steps of which multiples stay; 0: none.")
    ] = 0,
    keep_bytes: Annotated[
        int | None, typer.Option(min=0, help="With --root: older ones stay within so many bytes.")
    ] = None,
) -> None:
    """Delete what retention does not keep: by the indexer and its settings, or in --root.

    With --root rollbacks count that a manifest tells of. Never more goes than leaves two verified.
    """
    from everstep_checkpoint.retention import Retention

    from everstep_cli.checkpoint_keeping import Pruning, prune

    retention = Retention(keep_last, keep_every, keep_bytes)
    prune(_access(nats_url, credentials) or root, Pruning(job, retention, dry_run), as_json=as_json)


def _access(nats_url: str | None, credentials: Path | None) -> Access | None:
    return Access(nats_url, credentials, None) if nats_url else None
