"""The log of facts: writes the facts of a process to their topic.

It has lanes and a producer of its own. A failure of the topic of facts (no leader, no permission,
deleted) therefore affects no event: a producer that has to be replaced ends the batches of all of
its lanes.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from headgate.audits.facts import (
    FACTS_TOPIC,
    Columns,
    Facts,
    FactsRecord,
    encode_records,
    facts_cluster,
)
from headgate.backends.owned import OwnedTasks
from headgate.config import Settings
from headgate.kafka.lanes import KafkaLanes
from headgate.kafka.options import ClusterOptions, LaneLimits
from headgate.kafka.topics import KafkaTopics
from headgate.metrics.meter import Meter
from headgate.model.keys import partition_for
from headgate.model.outcome import Failure
from headgate.model.publish import Publish, Record
from headgate.model.record import CONTENT_TYPE, RECORD_OVERHEAD, Header, size_of
from headgate.model.topics import TopicState

log = logging.getLogger("headgate.audits")

FLUSH_S: Final = 1.0
_RECORD_BYTES: Final = 262_144
_LANE_BYTES: Final = 4_194_304  # 50,000 facts or more wait for a broker that does not answer
_DRAIN_S: Final = 3.0
_LOG_AGAIN_S: Final = 60.0
_HEADERS: Final = [(CONTENT_TYPE, b"application/json")]


class FactsLog:
    """Collector and writer of a process's facts; the listener of its own lanes.

    Nothing runs as long as no topic asks for facts.

    Args:
        settings: The configuration; `replace` takes a newer one.
        clusters: Clusters of tier ingest, in the order of the configuration.
        topics: States of the topics.
        meter: Counters.
        now_ms: Wall clock, in ms since 1970.
    """

    def __init__(
        self,
        settings: Settings,
        clusters: Mapping[str, ClusterOptions],
        topics: KafkaTopics,
        meter: Meter,
        now_ms: Callable[[], int],
    ) -> None:
        self._flush_requested = asyncio.Event()
        self.facts = Facts(now_ms, random.random, self._flush_requested.set)
        self._cluster = cluster_of_facts(settings) or ""
        self._options = clusters[self._cluster]
        self._topics = topics
        self._meter = meter
        self._is_enabled = _is_enabled(settings)
        self._lanes: KafkaLanes | None = None
        self._in_flight: dict[Publish, FactsRecord] = {}
        self._tasks = OwnedTasks()
        self._logged_at = -_LOG_AGAIN_S

    def start(self) -> None:
        """Begin to write if a topic asks for facts and nothing has begun; does not block."""
        if not self._is_enabled or self._lanes is not None:
            return
        clusters = {self._cluster: self._options}
        limits = {self._cluster: LaneLimits(max_bytes=_LANE_BYTES)}
        self._lanes = KafkaLanes(clusters, self._topics, self, limits, self._meter)
        self._tasks.spawn(self._lanes.start(), "lanes of facts")
        self._tasks.keep(self._run, "facts")

    async def close(self) -> None:
        """Write the facts that are collected, in bounded time, and end."""
        lanes = self._lanes
        if lanes is None:
            return
        await self._tasks.end(_DRAIN_S)
        for columns in self.facts.collect(True):
            self._write(lanes, columns)
        self._count_dropped()
        await lanes.drain(_DRAIN_S)
        await lanes.close()

    def replace(self, settings: Settings) -> None:
        """Put a reloaded configuration in force. A log that has begun goes on until the end."""
        self._is_enabled = _is_enabled(settings)
        self.start()

    def cluster_of(self, topic: str) -> str | None:
        """Return the cluster of the topic of facts if `topic` is that topic and it is needed."""
        return self._cluster if self._is_enabled and topic == FACTS_TOPIC else None

    def depths(self) -> Iterator[tuple[str, int, int, int]]:
        """Return the depths of the lanes (`KafkaLanes.depths`)."""
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
            for columns in self.facts.collect(is_due):
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
        for facts in encode_records(columns, limit):
            publish = _publish(facts, state, columns.at_ms[-1])
            failure = lanes.refusal(state, publish.record.partition)
            if failure is None:
                self._in_flight[publish] = facts
                lanes.put(publish)
            else:
                self._drop(facts.topic, failure.reason, facts.count, failure.detail)

    def _count_dropped(self) -> None:
        for topic, count in self.facts.take_dropped().items():
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
        """No-op: facts need no notice of a batch that is handed over."""

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Count the facts of a batch as written."""
        for publish in batch:
            facts = self._in_flight.pop(publish)
            self._meter.facts(facts.topic, "written", facts.count)

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        """Count the facts of a batch as dropped, also if they may be written (reason unknown)."""
        for publish in batch:
            facts = self._in_flight.pop(publish)
            self._drop(facts.topic, failure.reason, facts.count, failure.detail)


def _publish(facts: FactsRecord, state: TopicState, at_ms: int) -> Publish:
    """Make the publish of a record. Its key is the topic: one partition has all facts of a topic.

    That partition may be a hot one, but a fact is a fiftieth of an event of 2 kB, and the audit
    reads ranges of offsets, whatever partition they are on.
    """
    key = facts.topic.encode()
    partition = partition_for(key, state.partitions)
    headers: list[Header] = [*_HEADERS]
    record = Record(FACTS_TOPIC, partition, key, facts.value, headers, at_ms)
    return Publish(record, RECORD_OVERHEAD + size_of(key, facts.value, headers), None, -1, None)


def cluster_of_facts(settings: Settings) -> str | None:
    """Return the cluster of the topic of facts; None without a cluster of tier ingest."""
    return facts_cluster({name: cluster.tier for name, cluster in settings.clusters.items()})


def _is_enabled(settings: Settings) -> bool:
    return any(policy.facts for policy in settings.topics)
