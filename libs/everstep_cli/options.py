"""Flags that several commands take, and the bus that they choose."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

DEFAULT_NATS_URL: Final = "nats://127.0.0.1:4222"

NatsUrl = Annotated[
    str, typer.Option("--nats-url", envvar="EVERSTEP_NATS_URL", help="Where the bus is.")
]
Credentials = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        envvar="EVERSTEP_NATS_SEED_PATH",
        exists=True,
        dir_okay=False,
        help="File with the operator's nkey seed.",
    ),
]
Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        exists=True,
        file_okay=False,
        help="Read what `everstep drill --keep` kept in this folder, instead of a running bus.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print one CloudEvent a line.")]


@dataclass(frozen=True)
class Access:
    """Which bus, and as whom; ``store`` goes before both."""

    nats_url: str
    credentials: Path | None
    store: Path | None
