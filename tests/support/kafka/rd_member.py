"""A librdkafka member of a group that does as it is told, in the one thread that may use it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, TopicPartition

_ANSWER_S = 30.0


class RdMember:
    """Polls from its start to its `close`. protocol: classic or consumer (KIP-848)."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, client: str, protocol: str = "classic"
    ) -> None:
        self._topic = topic
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            settings |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300}
        self._settings = settings
        self._told: queue.Queue[tuple[Callable[[Consumer], Any], Future[Any]]] = queue.Queue()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic])
        while not self._ends.is_set():
            consumer.poll(0.05)
            while not self._told.empty():
                what, answer = self._told.get()
                try:
                    answer.set_result(what(consumer))
                except Exception as error:
                    answer.set_exception(error)
        consumer.close()

    def _do(self, what: Callable[[Consumer], Any]) -> Any:
        answer: Future[Any] = Future()
        self._told.put((what, answer))
        return answer.result(_ANSWER_S)

    def commit(self, partition: int, offset: int, metadata: str = "") -> None:
        """Commit this, whether the partition is ours or not: librdkafka does not look."""
        place = TopicPartition(self._topic, partition, offset, metadata)
        self._do(lambda consumer: consumer.commit(offsets=[place], asynchronous=False))

    def subscribe(self, topic: str) -> None:
        """Read this topic, and the one before no more."""
        self._do(lambda consumer: consumer.subscribe([topic]))

    def owned(self) -> set[int]:
        """The partitions that it owns now."""
        return {one.partition for one in self._do(lambda consumer: consumer.assignment())}

    def close(self) -> None:
        """Leave the group."""
        self._ends.set()
        self._thread.join(_ANSWER_S)
