"""A message as a stream keeps it, and the entry of a bucket that it stands for. On every bus."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from everstep_contract.base import Message, Model
from everstep_contract.layout import Bucket, bucket_subject

from everstep_bus.decoding import decode_on, decode_value
from everstep_bus.delivery import Delivery
from everstep_bus.interface import Entry

X = TypeVar("X", bound=Message)
M = TypeVar("M", bound=Model)
OPERATION: Final = "KV-Operation"
TOMBSTONE: Final = {OPERATION: "DEL"}
"""Headers of the message that deletes a key, as NATS key-value clients write them."""


@dataclass(frozen=True)
class Stored:
    """One message of a stream."""

    sequence: int
    subject: str
    headers: Mapping[str, str]
    payload: bytes

    @property
    def deletes(self) -> bool:
        """Whether it says that the key of its subject is gone."""
        return OPERATION in self.headers

    def message(self, expected: type[X]) -> X:
        """What it says.

        Raises:
            UndecodableMessageError: It is no such message, or does not belong on its subject.
        """
        return decode_on(self.subject, self.headers, self.payload, expected)

    def delivery(self) -> Delivery:
        """Its first delivery."""
        return Delivery(self.subject, self.headers, self.payload, self.sequence)


def entry_of(bucket: Bucket[M], stored: Stored) -> Entry[M]:
    """What the newest message of a key says of it.

    Raises:
        UndecodableMessageError: The payload does not fit the bucket's model.
    """
    key = stored.subject.removeprefix(bucket_subject(bucket, ""))
    value = None if stored.deletes else decode_value(key, stored.payload, bucket.model)
    return Entry(key, stored.sequence, value)
