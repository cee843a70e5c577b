"""What one run saw: answers, latencies, and the processes watched. Pure except for `Watch`."""

import os
import time
from array import array
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypedDict

from procfs import family, machine_busy_seconds, rss_of, total_cpu_seconds
from wire import acknowledged


class Quantiles(TypedDict):
    """Milliseconds."""

    p50: float
    p99: float
    p999: float
    max: float


class Sample(TypedDict):
    """Memory of the watched processes at one moment: bytes by process id, by name."""

    seconds: float
    events: int
    rss: dict[str, dict[int, int]]


class Tally:
    """Counts a run. Only requests due inside the window give latencies, also when late."""

    __slots__ = ("_from", "acknowledged", "latencies_s", "lateness_s", "outcomes", "statuses")

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.latencies_s = array("d")
        self.lateness_s = array("d")
        self.acknowledged = 0
        self._from = float("inf")

    def open_window(self, now_s: float) -> None:
        self._from = now_s

    def sent(self, due_s: float, now_s: float) -> None:
        """How late the generator itself was: a schedule it cannot hold measures nothing."""
        if due_s >= self._from:
            self.lateness_s.append(now_s - due_s)

    def ended(self, ends: Counter[str], status: str, due_s: float, now_s: float) -> None:
        self.outcomes.update(ends)
        self.statuses[status] += 1
        self.acknowledged += acknowledged(ends)
        if due_s >= self._from:
            self.latencies_s.append(now_s - due_s)


def quantiles(seconds: Iterable[float]) -> Quantiles:
    """Exact (nearest rank), in milliseconds; zeros where nothing was measured."""
    ordered = sorted(seconds) or [0.0]
    last = len(ordered) - 1

    def at(share: float) -> float:
        return round(ordered[min(last, int(share * len(ordered)))] * 1000, 3)

    return Quantiles(p50=at(0.5), p99=at(0.99), p999=at(0.999), max=round(ordered[-1] * 1000, 3))


class Mark(NamedTuple):
    """Processor time at one edge of the window."""

    at_s: float
    acknowledged: int
    cpu_s: dict[str, dict[int, float]]
    machine_s: float


class Watch:
    """Reads the watched processes. The generator itself is always one of them."""

    def __init__(self, watched: dict[str, list[int]]) -> None:
        self._watched = {**watched, "generator": [os.getpid()]}

    def mark(self, tally: Tally) -> Mark:
        groups = {name: family(pids) for name, pids in self._watched.items()}
        cpu = {name: total_cpu_seconds(pids) for name, pids in groups.items()}
        return Mark(time.monotonic(), tally.acknowledged, cpu, machine_busy_seconds())

    def sample(self, since_s: float, tally: Tally) -> Sample:
        rss = {name: rss_of(family(pids)) for name, pids in self._watched.items()}
        seconds = round(time.monotonic() - since_s, 2)
        return Sample(seconds=seconds, events=tally.acknowledged, rss=rss)


def microseconds_per_event(start: Mark, stop: Mark) -> dict[str, float]:
    """Processor time of each watched name per event acknowledged in the window.

    Processes that began inside the window count from zero; ones that ended inside it cannot be
    read any more and are missing (see `processes_changed`).
    """
    acked = stop.acknowledged - start.acknowledged
    if acked <= 0:
        return {}
    return {name: round(used * 1e6 / acked, 2) for name, used in spent_seconds(start, stop).items()}


def spent_seconds(start: Mark, stop: Mark) -> dict[str, float]:
    return {
        name: sum(used - start.cpu_s[name].get(pid, 0.0) for pid, used in times.items())
        for name, times in stop.cpu_s.items()
    }


def foreign_cores(start: Mark, stop: Mark) -> float:
    """Cores that others used meanwhile: what makes a run worth less than it looks."""
    ours = sum(spent_seconds(start, stop).values())
    share = (stop.machine_s - start.machine_s - ours) / max(stop.at_s - start.at_s, 1e-9)
    return round(max(share, 0.0), 2)


def processes_changed(start: Mark, stop: Mark) -> bool:
    """A worker ended or began inside the window: the figures of such a run are worth little."""
    return any(start.cpu_s[name].keys() != stop.cpu_s[name].keys() for name in stop.cpu_s)
