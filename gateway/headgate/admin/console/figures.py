"""Figures of producers and topics: summaries, series over time for plots, and their text.

The counts of a summary are of this hour and the one before, as in the control plane's `window`;
rates are of the last minute. A summary is cheap enough for a thousand producers.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from markupsafe import Markup, escape

from headgate.metrics import fleet as recorder
from headgate.metrics.fleet import Fleet, Points, Rates, Recorder
from headgate.metrics.snapshot import WINDOW_S, Pair, ProducerHour
from headgate.model.outcome import OutcomeName

End = tuple[str, str]  # outcome, and reason or ""


@dataclass(slots=True)
class Summary:
    """Summary of events.

    Attributes:
        ends: Number of events by outcome and reason. Held events also count by final outcome.
    """

    events_per_s: float = 0.0
    bytes_per_s: float = 0.0
    events: int = 0
    bytes: int = 0
    last_seen: float = 0.0
    ends: dict[End, int] = field(default_factory=dict)

    def of(self, outcome: str) -> int:
        """Return the number of events with an outcome."""
        return sum(count for (name, _), count in self.ends.items() if name == outcome)

    def share(self, *outcomes: str) -> float:
        """Return the share of outcomes among the events that have ended (0 to 1)."""
        ended = sum(count for (name, _), count in self.ends.items() if name != OutcomeName.HELD)
        return sum(map(self.of, outcomes)) / ended if ended else 0.0

    @property
    def mean_bytes(self) -> float | None:
        return self.bytes / self.events if self.events else None

    def add(self, other: "Summary") -> None:
        """Add another summary to this one."""
        self.events_per_s += other.events_per_s
        self.bytes_per_s += other.bytes_per_s
        self.events += other.events
        self.bytes += other.bytes
        self.last_seen = max(self.last_seen, other.last_seen)
        for end, count in other.ends.items():
            self.ends[end] = self.ends.get(end, 0) + count


def by_pair(fleet: Fleet, rates: Rates, now_s: float) -> dict[Pair, Summary]:
    """Return a summary of each pair of producer and topic.

    Args:
        fleet: Figures of all workers.
        rates: Rates of the last minute.
        now_s: Current time, in seconds since 1970.
    """
    summaries: dict[Pair, Summary] = {}
    first = int(now_s // WINDOW_S) - 1
    for figures in fleet.parts():
        for pair, detail in figures.details.items():
            summary = summaries.setdefault(pair, Summary())
            summary.last_seen = max(summary.last_seen, detail.last_seen)
            for hour, window in detail.windows.items():
                if hour >= first:
                    _count(summary, window)
    for pair, summary in summaries.items():
        summary.events_per_s, summary.bytes_per_s = rates.rate(pair)
    return summaries


def _count(into: Summary, window: ProducerHour) -> None:
    into.bytes += window.bytes
    for end, count in window.ends.items():
        into.events += count
        into.ends[end] = into.ends.get(end, 0) + count
    for outcome, count in window.coalesced.items():
        into.ends[outcome, ""] = into.ends.get((outcome, ""), 0) + count


def grouped(
    pairs: Mapping[Pair, Summary], name: Callable[[Pair], str], names: Iterable[str] = ()
) -> dict[str, Summary]:
    """Return the sums of summaries by producer or topic.

    Args:
        pairs: Summaries of pairs.
        name: Returns the name by which to add up.
        names: Names that are listed even without events.
    """
    summaries = {each: Summary() for each in names}
    for pair, summary in pairs.items():
        summaries.setdefault(name(pair), Summary()).add(summary)
    return summaries


# ---- series over time: from this process, or from Prometheus if it is configured


_HELD = "headgate_held_"
_SPARK_STEPS, _SPARK_S = 60, 3600.0
_PER_PAIR_LABELS = (0, 1)  # of recorder.EVENTS: producer and topic


class Plots(Protocol):
    """Source of figures over time."""

    @property
    def source(self) -> str:
        """Return the origin of the figures, as text."""
        ...

    async def read(
        self,
        metric: str,
        by: Collection[int] = (),
        where: Mapping[int, Collection[str]] | None = None,
        span_s: float | None = None,
    ) -> Points:
        """Read figures like `History.read`.

        Raises:
            Refused: The source is not available.
        """
        ...


class Recorded:
    """Figures from the memory of this process."""

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
        """Read figures from the finest history that has these labels."""
        if metric in (recorder.RECORDS_WRITTEN, recorder.BYTES_WRITTEN):
            kept = self._kept.partitions
        elif {*by, *(where or {})}.isdisjoint(_PER_PAIR_LABELS):
            kept = self._kept.whole
        else:
            kept = self._kept.pairs
        return kept.read(metric, by, where, span_s)


class Plot(NamedTuple):
    """A plot of figures over time.

    Attributes:
        id: Id of the element.
        title: Title of the plot.
        unit: Unit of the values: events, B, records, ...
        metric: Name of the metric.
        points: Figures of the plot.
        rows: Values by name.
        brush: Whether the reader can select a time range.
    """

    id: str
    title: str
    unit: str
    metric: str
    points: Points
    rows: Mapping[str, Sequence[float]]
    brush: bool = False

    @property
    def data(self) -> dict[str, Any]:
        """Return the data for the page's script."""
        rows = [[name, [short(value) for value in values]] for name, values in self.rows.items()]
        return {"start": self.points.start, "step": self.points.step_s, "rows": rows}

    @property
    def summary(self) -> str:
        """Return the plot's current and highest values as text."""
        totals = [sum(step) for step in zip(*self.rows.values(), strict=True)]
        unit = "B" if self.unit == "B" else ""
        now, highest = rate(totals[-1], unit), rate(max(totals), unit)
        of = "" if unit else f" {self.unit}"
        return f"Now {now}{of}; highest {highest}{of}."


