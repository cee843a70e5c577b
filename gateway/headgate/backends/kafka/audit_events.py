"""Writes facts to their topic, through lanes and a producer of their own.

Of their own, so that whatever happens to the topic of facts (no leader, no permission, deleted)
happens to no event: a producer that has to be replaced ends the batches of all of its lanes.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

from headgate.backends.kafka.options import ClusterOptions, LaneLimits
from headgate.backends.kafka.producing.lanes import KafkaLanes
from headgate.backends.kafka.topics import KafkaTopics
from headgate.backends.owned import OwnedTasks
from headgate.core.audit_columns import FACTS_TOPIC
from headgate.core.audit_events import Columns, Facts, WrittenEvents, written
from headgate.core.keys import partition_for
from headgate.core.outcome import Failure
from headgate.core.publish import Publish
from headgate.core.record import CONTENT_TYPE, RECORD_OVERHEAD, Header, Record, size_of
from headgate.core.topics.topic import TopicState

log = logging.getLogger("headgate.backends.facts")

FLUSH_S: Final = 1.0
_RECORD_BYTES: Final = 262_144
_LANE_BYTES: Final = 4_194_304  # 50,000 facts or more wait for a broker that does not answer
_DRAIN_S: Final = 3.0
_LOG_AGAIN_S: Final = 60.0
_HEADERS: Final = [(CONTENT_TYPE, b"application/json")]


class FactsMeter(Protocol):
    """Who counts facts, and what their lanes do (`cluster.LaneMeter`)."""

    def acknowledged(
        self, topic: str, partition: int, seconds: float, records: int, size: int
    ) -> None: ...

    def rebuilt(self, cluster: str, reason: str) -> None: ...

    def facts(self, topic: str, result: str, count: int) -> None:
        """result: `written`, `full`, `no_topic` or the reason of a failure."""
        ...


class FactsLog:
    """See the module. Nothing runs before `start`: as long as no topic asks for facts.

    It is its own lanes' listener (`base.Deliveries`).
    """

    def __init__(
        self,
        facts: Facts,
        cluster: str,
        options: ClusterOptions,
        topics: KafkaTopics,
        meter: FactsMeter,
    ) -> None:
        self._facts = facts
        self._cluster = cluster
        self._options = options
        self._topics = topics
        self._meter = meter
        self._lanes: KafkaLanes | None = None
        self._in_flight: dict[Publish, WrittenEvents] = {}
        self._tasks = OwnedTasks()
        self._flush_requested = asyncio.Event()
        self._logged_at = -_LOG_AGAIN_S

    def start(self) -> None:
        """Begin to write; waits for nobody. Does nothing when it has begun."""
        if self._lanes is not None:
            return
        clusters = {self._cluster: self._options}
        limits = {self._cluster: LaneLimits(max_bytes=_LANE_BYTES)}
        self._lanes = KafkaLanes(clusters, self._topics, self, limits, self._meter)
        self._facts.on_full = self._flush_requested.set
        self._tasks.spawn(self._lanes.start(), "lanes of facts")
        self._tasks.keep(self._run, "facts")

    async def close(self) -> None:
        """Write what is there, in bounded time, and end."""
        lanes = self._lanes
        if lanes is None:
            return
        await self._tasks.end(_DRAIN_S)
        for columns in self._facts.collect(True):
            self._write(lanes, columns)
        self._count_dropped()
        await lanes.drain(_DRAIN_S)
        await lanes.close()

    def depths(self) -> Iterator[tuple[str, int, int, int]]:
        """See `KafkaLanes.depths`."""
        return iter(()) if self._lanes is None else self._lanes.depths()

    async def _run(self) -> None:
        lanes = self._lanes
        assert lanes is not None
        due = time.monotonic() + FLUSH_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due - time.monotonic())):
                    await self._flush_requested.wait()
            self._flush_requested.clear()
            is_due = time.monotonic() >= due
            if is_due:
                due = time.monotonic() + FLUSH_S
            for columns in self._facts.collect(is_due):
                self._write(lanes, columns)
                await asyncio.sleep(0)  # each takes some 0.3 ms of the event loop
            self._count_dropped()

    def _write(self, lanes: KafkaLanes, columns: Columns) -> None:
        """Hand one topic's facts to their lane, or count them as dropped."""
        count = len(columns.keys)
        state = self._topics.get(FACTS_TOPIC)
        if state is None:
            self._drop(columns.topic, "no_topic", count, None)
            return
        limit = min(_RECORD_BYTES, state.batch_limit_bytes // 2)
        for one in written(columns, limit):
            publish = _publish(one, state, columns.at_ms[-1])
            failure = lanes.refusal(state, publish.record.partition)
            if failure is None:
                self._in_flight[publish] = one
                lanes.put(publish)
            else:
                self._drop(one.topic, failure.reason, one.count, failure.detail)

    def _count_dropped(self) -> None:
        for topic, count in self._facts.take_dropped().items():
            self._drop(topic, "full", count, "they arrive faster than they can be written")

    def _drop(self, topic: str, result: str, count: int, why: str | None) -> None:
        self._meter.facts(topic, result, count)
        now = time.monotonic()
        if now - self._logged_at >= _LOG_AGAIN_S:
            self._logged_at = now
            log.warning("audit facts of topic %s dropped: %s", topic, why or self._missing_reason())

    def _missing_reason(self) -> str:
        failure = self._topics.missing_reason(FACTS_TOPIC)  # which has it looked for soon
        return f"{failure.detail} (cluster {self._cluster}): run `headgate init --config F`"

    # ---- base.Deliveries

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """Nobody waits for it."""

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """They are written."""
        for publish in batch:
            one = self._in_flight.pop(publish)
            self._meter.facts(one.topic, "written", one.count)

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        """They are not, or (reason unknown) perhaps: nothing is sent twice."""
        for publish in batch:
            one = self._in_flight.pop(publish)
            self._drop(one.topic, failure.reason, one.count, failure.detail)


def _publish(one: WrittenEvents, state: TopicState, at_ms: int) -> Publish:
    """The key is the topic: whoever wants one topic's facts reads one partition, in order.

    That partition may be a hot one, but a fact is a fiftieth of an event of 2 kB, and the audit
    reads ranges of offsets, whatever partition they are on.
    """
    key = one.topic.encode()
    partition = partition_for(key, state.partitions)
    headers: list[Header] = [*_HEADERS]
    record = Record(FACTS_TOPIC, partition, key, one.value, headers, at_ms)
    return Publish(record, RECORD_OVERHEAD + size_of(key, one.value, headers), None, -1, None)
