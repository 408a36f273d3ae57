"""`everstep checkpoints`: what lies on storage, by its manifests."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import typer
from everstep_checkpoint.errors import DamagedError
from everstep_checkpoint.keeping import lineages, named, of_lineage, read_back
from everstep_checkpoint.layout import read_layout
from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import Listed, standings
from everstep_contract.manifest import Standing
from rich.table import Column, Table

from everstep_cli.errors import CommandError
from everstep_cli.terminal import output, progress

GIB = 1 << 30


def show_checkpoints(root: str, *, as_json: bool) -> None:
    """Print all checkpoints, job by job, best first."""
    storage = Storage(root)
    found, damaged = storage.listed()
    rows = [row for lineage in lineages(found) for row in standings(of_lineage(found, lineage))]
    if as_json:
        listed = [
            {
                "standing": word,
                **one.manifest.model_dump(mode="json"),
                **one.marks.model_dump(mode="json"),
            }
            for one, word in rows
        ]
        sys.stdout.write(json.dumps(listed) + "\n")
    else:
        output().print(checkpoint_table(rows))
    troubles = [f"no checkpoint: {error}" for error in damaged]
    troubles += [
        f"no checkpoint: {storage.where(folder)}: not committed"
        for folder in sorted(storage.leftovers())
    ]
    troubles += [f"damaged: {one.marks.damage}" for one in found if one.marks.damage]
    for trouble in troubles:
        progress().print(trouble, style="red", markup=False, soft_wrap=True)


def checkpoint_table(rows: Sequence[tuple[Listed, Standing]]) -> Table:
    """The list for people."""
    right = [Column(name, justify="right") for name in ("generation", "step", "GiB")]
    table = Table("job", "checkpoint", *right, "committed", "verified", "standing")
    for one, word in rows:
        manifest, marks = one.manifest, one.marks
        size = f"{manifest.total_bytes / GIB:.2f}"
        numbers = (str(manifest.generation), str(manifest.step), size)
        times = (_moment(manifest.committed_at), _moment(marks.verified_at))
        pinned = f"{word}, pinned" if marks.pinned else word
        table.add_row(str(manifest.job), manifest.checkpoint, *numbers, *times, pinned)
    return table


def _moment(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S") if at else "not yet"


def show_checkpoint(root: str, name: str, job: str | None, *, as_json: bool) -> None:
    """Print what a checkpoint holds, by the headers of its shards.

    Raises:
        NoSuchCheckpointError: There is no checkpoint of this name.
        CommandError: One of its shards is none.
    """
    storage = Storage(root)
    one = named(storage.listed()[0], name, job).manifest
    try:
        layouts = {
            shard.file: read_layout(storage.medium, storage.folder(one) / shard.file)
            for shard in one.shards
        }
    except (DamagedError, OSError) as error:
        raise CommandError(f"damaged: {error}") from None
    if as_json:
        pieces = {
            file: [asdict(piece) for piece in layout.pieces] for file, layout in layouts.items()
        }
        document = {**one.model_dump(mode="json"), "pieces": pieces}
        sys.stdout.write(json.dumps(document) + "\n")
        return
    table = Table("shard", "tensor", "type", "shape", "from")
    for file, layout in layouts.items():
        for piece in layout.pieces:
            table.add_row(
                file, piece.name, piece.dtype, str(list(piece.shape)), str(list(piece.offsets))
            )
    output().print(f"{one.checkpoint} of {one.job}: step {one.step}, generation {one.generation}")
    output().print(table)


def verify_and_show(root: str, names: tuple[str, ...], *, mark: bool) -> None:
    """Read these checkpoints, or all, back and say which are whole.

    Args:
        root: Below which they lie.
        names: Of checkpoints; all without one.
        mark: Write what is found beside their manifests.

    Raises:
        CommandError: There is no checkpoint of one of these names.
        Exit: One of them is damaged.
    """
    storage = Storage(root)
    listed, unreadable = storage.listed()
    missing = set(names) - {one.manifest.checkpoint for one in listed}
    if missing:
        raise CommandError(f"no checkpoint {min(missing)!r} below {root}")
    wrong = [] if names else [str(error) for error in unreadable]
    for one in listed:
        if names and one.manifest.checkpoint not in names:
            continue
        changes = read_back(storage, one.manifest, datetime.now(UTC))
        if mark:
            storage.mark(one.manifest, **changes)
        if changes["damage"]:
            wrong.append(str(changes["damage"]))
        else:
            whole = f"{one.manifest.checkpoint}: whole, {len(one.manifest.shards)} shards"
            output().print(whole, markup=False)
    for damage in wrong:
        output().print(f"DAMAGED {damage}", style="red", markup=False, soft_wrap=True)
    if wrong:
        raise typer.Exit(1)
