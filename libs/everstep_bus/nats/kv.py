"""A bucket on JetStream, laid out as NATS key-value clients expect it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Generic, TypeVar

from everstep_contract.base import Model
from everstep_contract.layout import Bucket, bucket_stream, bucket_subject

from everstep_bus.errors import RevisionMismatchError, UndecodableMessageError
from everstep_bus.interface import Entry, Proven, unheard
from everstep_bus.nats.following import newest
from everstep_bus.nats.jetstream import JetStream
from everstep_bus.stored import TOMBSTONE, entry_of
from everstep_bus.timing import WATCH_CHECK_SECONDS

M = TypeVar("M", bound=Model)
CONCURRENT_READS: Final = 32


class NatsKeyValue(Generic[M]):
    """`KeyValue` over the stream of a bucket."""

    def __init__(self, jetstream: JetStream, bucket: Bucket[M]) -> None:
        self._jetstream = jetstream
        self._bucket = bucket
        self._spec = bucket_stream(bucket)
        self._prefix = bucket_subject(bucket, "")

    async def get(self, key: str) -> Entry[M] | None:
        stored = await self._jetstream.last(self._spec, self._prefix + key)
        entry = entry_of(self._bucket, stored) if stored else None
        return entry if entry and entry.value is not None else None

    async def put(self, key: str, value: M, *, expected: int) -> int:
        if expected == 0:
            expected = await self._tombstone_revision(key)
        return await self._write(key, {}, value.model_dump_json().encode(), expected)

    async def delete(self, key: str, *, expected: int) -> None:
        await self._write(key, TOMBSTONE, b"", expected)

    async def entries(self) -> tuple[Entry[M], ...]:
        subjects = await self._jetstream.subjects(self._spec, self._spec.subjects[0])
        reading = asyncio.Semaphore(CONCURRENT_READS)

        async def read(subject: str) -> Entry[M] | None:
            async with reading:
                return await self.get(subject.removeprefix(self._prefix))

        found = await asyncio.gather(*map(read, subjects))
        return tuple(entry for entry in found if entry is not None)

    async def watch(self, *, proven: Proven = unheard) -> AsyncIterator[Entry[M]]:
        async for stored in newest(
            self._jetstream, self._spec, check_seconds=WATCH_CHECK_SECONDS, proven=proven
        ):
            try:
                entry = entry_of(self._bucket, stored)
            except UndecodableMessageError as error:
                reader = f"kv:{self._bucket.name}"
                await self._jetstream.bury(stored.delivery(), reader, str(error))
                continue
            yield entry

    async def _write(self, key: str, headers: dict[str, str], payload: bytes, expected: int) -> int:
        subject = self._prefix + key
        try:
            return await self._jetstream.publish_behind(
                subject, headers, payload, expected=expected
            )
        except RevisionMismatchError:
            raise RevisionMismatchError(key=key, expected=expected) from None

    async def _tombstone_revision(self, key: str) -> int:
        last = await self._jetstream.last(self._spec, self._prefix + key)
        return last.sequence if last and last.deletes else 0
