"""What a spool is told, and who counts what it does."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SpoolOptions:
    """folder: where the journal lies.

    max_bytes, max_age_ms: with more on disk, or anything older, it takes no more.
    drain_events_per_s: how many more events a second go back to Kafka than new ones come to disk.
    """

    folder: Path
    max_bytes: int
    max_age_ms: int
    drain_events_per_s: int


class SpoolMeter(Protocol):
    """Counts what becomes of spooled events."""

    def drained(self, topic: str, events: int) -> None:
        """They were published."""
        ...

    def repeated(self, topic: str, events: int) -> None:
        """They were handed over once more: the end of an earlier time is not known."""
        ...

    def set_aside(self, topic: str, events: int) -> None:
        """Kafka refuses them for good, or they are damaged."""
        ...
