"""The flusher: a child of the agent that copies snapshots from memory to storage, one at a time.

It knows no torch, holds one buffer, and reads memory that the agent hands to it, so neither a
worker's death nor its own costs more than the file that was being written. It gives way to training
on the CPU and the disk, and ends with the agent.
"""

import json
import mmap
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

import psutil
from everstep_checkpoint.errors import CheckpointError, OverwrittenError, StorageFullError
from everstep_checkpoint.media import Key, medium
from everstep_checkpoint.shards import CHUNK_BYTES, write_shard
from everstep_checkpoint.slots import SlotPair, Word
from everstep_contract.facts.checkpoint import SaveTrouble

from everstep_trainer.agent.process import die_with, name_process

HOLD_SECONDS: Final = 30.0
"""How long a slot is kept from its writer after the last sign of progress. A flusher that hangs
longer costs its save, and training goes on taking snapshots."""
PROGRESS_SECONDS: Final = 1.0
MAX_PACKET_BYTES: Final = 16 * 1024
NICENESS: Final = 10
_LAST_OF_CLASS: Final = 7
REST_SHARE: Final = 1 / 3
"""Of the time that a chunk took, before the next one, in a save that nobody waits for: without
rests a Python loop beside it was slower by a tenth, though it had a core to itself."""


@dataclass(frozen=True)
class Request:
    """Write what a slot holds, if it still holds what ``word`` says, as this file.

    The descriptor of the slot's memory comes with it. ``gentle``: with rests.
    """

    slot: int
    word: Word
    root: str
    key: str
    gentle: bool = False


@dataclass(frozen=True)
class Written:
    """It is whole, synced, and has its name."""

    total_bytes: int
    xxh3_128: str
    seconds: float


@dataclass(frozen=True)
class Unwritten:
    """Nothing of it is left."""

    trouble: SaveTrouble
    detail: str


@dataclass(frozen=True)
class Progress:
    """It is being written."""


Packet = Request | Written | Unwritten | Progress
_KINDS: Final[dict[str, type[Packet]]] = {
    kind.__name__: kind for kind in (Request, Written, Unwritten, Progress)
}


def encode(packet: Packet) -> bytes:
    """One packet's bytes."""
    return json.dumps({"kind": type(packet).__name__, **asdict(packet)}).encode()


def decode(data: bytes) -> Packet:
    """The packet that `encode` made; both ends are one program, so nothing else comes."""
    fields: dict[str, Any] = json.loads(data)
    if "word" in fields:
        fields["word"] = Word(**fields["word"])
    return _KINDS[fields.pop("kind")](**fields)


class _Flusher:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._buffer = memoryview(mmap.mmap(-1, CHUNK_BYTES))  # at a page, as O_DIRECT wants it
        self._told_at = 0.0

    def serve(self) -> None:
        """Until the agent closes its end."""
        while True:
            data, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET_BYTES, 1)
            if not data:
                return
            request = decode(data)
            assert isinstance(request, Request)
            pair = SlotPair(descriptors[0])
            result = self._write(request, pair)
            pair.close()
            self._control.send(encode(result))

    def _write(self, request: Request, pair: SlotPair) -> Written | Unwritten:
        began, pieces = time.monotonic(), self._pieces(request, pair)
        try:
            shard = write_shard(medium(request.root), Key(request.key), pieces)
        except StorageFullError as error:
            return Unwritten("full", str(error))
        except OverwrittenError as error:
            return Unwritten("overwritten", str(error))
        except (CheckpointError, OSError) as error:
            return Unwritten("unwritable", str(error))
        return Written(shard.total_bytes, shard.xxh3_128, time.monotonic() - began)

    def _pieces(self, request: Request, pair: SlotPair) -> Iterator[memoryview]:
        began = time.monotonic()
        for piece in pair.read(request.slot, request.word, self._buffer):
            yield piece
            if request.gentle:
                time.sleep((time.monotonic() - began) * REST_SHARE)
                began = time.monotonic()
            if time.monotonic() >= self._told_at + PROGRESS_SECONDS:
                self._told_at = time.monotonic()
                until_ns = time.monotonic_ns() + int(HOLD_SECONDS * 1e9)
                pair.hold(request.slot, until_ns=until_ns)
                self._control.send(encode(Progress()))


def _give_way() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    with suppress(psutil.AccessDenied, OSError):
        psutil.Process().ionice(psutil.IOPRIO_CLASS_BE, _LAST_OF_CLASS)


def main(arguments: list[str]) -> int:
    """Be the flusher of the agent that is our parent."""
    parent, control = map(int, arguments)
    die_with(parent)
    name_process("everstep-flush")
    for end in (signal.SIGTERM, signal.SIGINT):  # of the whole group: the agent says when we end
        signal.signal(end, signal.SIG_IGN)
    _give_way()
    with suppress(ConnectionError), socket.socket(fileno=control) as stream:
        _Flusher(stream).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
