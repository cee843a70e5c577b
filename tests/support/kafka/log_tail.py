"""Follows topics with one consumer: cheaper than `kafka_log.read_log` where many tests look."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from support.kafka.kafka_log import DEADLINE_S, LogRecord


class LogTail:
    """What is appended to some topics, in pieces, each record once."""

    def __init__(self, bootstrap: str, topics: Iterable[str], partitions: int) -> None:
        self._partitions = range(partitions)
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "log-tail",  # required by the library; nothing is ever committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "check.crcs": True,
        }
        self._consumer = Consumer(settings)
        # On the other's connection a question would wait behind a fetch that waits for data.
        self._asking = Consumer(settings)
        self._next: dict[tuple[str, int], int] = {}
        self._found: dict[str, list[LogRecord]] = defaultdict(list)
        places = [TopicPartition(topic, n, 0) for topic in topics for n in self._partitions]
        self._consumer.assign(places)

    def take(self, topic: str) -> list[LogRecord]:
        """All records up to the end as of now that were not taken yet, by partition and offset."""
        ends = {n: self._end(topic, n) for n in self._partitions}
        deadline = time.monotonic() + DEADLINE_S
        while any(self._next.get((topic, n), 0) < end for n, end in ends.items()):
            assert time.monotonic() < deadline, f"{topic} not read to its end"
            for polled in self._consumer.consume(1000, timeout=0.2):
                if polled.error() is not None:
                    raise KafkaException(polled.error())
                self._keep(polled)
        return sorted(self._found.pop(topic, []), key=lambda one: one[:2])

    def close(self) -> None:
        """End the clients."""
        self._consumer.close()
        self._asking.close()

    def _end(self, topic: str, partition: int) -> int:
        place = TopicPartition(topic, partition)
        return int(self._asking.get_watermark_offsets(place, DEADLINE_S)[1])

    def _keep(self, polled: Message) -> None:
        topic, partition, offset = polled.topic(), polled.partition(), polled.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        headers = list(polled.headers() or [])
        timestamp_ms = polled.timestamp()[1]
        record = LogRecord(partition, offset, polled.key(), polled.value(), headers, timestamp_ms)
        self._next[topic, partition] = offset + 1
        self._found[topic].append(record)
