"""What the parent keeps of the instance's figures for the console's plots, and for how long.

Three histories, 22 MiB at most together: the instance as a whole in steps of 10 s, producers and
topics and partitions in steps of a minute.
"""

from collections.abc import Iterable, Mapping

from headgate.stats.fleet import Fleet
from headgate.stats.history import History, Table
from headgate.stats.snapshot import Labels

_MIB = 1_048_576
EVENTS = "headgate_events_total"
BYTES = "headgate_event_bytes_sum"  # as Prometheus names the sum of a histogram
SAVED = "headgate_suppressed_bytes_total"
RECORDS_WRITTEN = "headgate_partition_records_total"
BYTES_WRITTEN = "headgate_partition_bytes_total"

_OF_PAIRS = (EVENTS, SAVED)
_OF_PARTITIONS = (RECORDS_WRITTEN, BYTES_WRITTEN)
_GAUGES = (
    "headgate_held_keys",
    "headgate_held_lag",
    "headgate_spool_events",
    "headgate_spool_bytes",
    "headgate_in_flight_events",
)


class Recorder:
    """whole: counters of pairs have empty texts for producer and topic there."""

    def __init__(self) -> None:
        self.whole = History(10, 1080, 2 * _MIB)  # 3 h
        self.pairs = History(60, 360, 12 * _MIB)  # 6 h
        self.partitions = History(60, 180, 8 * _MIB)  # 3 h, of some 3,000 partitions

    def note(self, now: float, fleet: Fleet) -> None:
        """Take what is due. now: seconds since 1970."""
        if self.whole.is_due(now):
            tables = {name: _without_pairs(table) for name, table in _pairs(fleet).items()}
            gauges = {name: _sum(fleet.gauge(name).values()) for name in _GAUGES}
            self.whole.note(now, tables, gauges)
        if self.pairs.is_due(now):
            held = {name: fleet.gauge(name) for name in _GAUGES[:2]}
            self.pairs.note(now, _pairs(fleet), held)
        if self.partitions.is_due(now):
            written = {name: fleet.counter(name) for name in _OF_PARTITIONS}
            self.partitions.note(now, written, {})


def _pairs(fleet: Fleet) -> dict[str, Table]:
    volumes: Table = {
        (pair.producer, pair.topic): one.bytes for pair, one in fleet.volumes().items()
    }
    return {**{name: fleet.counter(name) for name in _OF_PAIRS}, BYTES: volumes}


def _without_pairs(table: Mapping[Labels, float]) -> Table:
    added: dict[Labels, float] = {}
    for labels, value in table.items():
        rest = ("", "", *labels[2:])
        added[rest] = added.get(rest, 0) + value
    return added


def _sum(values: Iterable[float]) -> Table:
    return {(): sum(values)}
