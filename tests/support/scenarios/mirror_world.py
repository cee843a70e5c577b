"""Sources that are hard to mirror, and an independent client's judgement of the mirror."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from confluent_kafka import Producer

from headgate.replays.offset_map import (
    MAP_PARTITIONS,
    MAP_TOPIC,
    Layout,
    MapAddress,
    PartitionMap,
    owner_of,
    read_entry,
)
from headgate.replays.packed import NO_TIMESTAMP
from headgate.replays.segments import Result, Segment
from headgate_spark.copying.reader import CopyOptions, CopyUnit
from headgate_spark.job.options import Connection
from support.kafka import kafka_log
from support.kafka.kafka_log import LogRecord
from support.process.stack import RunningBroker

TARGET_CONFIGS = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "retention.ms": "-1",
}
SOURCE_CONFIGS = {"retention.ms": "-1", "message.timestamp.before.max.ms": str(2**63 - 1)}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Two(NamedTuple):
    """The two tiers."""

    source: RunningBroker
    target: RunningBroker

    def options(self, **more: object) -> CopyOptions:
        source = Connection(self.source.bootstrap, name="main")
        target = Connection(self.target.bootstrap, name="main-backfill")
        return CopyOptions(source, target, **{"patience_s": 60.0, **more})  # type: ignore[arg-type]


def create_map(target: RunningBroker) -> None:
    if MAP_TOPIC not in kafka_log.topic_names(target.bootstrap):
        target.create_topic(MAP_TOPIC, MAP_PARTITIONS, {"cleanup.policy": "compact"})


def unit(
    two: Two, topic: str, partition: int = 0, end: int | None = -1, **more: object
) -> CopyUnit:
    """What the driver would plan for a topic that was never mirrored. end: -1 = what is there."""
    if end == -1:
        end = kafka_log.stable_offsets(two.source.bootstrap, topic)[partition]
    layout = Layout(
        len(kafka_log.end_offsets(two.source.bootstrap, topic)),
        kafka_log.topic_id(two.source.bootstrap, topic),
        kafka_log.topic_id(two.target.bootstrap, topic),
        1_700_000_000_000,
    )
    return CopyUnit(MapAddress(topic, partition, 1), layout, end, **more)  # type: ignore[arg-type]


def odd_record(number: int, chance: random.Random) -> dict[str, object]:
    """Null keys and values, headers twice and null, timestamps out of order and none."""
    key = None if number % 7 == 3 else b"key-%d" % (number % 50)
    value = None if number % 11 == 5 else b"%d:" % number + chance.randbytes(chance.randint(0, 90))
    headers: list[tuple[str, bytes | None]] = [("n", b"%d" % number)]
    if number % 3 == 0:
        headers += [
            ("twice", b"a"),
            ("null", None),
            ("twice", b"b"),
            ("", b""),
            ("ümlaut", b"\xff"),
        ]
    if number % 13 == 0:
        headers = []
    timestamp = 1_700_000_000_000 + number * 10 + chance.randint(-5000, 5000)
    if number % 16 < 3:  # some in a row, also first in a batch: those of old clients have none
        timestamp = NO_TIMESTAMP
    return {"key": key, "value": value, "headers": headers, "timestamp": timestamp}


class OddSource:
    """Writes records of every kind: plain, committed, aborted, in every codec."""

    def __init__(self, broker: RunningBroker, topic: str, seed: int) -> None:
        self._broker, self._topic, self._chance, self._number = (
            broker,
            topic,
            random.Random(seed),
            0,
        )
        self._transactional: Producer | None = None

    def _producer(self, **options: object) -> Producer:
        common = {"bootstrap.servers": self._broker.bootstrap, "linger.ms": 5}
        return Producer({**common, **options})

    def write(self, partition: int, count: int) -> None:
        """About so many visible records, in stretches of each kind."""
        left = count
        while left > 0:
            some = min(left, self._chance.randint(1, max(2, count // 6)))
            kind = self._chance.choice(("plain", "committed", "aborted", "small"))
            getattr(self, f"_{kind}")(partition, some)
            left -= 0 if kind == "aborted" else some
        kafka_log.wait_settled(self._broker.bootstrap, self._topic)

    def _plain(self, partition: int, count: int) -> None:
        producer = self._producer(**{"compression.type": self._chance.choice(CODECS)})
        self._produce(producer, partition, count)
        assert producer.flush(30) == 0

    def _committed(self, partition: int, count: int) -> None:
        self._transaction(partition, [count], is_committed=True)

    def _small(self, partition: int, count: int) -> None:
        self._transaction(partition, [1] * min(count, 5) + [max(0, count - 5)], is_committed=True)

    def _aborted(self, partition: int, count: int) -> None:
        self._transaction(partition, [count], is_committed=False)

    def _transaction(self, partition: int, counts: Sequence[int], *, is_committed: bool) -> None:
        if self._transactional is None:
            self._transactional = self._producer(**{"transactional.id": self._topic})
            self._transactional.init_transactions(30)
        producer = self._transactional
        for count in counts:
            producer.begin_transaction()
            self._produce(producer, partition, count)
            if is_committed:
                producer.commit_transaction(30)
            else:
                producer.flush(30)
                producer.abort_transaction(30)

    def _produce(self, producer: Producer, partition: int, count: int) -> None:
        for _ in range(count):
            record = odd_record(self._number, self._chance)
            self._number += 1
            while True:
                try:
                    producer.produce(self._topic, partition=partition, **record)
                    break
                except BufferError:
                    producer.poll(0.1)


def read_maps(target: RunningBroker, topic: str) -> dict[tuple[str, int], PartitionMap]:
    """The maps of a topic's partitions, as an independent client reads them."""
    if MAP_TOPIC not in kafka_log.topic_names(target.bootstrap):
        return {}
    found: dict[tuple[str, int], PartitionMap] = {}
    for record in kafka_log.read_log(target.bootstrap, MAP_TOPIC):
        owner = owner_of(record.key)
        if owner is None or owner[0] != topic:  # other tests' records may be of any version
            continue
        entry = read_entry(record.key, record.value)
        if entry is not None:
            found.setdefault(entry.address[:2], PartitionMap()).apply(entry)
    return found


