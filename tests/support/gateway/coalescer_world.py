"""A coalescer on real Kafka and Redis without a gateway: held records are written directly."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from confluent_kafka import Producer

from headgate.coalescer.windows import burst_end_headers
from headgate.config.backend_settings import ClusterSettings, RedisSettings
from headgate.config.settings import CoalescerSettings, Settings
from headgate.kafka.options import cluster_options
from headgate.kafka.topics import KafkaTopics
from headgate.model.internal_topics import held_topic, topic_of
from headgate.model.keys import partition_for
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.record import BURST, EVENT_ID, FORCED, PRODUCER, RECEIVED_AT
from headgate.offload.helper_process import HelperProcess
from headgate.wiring.coalescing import Coalescing
from headgate.wiring.parts import Parts, Tracing
from support.gateway.meters import a_meter, counted
from support.kafka import kafka_log
from support.process.stack import RunningBroker

QUARANTINE_MS = 1


class Counts:
    """A real meter, and its figures of held events by outcome and reason."""

    def __init__(self) -> None:
        self.meter = a_meter()

    @property
    def outcomes(self) -> Counter[str]:
        return self._by("events", 2)

    @property
    def lives(self) -> Counter[str]:
        return self._by("coalescer_restarts", 1)

    @property
    def fallbacks(self) -> Counter[str]:
        return self._by("canonical_fallbacks", 1)

    def _by(self, name: str, label: int) -> Counter[str]:
        counts = Counter[str]()
        for labels, count in counted(self.meter, name).items():
            counts[str(labels[label])] += int(count)
        return counts


class HeldWorld:
    """One coalescing topic, its held topic, and whoever writes to it."""

    def __init__(
        self, kafka: RunningBroker, redis_url: str | None, topic: str, **options: object
    ) -> None:
        self.kafka, self.topic = kafka, topic
        given = {"coalesce_quiet_ms": 300, "coalesce_max_delay_ms": 3000, "suppress": "raw"}
        policy = TopicPolicy(
            **{"pattern": topic, "cluster": "main", "kind": "state", **given, **options}
        )
        self.settings = Settings(
            clusters={"main": ClusterSettings((kafka.bootstrap,), metadata_refresh_ms=500)},
            redis=RedisSettings(
                url=redis_url, namespace=topic, quarantine_ms=QUARANTINE_MS, timeout_ms=5000
            ),
            coalescer=CoalescerSettings(session_timeout_ms=6000),
            topics=(policy,),
        )
        self.partitions = 2
        kafka.create_topic(topic, 3)
        kafka.create_topic(held_topic(topic), self.partitions)
        self._producer = Producer(
            {"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, "enable.idempotence": True}
        )
        self._count = 0

    def write(
        self,
        key: str,
        value: str | None,
        *,
        force: bool = False,
        burst: str | None = None,
        flush: bool = True,
    ) -> str:
        """Hold an event as a gateway does; returns its id. flush: wait until it is there."""
        self._count += 1
        event_id = f"event-{self._count}"
        headers: list[tuple[str, bytes]] = [
            ("content-type", b"application/json"),
            (EVENT_ID, event_id.encode()),
            (PRODUCER, b"tests"),
            (RECEIVED_AT, b"%d" % (time.time_ns() // 1_000_000)),
        ]
        if burst is not None:
            headers.append((BURST, burst.encode()))
        if force:
            headers.append((FORCED, b"1"))
        self._put(key.encode(), None if value is None else value.encode(), headers, flush)
        return event_id

    def end_burst(self, burst: str) -> None:
        """A control record in every partition."""
        for partition in range(self.partitions):
            self._producer.produce(
                held_topic(self.topic),
                value=b"",
                partition=partition,
                headers=burst_end_headers(burst.encode()),
            )
        self._producer.flush(60)

    def _put(
        self, key: bytes, value: bytes | None, headers: list[tuple[str, bytes]], flush: bool
    ) -> None:
        self._producer.produce(
            held_topic(self.topic),
            key=key,
            value=value,
            partition=partition_for(key, self.partitions),
            headers=headers,
        )
        self._producer.poll(0)
        if flush:
            self._producer.flush(60)

    def log(self) -> list[kafka_log.LogRecord]:
        """What the topic has, read_committed."""
        return kafka_log.read_log(self.kafka.bootstrap, self.topic)

    def values(self, key: str) -> list[str | None]:
        """The key's contents in the topic, oldest first."""
        return [
            None if one.value is None else one.value.decode()
            for one in self.log()
            if one.key == key.encode()
        ]

    @asynccontextmanager
    async def coalescing(self, counts: Counts | None = None) -> AsyncIterator[Coalescing]:
        """A process' coalescer, from its start to its orderly end."""
        clusters = {name: cluster_options(one) for name, one in self.settings.clusters.items()}
        topics = KafkaTopics(clusters, 500)
        table = PolicyTable(self.settings.topics)
        helper = HelperProcess()
        meter = (counts or Counts()).meter
        parts = Parts(
            self.settings, self.settings.clusters, clusters, topics, meter, Tracing(), helper
        )
        coalescing = Coalescing(parts)

        def wanted(name: str) -> str | None:
            policy = table.match(topic_of(name) or name)
            return None if policy is None else policy.cluster

        await topics.start(wanted)
        await coalescing.start()
        try:
            yield coalescing
        finally:
            await coalescing.close()
            await topics.close()
            helper.close()
