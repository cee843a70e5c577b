"""Lag and losses of a mirror, also as a Prometheus textfile."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from headgate.kafka.aiokafka_internals import drop_consumer
from headgate.replays.offset_map import PartitionMap
from headgate.replays.packed import NO_TIMESTAMP
from headgate.replays.segments import FOREIGN
from headgate_spark.copying.cluster import CLIENT_ERRORS, open_consumer
from headgate_spark.copying.reader import Copied
from headgate_spark.job.command_line import in_words
from headgate_spark.job.exposition import Metric, exposed, written
from headgate_spark.job.options import Connection
from headgate_spark.mirror.plan import Skip

# ---- timestamps of the first records that a mirror lacks
#
# A driver that has just started knows no earlier ends, and would take records that have waited for
# an hour for new ones.


log = logging.getLogger("headgate_spark.mirror")

_LONG_S, _WAIT_MS = 10.0, 100
_PARTITION_BYTES, _ANSWER_BYTES = 65_536, 4 * 1024 * 1024


class Missing(NamedTuple):
    """Offsets of the source that are not mirrored: from `start` to `end`, exclusive."""

    start: int
    end: int


async def first_timestamps(
    source: Connection, missing: Mapping[TopicPartition, Missing]
) -> dict[TopicPartition, int]:
    """Return the timestamp of the first record of each stretch, in ms.

    It is NO_TIMESTAMP if the record has none, or the stretch has no record. A partition that cannot
    be read in 10 s is left out.
    """
    timestamps: dict[TopicPartition, int] = {}
    if not missing:
        return timestamps
    consumer = open_consumer(
        source,
        fetch_max_wait_ms=_WAIT_MS,
        max_partition_fetch_bytes=_PARTITION_BYTES,
        fetch_max_bytes=_ANSWER_BYTES,
    )
    try:
        async with asyncio.timeout(_LONG_S):
            await consumer.start()
            await _read(consumer, missing, timestamps)
    except CLIENT_ERRORS as error:
        count = len(missing) - len(timestamps)
        log.info(
            "age of the first missing record is unknown for %d partitions: %s",
            count,
            in_words(error),
        )
    finally:
        await drop_consumer(consumer)
    return timestamps


async def _read(
    consumer: AIOKafkaConsumer,
    missing: Mapping[TopicPartition, Missing],
    timestamps: dict[TopicPartition, int],
) -> None:
    consumer.assign(list(missing))
    begins = await consumer.beginning_offsets(list(missing))
    for tp, (start, _) in missing.items():
        consumer.seek(tp, max(start, begins[tp]))
    pending = set(missing)
    while pending:
        batches = await consumer.getmany(*pending, timeout_ms=_WAIT_MS)
        for tp, records in batches.items():
            is_missing = records[0].offset < missing[tp].end
            timestamps[tp] = records[0].timestamp if is_missing else NO_TIMESTAMP
        for tp in pending - timestamps.keys():
            if await consumer.position(tp) >= missing[tp].end:  # markers and aborted records
                timestamps[tp] = NO_TIMESTAMP
        consumer.pause(*(pending & timestamps.keys()))
        pending -= timestamps.keys()


# ---- lag in records and in seconds, and the metrics


_AGES_S = 10.0  # between two reads of first missing records
_MAX_SAMPLES = 1000  # of one partition; beyond them the lag in seconds is a lower bound


class Lag(NamedTuple):
    """The lag of a partition.

    Attributes:
        records: Offsets between the mirrored part and the last stable offset.
        seconds: Age of the oldest of them; None if it is unknown.
        lost: Offsets in gaps of the map that cannot be filled.
    """

    records: int
    seconds: float | None
    lost: int


class LagWatch:
    """The lag of each partition, from the times at which the source's ends were first seen.

    These times say nothing about records that were missing already at the first look, as after a
    restart. Until all of those are mirrored, the caller passes the age of the first missing one.
    """

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, deque[tuple[int, float]]] = {}
        self._backlog: dict[TopicPartition, int] = {}  # the end at the first look
        self._measured: dict[TopicPartition, Lag] = {}
        self._measured_s = 0.0
        self._asked_s = -_AGES_S

    @property
    def has_measured(self) -> bool:
        """Return whether a lag has been measured."""
        return bool(self._measured)

    def backlog(
        self,
        ends: Mapping[TopicPartition, int],
        maps: Mapping[TopicPartition, PartitionMap],
        now_s: float,
    ) -> dict[TopicPartition, Missing]:
        """Return the missing ranges whose age only their first record tells.

        Known ages are asked again after ten seconds: they fall while the mirror catches up.
        """
        is_due = now_s - self._asked_s >= _AGES_S
        missing = {
            tp: Missing(maps[tp].table.source_end, self._backlog.get(tp, end))
            for tp, end in ends.items()
            if tp in maps and (tp not in self._seen or is_due)
        }
        missing = {tp: stretch for tp, stretch in missing.items() if stretch.start < stretch.end}
        if missing:
            self._asked_s = now_s
        return missing

    def lags(
        self,
        ends: Mapping[TopicPartition, int],
        maps: Mapping[TopicPartition, PartitionMap],
        now_s: float,
        ages_s: Mapping[TopicPartition, float],
    ) -> dict[TopicPartition, Lag]:
        """Return the lag of each partition that has a map.

        Args:
            ends: Last stable offsets.
            maps: The partitions' maps.
            now_s: The time of any steady clock.
            ages_s: Age of the first missing record of each stretch of `backlog`. A partition that
                never had one has a lag of unknown age.
        """
        for gone in self._seen.keys() - ends.keys():
            del self._seen[gone], self._backlog[gone]
        self._measured_s = now_s
        self._measured = {
            tp: self._lag(tp, end, maps[tp], now_s, ages_s.get(tp))
            for tp, end in ends.items()
            if tp in maps
        }
        return self._measured

    def unseen(self, now_s: float) -> dict[TopicPartition, Lag]:
        """Return the lag of each partition while the source cannot be read.

        Records since the last poll are unknown, but their greatest possible age is known.
        """
        unseen_s = now_s - self._measured_s
        return {
            tp: lag._replace(seconds=None if lag.seconds is None else lag.seconds + unseen_s)
            for tp, lag in self._measured.items()
        }

    def _lag(
        self,
        tp: TopicPartition,
        end: int,
        partition_map: PartitionMap,
        now_s: float,
        age_s: float | None,
    ) -> Lag:
        position = partition_map.table.source_end
        if tp not in self._seen:
            if end > position and age_s is None:
                return Lag(end - position, None, partition_map.lost_offsets)
            self._seen[tp] = deque([(end, now_s)], maxlen=_MAX_SAMPLES)
            self._backlog[tp] = end
        seen = self._seen[tp]
        if seen and age_s is not None and position < self._backlog[tp] == seen[0][0]:
            seen[0] = (seen[0][0], now_s - age_s)
        if not seen or seen[-1][0] != end:
            seen.append((end, now_s))
        while seen and seen[0][0] <= position:
            seen.popleft()
        seconds = now_s - seen[0][1] if seen else 0.0
        return Lag(max(0, end - position), seconds, partition_map.lost_offsets)


def foreign(partition_map: PartitionMap) -> int:
    """Return the number of times that foreign records were found in the mirror's topic."""
    return sum(gap.reason == FOREIGN for _, table in partition_map.tables() for gap in table.gaps)