def plot_by_label(
    id: str, title: str, unit: str, metric: str, points: Points, *, brush: bool = False
) -> Plot:
    """Return a plot with a row for each value of the points' only label, the largest first."""
    return Plot(id, title, unit, metric, points, named(points), brush)


def short(value: float) -> float:
    """Round a value to the three digits of a plot."""
    return float(f"{value:.3g}")


def named(points: Points) -> dict[str, Sequence[float]]:
    """Return rows by their only label, largest first."""
    order = sorted(points.rows.items(), key=lambda row: -sum(row[1]))
    return {labels[0] or "none": values for labels, values in order}


async def sparklines(
    plots: Plots, label: int, names: Collection[str]
) -> dict[str, Sequence[float]]:
    """Return the events of the last hour by name, for small lines in a list.

    Args:
        plots: Source of the figures.
        label: Position of the names among the labels of the events.
        names: Names of the rows that are shown.
    """
    points = await plots.read(recorder.EVENTS, (label,), {label: names}, _SPARK_S)
    return {row[0]: line[-_SPARK_STEPS:] for row, line in points.rows.items()}


# ---- figures as text: numbers with units, times, shares

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SPARK = (120, 24)  # its viewBox
_NONE = "-"


def number(value: float | None) -> str:
    """Format a number with few digits: 12, 1.23 k, 45.6 M."""
    if value is None:
        return _NONE
    for size, name in _STEPS:
        if abs(value) >= size:
            return f"{_digits(value / size)} {name}"
    return _digits(value)


def count(value: float | None) -> str:
    """Format a number with all digits: 1,234,567."""
    return _NONE if value is None else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Format a number of bytes: 12 B, 1.23 kB, 45.6 MB."""
    if value is None:
        return _NONE
    text = number(value)
    return f"{text}B" if text[-1].isalpha() else f"{text} B"


def rate(value: float | None, unit: str = "") -> str:
    """Format a rate per second: 12.3/s. `unit` is B for bytes."""
    text = size(value) if unit == "B" else number(value)
    return text if text == _NONE else f"{text}/s"


def share(value: float | None) -> str:
    """Format a share (0 to 1): 12.3 %."""
    if value is None:
        return _NONE
    return "< 0.1 %" if 0 < value < 0.001 else f"{_digits(100 * value)} %"


def duration(seconds: float | None) -> str:
    """Format a duration: 45 s, 12 min, 3.5 h, 2.1 d."""
    if seconds is None:
        return _NONE
    for length, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{_digits(seconds / length)} {name}"
    return f"{_digits(seconds)} s"


def breakable(name: str) -> Markup:
    """Return a long name that narrow pages may break after its underscores."""
    return Markup("_<wbr>").join(name.split("_"))


def _digits(value: float) -> str:
    """Format a number with three digits."""
    if value == 0 or abs(value) >= 99.95:
        return f"{value:.0f}"
    text = f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".") if float(text) else "< 0.01"


def moment(at: float | str | None) -> Markup:
    """Return a time in UTC, which the page's script converts to the reader's zone.

    Args:
        at: Seconds since 1970, or RFC 3339.
    """
    if not at:
        return Markup("<span>{}</span>").format(_NONE)
    try:
        parsed = (
            datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
        )
    except (ValueError, OverflowError, OSError):
        return escape(at)
    utc = parsed.astimezone(UTC)
    machine = utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    shown = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(machine, shown, shown)


def clock(at: str) -> str:
    """Format an RFC 3339 time as plain text: UTC to the second."""
    return f"{at[:19].replace('T', ' ')} UTC"


def spark(values: Sequence[float], label: str) -> Markup:
    """Draw a small line from 0 to its highest value."""
    highest = max(values, default=0.0)
    if not highest or len(values) < 2:
        return Markup('<span class="no-spark">{}</span>').format(_NONE)
    width, height = _SPARK
    points = " ".join(
        f"{index * width / (len(values) - 1):.0f},{height - 1 - (height - 2) * value / highest:.0f}"
        for index, value in enumerate(values)
    )
    text = '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}">'
    line = Markup('<polyline points="{}"/></svg>').format(points)
    return Markup(text).format(width, height, label) + line
