"""A bucket of the twin."""

from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from everstep_contract.base import Model
from everstep_contract.layout import Bucket, bucket_stream, bucket_subject

from everstep_bus.errors import RevisionMismatchError, UndecodableMessageError
from everstep_bus.interface import Entry, Proven, unheard
from everstep_bus.memory.client import MemoryClient
from everstep_bus.stored import TOMBSTONE, Stored, entry_of
from everstep_bus.timing import WATCH_CHECK_SECONDS

M = TypeVar("M", bound=Model)


class MemoryKeyValue(Generic[M]):
    """`KeyValue` over a stream of the twin that keeps the newest message of each subject."""

    def __init__(self, client: MemoryClient, bucket: Bucket[M]) -> None:
        self._client = client
        self._bucket = bucket
        self._spec = bucket_stream(bucket)
        self._prefix = bucket_subject(bucket, "")

    async def get(self, key: str) -> Entry[M] | None:
        stored = await self._last(key)
        entry = entry_of(self._bucket, stored) if stored else None
        return entry if entry and entry.value is not None else None

    async def put(self, key: str, value: M, *, expected: int) -> int:
        if expected == 0:
            expected = await self._tombstone_revision(key)
        return await self._write(key, {}, value.model_dump_json().encode(), expected)

    async def delete(self, key: str, *, expected: int) -> None:
        await self._write(key, TOMBSTONE, b"", expected)

    async def entries(self) -> tuple[Entry[M], ...]:
        stream = await self._client.reach(self._spec)
        newest = stream.newest_per_subject()
        entries = (entry_of(self._bucket, stored) for stored in newest)
        living = (entry for entry in entries if entry.value is not None)
        return tuple(sorted(living, key=lambda entry: entry.key))

    async def watch(self, *, proven: Proven = unheard) -> AsyncIterator[Entry[M]]:
        seen: dict[str, Stored] = {}
        async for stored in self._client.follow(
            self._spec, resync_seconds=WATCH_CHECK_SECONDS, proven=proven
        ):
            if seen.get(stored.subject) is stored:
                continue
            seen[stored.subject] = stored
            try:
                yield entry_of(self._bucket, stored)
            except UndecodableMessageError as error:
                reader = f"kv:{self._bucket.name}"
                await self._client.bury(stored.delivery(), reader, str(error))

    async def _write(self, key: str, headers: dict[str, str], payload: bytes, expected: int) -> int:
        subject = self._prefix + key
        try:
            return await self._client.write(
                self._spec, subject, headers, payload, expected=expected
            )
        except RevisionMismatchError:
            raise RevisionMismatchError(key=key, expected=expected) from None

    async def _last(self, key: str) -> Stored | None:
        return (await self._client.reach(self._spec)).last(self._prefix + key)

    async def _tombstone_revision(self, key: str) -> int:
        last = await self._last(key)
        return last.sequence if last and last.deletes else 0
