"""The newest skew audits, as `headgate-spark audit` has published them."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import orjson

from headgate.audits.results import SKEW_TOPIC
from headgate.config.backend_settings import ClusterSettings
from headgate.errors_in_words import connection_error
from headgate.model.outcome import Failure, Reason

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer


log = logging.getLogger("headgate.audits")

_CONNECT_S = 3.0  # live brokers need a tenth of it, and a person waits for the page
_ANSWER_S = 10.0
_FRESH_S = 10.0  # audits are hourly: a reloaded page need not read Kafka again
_AWAY_S = 3.0  # the same after a failure


class LatestAudits:
    """Reads of the newest audits, on demand: no task runs and no connection stays open in between.

    Memory is bounded by the topics of the configuration: one document of 50 to 100 KB each.
    """

    def __init__(self, clusters: Mapping[str, ClusterSettings]) -> None:
        self._clusters = {
            name: cluster for name, cluster in clusters.items() if cluster.tier == "ingest"
        }
        self._found: Mapping[str, bytes] | Failure = {}
        self._fresh_until = 0.0
        self._reading = asyncio.Lock()

    async def by_topic(self) -> Mapping[str, bytes] | Failure:
        """Return the newest result of each topic, as JSON; a failure if Kafka does not answer."""
        async with self._reading:
            if time.monotonic() >= self._fresh_until:
                self._found = await self._read()
                is_away = isinstance(self._found, Failure)
                self._fresh_until = time.monotonic() + (_AWAY_S if is_away else _FRESH_S)
        return self._found

    async def _read(self) -> Mapping[str, bytes] | Failure:
        from headgate.kafka.topics import (
            READ_ERRORS,
            kafka_in_words,  # see _read_from
        )

        audits = []
        end = asyncio.get_running_loop().time() + _ANSWER_S
        for name, cluster in self._clusters.items():
            try:
                async with asyncio.timeout_at(end):
                    audits.append(await _read_from(cluster))
            except READ_ERRORS as error:
                why = connection_error(error)
                log.warning("%s cannot be read: %s", SKEW_TOPIC, why, extra={"cluster": name})
                detail = f"{SKEW_TOPIC} cannot be read: {kafka_in_words(error, name)}"
                return Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=1)
        return merged(audits)


Audit = tuple[int, bytes]  # time of writing, in ms since 1970; the result


def merged(clusters: Iterable[Mapping[str, Audit]]) -> dict[str, bytes]:
    """Return the newest result of each topic: a topic that has moved is on two clusters."""
    newest: dict[str, Audit] = {}
    for cluster in clusters:
        for topic, audit in cluster.items():
            newest[topic] = max(audit, newest.get(topic, audit))
    return {topic: value for topic, (_, value) in newest.items()}


def is_result(value: bytes) -> bool:
    """Return whether it is a JSON object; anything else would make the whole answer unreadable."""
    try:
        return isinstance(orjson.loads(value), dict)
    except orjson.JSONDecodeError:
        return False


async def _read_from(cluster: ClusterSettings) -> dict[str, Audit]:
    # the parent needs aiokafka for this page only
    from headgate.kafka.aiokafka_internals import drop_consumer, open_consumer
    from headgate.kafka.options import cluster_options

    consumer = open_consumer(
        cluster_options(cluster), auto_offset_reset="earliest", isolation_level="read_committed"
    )
    try:
        async with asyncio.timeout(_CONNECT_S):
            await consumer.start()
        return await _newest(consumer)
    finally:
        await drop_consumer(consumer)


async def _newest(consumer: "AIOKafkaConsumer") -> dict[str, Audit]:
    from aiokafka import TopicPartition

    if SKEW_TOPIC not in await consumer.topics():
        return {}
    # the job creates it with one partition; aiokafka knows no others before an assignment
    places = [TopicPartition(SKEW_TOPIC, 0)]
    consumer.assign(places)
    ends = await consumer.end_offsets(places)
    newest: dict[str, Audit] = {}
    while any([await consumer.position(partition) < ends[partition] for partition in places]):
        for records in (await consumer.getmany(timeout_ms=200)).values():
            for record in records:
                if record.key is not None:
                    name = bytes(record.key).decode("utf-8", "replace")
                    newest[name] = record.timestamp, bytes(record.value or b"")
    sound = {}
    for topic, audit in newest.items():
        if is_result(audit[1]):
            sound[topic] = audit
        elif audit[1]:
            log.warning("%s: the record of topic %s is not an audit result", SKEW_TOPIC, topic)
        await asyncio.sleep(0)  # each takes some 0.2 ms of the event loop
    return sound