class Totals:
    """Sums over the tasks of this process."""

    def __init__(self) -> None:
        self.records: dict[TopicPartition, int] = {}
        self.bytes: dict[TopicPartition, int] = {}

    def add(self, copied: Sequence[Copied]) -> None:
        """Add the results of some units."""
        for result in copied:
            tp = TopicPartition(result.topic, result.partition)
            self.records[tp] = self.records.get(tp, 0) + result.records
            self.bytes[tp] = self.bytes.get(tp, 0) + result.bytes


def textfile(
    lags: Mapping[TopicPartition, Lag],
    maps: Mapping[TopicPartition, PartitionMap],
    totals: Totals,
    skipped: Mapping[str, Skip],
    cluster: str,
    now_s: float,
) -> str:
    """Return all metrics of the mirror in Prometheus' text format.

    Args:
        skipped: Topics that cannot be mirrored.
        cluster: The ingest cluster.
        now_s: Seconds since 1970.
    """
    seconds = {tp: round(lag.seconds, 3) for tp, lag in lags.items() if lag.seconds is not None}
    gap_counts = {tp: len(maps[tp].lost_gaps) for tp in lags if tp in maps}
    columns = (
        ("mirror_lag_records", "gauge", {tp: lag.records for tp, lag in lags.items()}),
        ("mirror_lag_seconds", "gauge", seconds),
        ("mirror_gaps_total", "counter", gap_counts),
        ("mirror_lost_offsets_total", "counter", {tp: lag.lost for tp, lag in lags.items()}),
        ("mirror_foreign_total", "counter", {tp: foreign(maps[tp]) for tp in gap_counts}),
        ("mirror_records_total", "counter", totals.records),
        ("mirror_read_bytes_total", "counter", totals.bytes),
    )
    metrics = [
        Metric(
            f"headgate_{name}",
            kind,
            _HELP[name],
            [
                ({"topic": tp.topic, "partition": str(tp.partition)}, value)
                for tp, value in sorted(values.items())
            ],
        )
        for name, kind, values in columns
    ]
    reasons = [
        ({"topic": topic, "reason": str(skip.reason)}, 1) for topic, skip in sorted(skipped.items())
    ]
    about = "1: the topic cannot be mirrored, for this reason."
    metrics.append(Metric("headgate_mirror_topic_skipped", "gauge", about, reasons))
    return exposed([*metrics, written("mirror", [cluster], now_s)])


_HELP = {
    "mirror_lag_records": "Offsets of the source that are not mirrored yet.",
    "mirror_lag_seconds": "How long the oldest of them has been there, if that is known.",
    "mirror_gaps_total": "Gaps of the offset map: records gone before they were mirrored.",
    "mirror_lost_offsets_total": "Source offsets in such gaps.",
    "mirror_foreign_total": "How often something else had written to the mirror's topic.",
    "mirror_records_total": "Records that the tasks of this run have copied.",
    "mirror_read_bytes_total": "Bytes that they have read from the source, as they came.",
}
