"""What goes into a journal, and what comes out of it."""

from collections.abc import Sequence
from typing import NamedTuple

from headgate.core.record import Record
from headgate.core.spool.chunk import Packed


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
