"""How long things took, while it is counted."""

from bisect import bisect_left
from typing import TypeVar

from headgate.stats.snapshot import Buckets, Exemplar
from headgate.telemetry.metric import SECONDS

Label = TypeVar("Label")


class Times:
    """`Buckets` while they are filled."""

    __slots__ = ("counts", "exemplars", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.sum = 0.0
        self.exemplars: dict[int, Exemplar] = {}

    def frozen(self) -> Buckets:
        """What is counted so far."""
        return Buckets(list(self.counts), self.sum, dict(self.exemplars))


def observe(table: dict[Label, Times], label: Label, seconds: float) -> None:
    """Count one more under a label."""
    row = table.get(label)
    if row is None:
        row = table[label] = Times()
    row.counts[bisect_left(SECONDS, seconds)] += 1
    row.sum += seconds
