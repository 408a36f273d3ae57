"""`everstep checkpoints`: what lies on storage, by its manifests."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import typer
from everstep_checkpoint.errors import DamagedError
from everstep_checkpoint.layout import read_layout
from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import eligible
from everstep_contract.manifest import Manifest
from rich.table import Column, Table

from everstep_cli.errors import CommandError
from everstep_cli.terminal import output, progress

GIB = 1 << 30


def show_checkpoints(root: Path, *, as_json: bool) -> None:
    """Print all checkpoints, job by job, best first."""
    found, damaged = Storage(root).manifests()
    rows = standings(found)
    if as_json:
        listed = [{"standing": word, **one.model_dump(mode="json")} for one, word in rows]
        sys.stdout.write(json.dumps(listed) + "\n")
    else:
        output().print(checkpoint_table(rows))
    for error in damaged:
        progress().print(f"no checkpoint: {error}", style="red", markup=False)


def standings(manifests: Sequence[Manifest]) -> list[tuple[Manifest, str]]:
    """Each checkpoint with what it is good for: "newest", "good" or "void"; best first."""

    def whose(one: Manifest) -> tuple[str, str]:
        return str(one.job), one.lineage

    rows: list[tuple[Manifest, str]] = []
    for (_, lineage), group in groupby(sorted(manifests, key=whose), key=whose):
        own = list(group)
        good = eligible(own, lineage)
        rows += [(one, "good" if at else "newest") for at, one in enumerate(good)]
        rows += [(one, "void") for one in own if one not in good]
    return rows


def checkpoint_table(rows: Sequence[tuple[Manifest, str]]) -> Table:
    """The list for people."""
    right = [Column(name, justify="right") for name in ("generation", "step", "GiB")]
    table = Table("job", "checkpoint", *right, "committed", "standing")
    for one, word in rows:
        when = one.committed_at.strftime("%Y-%m-%d %H:%M:%S")
        size = f"{one.total_bytes / GIB:.2f}"
        numbers = (str(one.generation), str(one.step), size)
        table.add_row(str(one.job), one.checkpoint, *numbers, when, word)
    return table


def show_checkpoint(root: Path, name: str, *, as_json: bool) -> None:
    """Print what a checkpoint holds, by the headers of its shards.

    Raises:
        CommandError: There is no checkpoint of this name, or one of its shards is none.
    """
    storage = Storage(root)
    (one,) = _named(storage, [name])
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
    found, _ = storage.manifests()
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
        chosen, wrong = storage.manifests()
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
