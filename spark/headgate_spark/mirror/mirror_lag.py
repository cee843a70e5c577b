"""How far a mirror is behind, what it has lost, and both as a Prometheus textfile."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aiokafka.structs import TopicPartition

from headgate.replays.offset_map import PartitionMap
from headgate.replays.segments import FOREIGN
from headgate_spark.copying.copy_plan import Copied
from headgate_spark.job.exposition import Metric, exposed, written
from headgate_spark.mirror.first_missing import Missing
from headgate_spark.mirror.skips import Skip

_MAX_SAMPLES = 1000  # of one partition; beyond them the lag in seconds is a lower bound


class Lag(NamedTuple):
    """records: offsets between what is mirrored and the last stable offset.

    seconds: for how long the oldest of them has been there; None: not known.
    lost: offsets in gaps of the map that nothing can fill.
    """

    records: int
    seconds: float | None
    lost: int


class LagWatch:
    """Remembers when the source's ends were seen, and so how old what is missing is.

    What was missing before a partition was first looked at was not seen coming: its age is given.
    """

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, deque[tuple[int, float]]] = {}
        self._measured: dict[TopicPartition, Lag] = {}
        self._measured_s = 0.0

    @property
    def has_measured(self) -> bool:
        """Whether there is a lag to go by."""
        return bool(self._measured)

    def unseen_before(
        self, ends: Mapping[TopicPartition, int], maps: Mapping[TopicPartition, PartitionMap]
    ) -> dict[TopicPartition, Missing]:
        """What is missing of partitions that are looked at for the first time."""
        return {
            tp: Missing(maps[tp].table.source_end, end)
            for tp, end in ends.items()
            if tp in maps and tp not in self._seen and end > maps[tp].table.source_end
        }

    def lags(
        self,
        ends: Mapping[TopicPartition, int],
        maps: Mapping[TopicPartition, PartitionMap],
        now_s: float,
        ages_s: Mapping[TopicPartition, float],
    ) -> dict[TopicPartition, Lag]:
        """The lag of each partition that has a map now.

        Args:
            ends: Last stable offsets.
            maps: The partitions' maps.
            now_s: The time of any steady clock.
            ages_s: How old the first missing record is, of those that `unseen_before` has. One
                that lacks has a lag of unknown age.
        """
        for gone in self._seen.keys() - ends.keys():
            del self._seen[gone]
        self._measured_s = now_s
        self._measured = {
            tp: self._lag(tp, end, maps[tp], now_s, ages_s.get(tp))
            for tp, end in ends.items()
            if tp in maps
        }
        return self._measured

    def unseen(self, now_s: float) -> dict[TopicPartition, Lag]:
        """The lag of each partition while nothing can be seen: what is new since the last poll is
        not known, but how old it may be."""
        unseen_s = now_s - self._measured_s
        return {
            tp: one._replace(seconds=None if one.seconds is None else one.seconds + unseen_s)
            for tp, one in self._measured.items()
        }

    def _lag(
        self,
        tp: TopicPartition,
        end: int,
        found: PartitionMap,
        now_s: float,
        age_s: float | None,
    ) -> Lag:
        position = found.table.source_end
        if tp not in self._seen:
            if end > position and age_s is None:
                return Lag(end - position, None, found.lost_offsets)
            seen_s = now_s - (age_s or 0.0)
            self._seen[tp] = deque([(end, seen_s)], maxlen=_MAX_SAMPLES)
        seen = self._seen[tp]
        if not seen or seen[-1][0] != end:
            seen.append((end, now_s))
        while seen and seen[0][0] <= position:
            seen.popleft()
        seconds = now_s - seen[0][1] if seen else 0.0
        return Lag(max(0, end - position), seconds, found.lost_offsets)


def foreign(found: PartitionMap) -> int:
    """How often something else was found to have written to the mirror's topic."""
    return sum(gap.reason == FOREIGN for _, table in found.tables() for gap in table.gaps)


class Totals:
    """What the tasks of this process have done, summed up."""

    def __init__(self) -> None:
        self.records: dict[TopicPartition, int] = {}
        self.bytes: dict[TopicPartition, int] = {}

    def add(self, copied: Sequence[Copied]) -> None:
        """Count what some units did."""
        for one in copied:
            tp = TopicPartition(one.topic, one.partition)
            self.records[tp] = self.records.get(tp, 0) + one.records
            self.bytes[tp] = self.bytes.get(tp, 0) + one.bytes


def textfile(
    lags: Mapping[TopicPartition, Lag],
    maps: Mapping[TopicPartition, PartitionMap],
    totals: Totals,
    skipped: Mapping[str, Skip],
    cluster: str,
    now_s: float,
) -> str:
    """All metrics of the mirror in Prometheus' text format.

    skipped: topics that cannot be mirrored.  cluster: the ingest cluster.  now_s: since 1970.
    """
    seconds = {tp: round(one.seconds, 3) for tp, one in lags.items() if one.seconds is not None}
    gap_counts = {tp: len(maps[tp].lost_gaps) for tp in lags if tp in maps}
    columns = (
        ("mirror_lag_records", "gauge", {tp: one.records for tp, one in lags.items()}),
        ("mirror_lag_seconds", "gauge", seconds),
        ("mirror_gaps_total", "counter", gap_counts),
        ("mirror_lost_offsets_total", "counter", {tp: one.lost for tp, one in lags.items()}),
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
