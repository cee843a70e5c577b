"""What topics have that waits, and what their partitions got: kept by others, for a snapshot."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Gauges = dict[str, dict[tuple[str, ...], float]]


class HeldFigures(NamedTuple):
    """What this worker holds of a topic's events; None where it owns no partition of it.

    lag: records that the group has not covered; None: not known yet.
    """

    keys: int | None
    bytes: int | None
    oldest_seconds: float | None
    lag: int | None


_HELD_GAUGES = (
    "headgate_held_keys",
    "headgate_held_bytes",
    "headgate_held_oldest_seconds",
    "headgate_held_lag",
)


_SPOOL_GAUGES = (
    "headgate_spool_events",
    "headgate_spool_bytes",
    "headgate_spool_oldest_seconds",
)


def of_held(rows: Mapping[str, HeldFigures]) -> Gauges:
    """By topic."""
    return _gauges(_HELD_GAUGES, rows)


def of_spool(rows: Mapping[str, tuple[int, int, float]]) -> Gauges:
    """By topic: events, bytes, and how many seconds ago the oldest was spooled."""
    return _gauges(_SPOOL_GAUGES, rows)


def of_partitions(rows: Mapping[tuple[str, int], Sequence[int]]) -> Gauges:
    """Counters from records and bytes by topic and partition."""
    records: dict[tuple[str, ...], float] = {}
    by_topic: dict[tuple[str, ...], float] = {}
    sizes: dict[tuple[str, ...], float] = {}
    for (topic, partition), (count, size) in rows.items():
        labels = topic, str(partition)
        records[labels], sizes[labels] = count, size
        by_topic[(topic,)] = by_topic.get((topic,), 0) + count
    return {
        "headgate_acknowledged_records_total": by_topic,
        "headgate_partition_records_total": records,
        "headgate_partition_bytes_total": sizes,
    }


def _gauges(names: tuple[str, ...], rows: Mapping[str, tuple[float | None, ...]]) -> Gauges:
    gauges: Gauges = {name: {} for name in names}
    for topic, row in rows.items():
        for name, value in zip(names, row, strict=True):
            if value is not None:
                gauges[name][(topic,)] = value
    return gauges
