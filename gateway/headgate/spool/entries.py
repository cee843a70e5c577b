"""What goes into a journal, and what comes out of it."""

from collections.abc import Sequence
from typing import NamedTuple

from headgate.core.record import Record
from headgate.core.spool.chunk import DamagedChunk, Label, Packed, unpack


class Append(NamedTuple):
    """A chunk to be written. partitions: the count that its events were placed by.

    at_ms: milliseconds since 1970, when they were spooled.
    """

    topic: str
    partition: int
    partitions: int
    at_ms: int
    records: Sequence[Record]


class Stored(NamedTuple):
    """A chunk of so many events as it lies in the journal. packed: None where it is damaged."""

    number: int
    partitions: int
    events: int
    at_ms: int
    packed: list[Packed] | None
    bytes: int


class Overlooked(NamedTuple):
    """A chunk of so many events and bytes that the index does not have."""

    number: int
    partitions: int
    events: int
    bytes: int


class Raw(NamedTuple):
    """A chunk as it lies there. partitions: see `Label`."""

    number: int
    topic: str
    partition: int
    partitions: int
    events: int
    at_ms: int
    checksum: int
    packed: bytes

    def is_whole(self) -> bool:
        """Whether it has its checksum."""
        return self._label.checksum(self.packed) == self.checksum

    def unpacked(self) -> list[Packed] | None:
        """None where it is damaged."""
        try:
            return unpack(self.packed, self.checksum, self._label)
        except DamagedChunk:
            return None

    @property
    def _label(self) -> Label:
        return Label(self.topic, self.partition, self.partitions, self.events, self.at_ms)
