"""Figures over time for plots: what the parent has kept, or Prometheus where it is configured."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from headgate.edge.console import wording
from headgate.metrics import history as recorder
from headgate.metrics.history import Points, Recorder

_HELD = "headgate_held_"
_PER_PAIR_LABELS = (0, 1)  # of recorder.EVENTS: producer and topic


class Plots(Protocol):
    """Reads figures over time."""

    @property
    def source(self) -> str:
        """Where they are from, in words."""
        ...

    async def read(
        self,
        metric: str,
        by: Collection[int] = (),
        where: Mapping[int, Collection[str]] | None = None,
        span_s: float | None = None,
    ) -> Points:
        """See `History.read`. Raises Refused."""
        ...


class Recorded:
    """What this process has kept."""

    source = "memory of this gateway, up to 6 h"

    def __init__(self, kept: Recorder) -> None:
        self._kept = kept

    async def read(
        self,
        metric: str,
        by: Collection[int] = (),
        where: Mapping[int, Collection[str]] | None = None,
        span_s: float | None = None,
    ) -> Points:
        """From the finest history that has these labels."""
        if metric in (recorder.RECORDS_WRITTEN, recorder.BYTES_WRITTEN):
            kept = self._kept.partitions
        elif {*by, *(where or {})}.isdisjoint(_PER_PAIR_LABELS):
            kept = self._kept.whole
        else:
            kept = self._kept.pairs
        return kept.read(metric, by, where, span_s)


class Plot(NamedTuple):
    """id: of the element.  unit: of the values: events, B, records, ...  rows: by name."""

    id: str
    title: str
    unit: str
    metric: str
    points: Points
    rows: Mapping[str, Sequence[float]]
    brush: bool = False

    @property
    def data(self) -> dict[str, Any]:
        """For the page's script."""
        rows = [[name, [_short(value) for value in values]] for name, values in self.rows.items()]
        return {"start": self.points.start, "step": self.points.step_s, "rows": rows}

    @property
    def summary(self) -> str:
        """The plot in words."""
        totals = [sum(step) for step in zip(*self.rows.values(), strict=True)]
        unit = "B" if self.unit == "B" else ""
        now, highest = wording.rate(totals[-1], unit), wording.rate(max(totals), unit)
        of = "" if unit else f" {self.unit}"
        return f"Now {now}{of}; highest {highest}{of}."


def _short(value: float) -> float:
    """Three digits are what a plot shows."""
    return float(f"{value:.3g}")


def named(points: Points) -> dict[str, Sequence[float]]:
    """Rows by their only label, largest first."""
    order = sorted(points.rows.items(), key=lambda row: -sum(row[1]))
    return {labels[0] or "none": values for labels, values in order}


def tail(values: Sequence[float], steps: int) -> Sequence[float]:
    """For a sparkline."""
    return values[-steps:]
