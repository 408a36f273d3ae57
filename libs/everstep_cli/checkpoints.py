"""`everstep checkpoints`: what lies on storage, by its manifests."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import typer
from everstep_checkpoint.errors import DamagedError
from everstep_checkpoint.keeping import lineages, of_lineage
from everstep_checkpoint.layout import read_layout
from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import Listed, standings
from everstep_contract.manifest import Manifest, Standing
from rich.table import Column, Table

from everstep_cli.errors import CommandError
from everstep_cli.terminal import output, progress

GIB = 1 << 30


def show_checkpoints(root: Path, *, as_json: bool) -> None:
    """Print all checkpoints, job by job, best first."""
    found, damaged = Storage(root).listed()
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
    for error in damaged:
        progress().print(f"no checkpoint: {error}", style="red", markup=False)


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


def show_checkpoint(root: Path, name: str, *, as_json: bool) -> None:
    """Print what a checkpoint holds, by the headers of its shards.

    Raises:
        CommandError: There is no checkpoint of this name, or one of its shards is none.
    """
    storage = Storage(root)
    one = _named(storage, [name])[-1]
    try:
        layouts = {
            shard.file: read_layout(storage.folder(one) / shard.file) for shard in one.shards
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


def _named(storage: Storage, names: Sequence[str]) -> list[Manifest]:
    listed, _ = storage.listed()
    found = [one.manifest for one in listed]
    missing = set(names) - {one.checkpoint for one in found}
    if missing:
        raise CommandError(f"no checkpoint {min(missing)!r} below {storage.root}")
    return [one for one in found if one.checkpoint in names]


def verify_and_show(root: Path, names: tuple[str, ...]) -> None:
    """Read these checkpoints, or all, back and say which are whole.

    Raises:
        CommandError: There is no checkpoint of one of these names.
        Exit: One of them is damaged.
    """
    storage = Storage(root)
    if names:
        chosen, wrong = _named(storage, names), list[DamagedError]()
    else:
        listed, wrong = storage.listed()
        chosen = [one.manifest for one in listed]
    for one in chosen:
        try:
            storage.verify(one)
        except DamagedError as error:
            wrong.append(error)
        else:
            output().print(f"{one.checkpoint}: whole, {len(one.shards)} shards", markup=False)
    for damage in wrong:
        output().print(f"DAMAGED {damage}", style="red", markup=False, soft_wrap=True)
    if wrong:
        raise typer.Exit(1)