def content(record: LogRecord) -> tuple[object, ...]:
    return record.key, record.value, tuple(record.headers), record.timestamp_ms


def wait_settled(two: Two, topic: str) -> None:
    """Wait until all that was committed on the target can be read, also in the map."""
    for name in (topic, MAP_TOPIC):
        kafka_log.wait_settled(two.target.bootstrap, name)


def judge(two: Two, topic: str) -> int:
    """Compare both tiers record by record, and every offset's translation. How many records."""
    wait_settled(two, topic)
    before = _by_partition(kafka_log.read_log(two.source.bootstrap, topic))
    after = _by_partition(kafka_log.read_log(two.target.bootstrap, topic))
    maps = read_maps(two.target, topic)
    ends = kafka_log.stable_offsets(two.source.bootstrap, topic)
    assert kafka_log.end_offsets(two.target.bootstrap, topic).keys() == ends.keys()  # I1
    for partition, end in ends.items():
        wanted, found = before.get(partition, []), after.get(partition, [])
        assert [content(one) for one in found] == [content(one) for one in wanted]  # I2 I3 I4
        table = maps[topic, partition].table
        assert table.source_end == end
        _judge_map(table, [(a.offset, b.offset) for a, b in zip(wanted, found, strict=True)], end)
    return sum(map(len, before.values()))


def _judge_map(table: object, pairs: Sequence[tuple[int, int]], end: int) -> None:
    """I5: every offset that there is, on both sides, goes where its record went."""
    for (given, wanted), translate in (
        *((pair, table.to_target) for pair in pairs),  # type: ignore[attr-defined]
        *(((b, a), table.to_source) for a, b in pairs),  # type: ignore[attr-defined]
    ):
        assert translate(given) == (given, wanted, Result.EXACT)
    exact = {source for source, _ in pairs}
    if not pairs:
        return
    following = pairs[-1][1] + 1
    by_source = dict(pairs)
    for offset in range(end - 1, pairs[0][0] - 1, -1):
        if offset in exact:
            following = by_source[offset]
        else:
            assert table.to_target(offset) == (offset, following, Result.NEXT)  # type: ignore[attr-defined]
    assert table.to_target(end).result is Result.OUT_OF_RANGE  # type: ignore[attr-defined]


def _by_partition(records: Iterable[LogRecord]) -> dict[int, list[LogRecord]]:
    found: dict[int, list[LogRecord]] = {}
    for one in records:
        found.setdefault(one.partition, []).append(one)
    return found


def segments(target: RunningBroker, topic: str, partition: int = 0) -> list[Segment]:
    return list(read_maps(target, topic)[topic, partition].table)
