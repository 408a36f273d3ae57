"""One shard file: written whole or not at all, hashed on the way, and read back to compare."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import xxhash
from everstep_contract.manifest import ShardFile

from everstep_checkpoint.errors import DamagedError, StoppedError
from everstep_checkpoint.media import Key, Medium

CHUNK_BYTES: Final = 8 << 20
"""Of a read or write: large enough for a disk's rate, small enough to hash while it is cached."""


def write_shard(place: Medium, key: Key, chunks: Iterable[memoryview | bytes]) -> ShardFile:
    """Write a shard so that it survives a crash, hashing on the way; whole, it gets its name.

    A shard of that name is replaced: the name says who writes it, and of one snapshot a writer
    writes the same bytes.

    Args:
        place: Where.
        key: Its folder, made if need be, and its name.
        chunks: Its bytes. What they raise ends the writing, and nothing of it is left.

    Raises:
        StorageFullError: There is no room.
        OSError: It cannot be written.
    """
    digest, total_bytes = xxhash.xxh3_128(), 0

    def hashed() -> Iterator[memoryview | bytes]:
        nonlocal total_bytes
        for chunk in chunks:
            digest.update(chunk)
            total_bytes += len(chunk)
            yield chunk

    place.write(key, hashed())
    return ShardFile(file=key.name, total_bytes=total_bytes, xxh3_128=digest.hexdigest())


def verify_shard(
    place: Medium, key: Key, shard: ShardFile, *, stopped: Callable[[], bool] = lambda: False
) -> None:
    """Read a shard back from the disk, and leave the page cache to the training.

    Args:
        place: Where.
        key: Its folder, and its name.
        shard: What was written.
        stopped: Asked before each chunk; true ends the reading.

    Raises:
        DamagedError: It is missing, cannot be read, or is not what was written.
        StoppedError: ``stopped`` said so; nothing is known.
    """
    where, digest, total_bytes = place.where(key), xxhash.xxh3_128(), 0
    buffer = memoryview(bytearray(CHUNK_BYTES))
    try:
        with place.open(key, past_cache=True) as file:
            while count := file.readinto(buffer):
                digest.update(buffer[:count])
                total_bytes += count
                if stopped():
                    raise StoppedError(where)
    except OSError as error:
        raise DamagedError(where, error.strerror or repr(error)) from error
    if total_bytes != shard.total_bytes:
        raise DamagedError(where, f"{total_bytes} bytes, {shard.total_bytes} were written")
    if digest.hexdigest() != shard.xxh3_128:
        raise DamagedError(where, f"its hash is {digest.hexdigest()}, not {shard.xxh3_128}")
