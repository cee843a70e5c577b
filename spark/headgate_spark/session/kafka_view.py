"""Topics, partitions and offsets of a cluster, read with the connector's own client."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from headgate.kafka.groups import Partition
from headgate.model.internal_topics import replicas_on
from headgate_spark.job.command_line import USAGE, JobError
from headgate_spark.job.options import Cluster

# A wrong address is reported after this time. A cluster that has answered gets `patience_ms`.
_MAX_ANSWER_MS = 20_000
_TIMEOUT = "org.apache.kafka.common.errors.TimeoutException"
# py4j turns a smaller number into a Java Integer, which the client does not take as a time. No
# record is from before 25 January 1970.
_MIN_LONG = 2**31
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


class KafkaView:
    """A view of one cluster. Use it as a context manager, because it holds a connection."""

    def __init__(self, spark: SparkSession, cluster: Cluster) -> None:
        jvm: Any = spark._jvm  # the only way to the connector's own Kafka client
        self._jvm, self._cluster = jvm, cluster
        self._has_answered = False
        kind = jvm.org.apache.kafka.clients.consumer.KafkaConsumer
        if isinstance(kind, JavaPackage):
            raise JobError(
                "Spark has no Kafka connector: start with spark-submit --packages "
                "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.4"
            )
        own = {
            "key.deserializer": _BYTES,
            "value.deserializer": _BYTES,
            "default.api.timeout.ms": str(min(_MAX_ANSWER_MS, cluster.patience_ms)),
            "isolation.level": "read_committed",
        }
        self._consumer = self._answer_of(lambda: kind(self._properties(own)))
        self._has_answered = False  # making a client asks nothing of the cluster

    def __enter__(self) -> "KafkaView":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Py4JError):  # where Java has ended there is nothing to close
            self._consumer.close()

    def topics(self) -> dict[str, int]:
        """Return every topic with its number of partitions."""
        listed = self._answer_of(self._consumer.listTopics)
        return {name: len(listed[name]) for name in listed}

    def starts(self, tps: Iterable[Partition]) -> dict[Partition, int]:
        """Return the first offset that still exists, for each partition."""
        return self._offsets(self._consumer.beginningOffsets, tps)

    def ends(self, tps: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset behind the last committed record (the last stable offset)."""
        return self._offsets(self._consumer.endOffsets, tps)

    def at(self, tps: Iterable[Partition], time_ms: int) -> dict[Partition, int | None]:
        """Return the first offset whose record is not older; None if all are."""
        if time_ms < _MIN_LONG:
            return {**self.starts(tps)}
        wanted = self._jvm.java.util.HashMap()
        named = {tp: self._java(tp) for tp in tps}
        for theirs in named.values():
            wanted.put(theirs, self._jvm.java.lang.Long(time_ms))
        answers = self._answer_of(lambda: self._consumer.offsetsForTimes(wanted))
        return {
            tp: None if answers[theirs] is None else int(answers[theirs].offset())
            for tp, theirs in named.items()
        }

    def ensure_compacted(self, topic: str) -> None:
        """Create an internal, compacted topic of one partition if it is missing."""
        if topic in self.topics():
            return
        admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(self._properties({}))
        try:
            nodes = self._answer_of(lambda: admin.describeCluster().nodes().get().size())
            new = self._jvm.org.apache.kafka.clients.admin.NewTopic(topic, 1, replicas_on(nodes))
            configs = self._jvm.java.util.HashMap()
            configs.put("cleanup.policy", "compact")
            wanted = self._list([new.configs(configs)])
            self._answer_of(lambda: admin.createTopics(wanted).all().get())
        finally:
            admin.close()

    def _offsets(self, ask: Any, tps: Iterable[Partition]) -> dict[Partition, int]:
        named = {tp: self._java(tp) for tp in tps}
        offsets = self._answer_of(lambda: ask(self._list(named.values())))
        return {tp: int(offsets[theirs]) for tp, theirs in named.items()}

    def _java(self, tp: Partition) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(tp.topic, tp.partition)

    def _list(self, members: Iterable[Any]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for member in members:
            made.add(member)
        return made

    def _properties(self, more: Mapping[str, str]) -> Any:
        made = self._jvm.java.util.Properties()
        client = {**self._cluster.client, **self._cluster.waiting}
        for name, value in {**client, **more}.items():
            made.put(name, value)
        return made

    def _answer_of(self, ask: Any) -> Any:
        end_s = time.monotonic() + self._cluster.patience_ms / 1000
        while True:
            try:
                answer = ask()
            except Py4JJavaError as error:
                what = str(error.java_exception.toString())
                is_over = not self._has_answered or time.monotonic() >= end_s
                if is_over or not what.startswith(_TIMEOUT):
                    raise JobError(f"{self._cluster.address} does not answer: {what}") from error
            else:
                self._has_answered = True
                return answer


# ---- ranges of offsets: bounded before anything is read, by time or by offsets


class Range(NamedTuple):
    """The offsets from `start` to `end`, exclusive."""

    tp: Partition
    start: int
    end: int


def since(view: KafkaView, tps: Sequence[Partition], from_ms: int | None) -> list[Range]:
    """Return offsets that contain all records from a time on; None for all from the first.

    All ranges end with the last committed record. Producers stamp their records, so thousands of
    records of an earlier time may follow the first one of a later time. Before the first record
    that is not older than `from_ms`, nothing belongs to the window; records after it may be older.
    The record's own time decides whether it belongs to a window.
    """
    starts, ends = view.starts(tps), view.ends(tps)
    first = view.at(tps, from_ms) if from_ms is not None else dict[Partition, int | None](starts)
    ranges = []
    for tp in tps:
        end, at = ends[tp], first[tp]
        ranges.append(Range(tp, end if at is None else min(at, end), end))
    return ranges


def by_offsets(view: KafkaView, wanted: Mapping[Partition, tuple[int, int]]) -> list[Range]:
    """Return the requested ranges. Raises JobError if the log lacks some of their offsets."""
    starts, ends = view.starts(wanted), view.ends(wanted)
    ranges = []
    for tp, (start, end) in wanted.items():
        if not starts[tp] <= start <= end <= ends[tp]:
            raise JobError(
                f"offsets {start} to {end} of {tp.topic} partition {tp.partition} are out "
                f"of range: the log holds {starts[tp]} to {ends[tp]}",
                USAGE,
            )
        ranges.append(Range(tp, start, end))
    return ranges


def parse_offsets(text: str) -> dict[Partition, tuple[int, int]]:
    """Parse `{"orders": {"0": [5, 100]}}`. Raises JobError."""
    try:
        return {
            Partition(topic, int(partition)): (int(start), int(end))
            for topic, partitions in json.loads(text).items()
            for partition, (start, end) in partitions.items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise JobError(
            f'--offsets: {error}; give {{"topic": {{"0": [first, behind-the-last]}}}}', USAGE
        ) from error


def lost(view: KafkaView, ranges: Sequence[Range]) -> list[str]:
    """Return one sentence for each range whose start retention has passed."""
    starts = view.starts([offsets.tp for offsets in ranges])
    return [
        f"{offsets.tp.topic} partition {offsets.tp.partition} began at offset {offsets.start}, "
        f"now at {starts[offsets.tp]}"
        for offsets in ranges
        if starts[offsets.tp] > offsets.start < offsets.end
    ]
