"""Existing topics and their settings, refreshed from every cluster continuously."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    BrokerResponseError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    NodeNotReadyError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
    for_code,
)
from aiokafka.structs import ConsumerRecord, TopicPartition

from headgate.backends.owned import OwnedTasks
from headgate.errors_in_words import (
    cause,
    connection_error,
    is_closed_early,
    is_tls_error,
    is_untrusted,
)
from headgate.kafka.access import NoTokenError, TlsFileError, create_topics
from headgate.kafka.aiokafka_internals import (
    AIOKafkaClient,
    MetadataRequest,
    drop_admin,
    drop_client,
    drop_consumer,
    open_admin,
    open_client,
    open_consumer,
)
from headgate.kafka.groups import Partition
from headgate.kafka.options import ClusterOptions
from headgate.kafka.wire import TopicMetadata, nodes_of, read_metadata, read_settings
from headgate.metrics.library_lines import ClusterOutage, in_cluster
from headgate.model.internal_topics import InternalTopic
from headgate.model.outcome import Failure, Reason, Refused, brief
from headgate.model.text import counted
from headgate.model.topics import SETTINGS, PartitionState, TopicState, with_settings

# ---- reader of one cluster's topics and their settings


log = logging.getLogger("headgate.kafka")

ANSWER_TIMEOUT_MS = 3_000
# A broker that has just started may not know the newest topics yet. Therefore a topic counts as
# deleted only if a second response, a moment later and from another node if possible, lacks it,
# too.
_SECOND_READ_PAUSE_S = 0.2
_NO_ERROR = 0
_AT_ONCE = 50  # topics in one turn of the event loop, some 10 us each


class TopicReader:
    """One connection to one cluster, opened when needed and dropped after any failure."""

    def __init__(self, cluster: str, options: ClusterOptions) -> None:
        self._cluster = cluster
        self._options = options
        self.cluster_id: str | None = None
        self._client: AIOKafkaClient | None = None
        self._denied: set[str] = set()

    async def read(
        self, is_wanted: Callable[[str], bool], former: Mapping[str, TopicState]
    ) -> dict[str, TopicState]:
        """Return the newest states of the wanted topics.

        Args:
            is_wanted: Returns whether a topic is wanted.
            former: The states of the last call; after an error a topic keeps its state.

        Raises:
            KafkaError, OSError, TimeoutError: The cluster does not answer.
        """
        client = await self._connected()
        facts = await self._facts(client, former)
        names = [name for name in facts if is_wanted(name)]
        sound = [name for name in names if facts[name].error == _NO_ERROR]
        settings, errors = await read_settings(client, nodes_of(client)[0], sound, SETTINGS)
        for name, error in errors.items():
            self._cannot_read(name, error)
        states = {name: former[name] for name in names if name in former}
        for number, name in enumerate(sound, start=1):
            states[name] = self._state(name, facts[name], settings.get(name), states.get(name))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return states

    async def partitions(self, topic: str) -> list[PartitionState]:
        """Return a topic's partitions with their replicas. Raises as `read`."""
        if self._client is None:
            raise NodeNotReadyError("not connected")
        # aiokafka's own request, because no other caller needs the ids of the replicas.
        request = MetadataRequest([topic], allow_auto_topic_creation=False)
        answer = await self._client.send(nodes_of(self._client)[0], request)
        return sorted(
            PartitionState(number, leader, tuple(replicas), tuple(in_sync))
            for _error, _name, _internal, partitions in answer.topics
            for _, number, leader, replicas, in_sync, *_ in partitions
        )

    def brokers(self) -> int:
        """Return the number of brokers at the last response."""
        return 0 if self._client is None else len(self._client.cluster.brokers())

    async def close(self) -> None:
        """Drop the connection."""
        client, self._client = self._client, None
        if client is not None:
            await drop_client(client)

    async def _connected(self) -> AIOKafkaClient:
        if self._client is None:
            self._client = open_client(
                self._options, client_id="headgate-topics", request_timeout_ms=ANSWER_TIMEOUT_MS
            )
            await self._client.bootstrap()
        return self._client

    async def _facts(
        self, client: AIOKafkaClient, former: Mapping[str, TopicState]
    ) -> Mapping[str, TopicMetadata]:
        first, *others = nodes_of(client)
        _, self.cluster_id, topics = await read_metadata(client, first)
        if former.keys() <= topics.keys():
            return topics
        await asyncio.sleep(_SECOND_READ_PAUSE_S)
        again = await read_metadata(client, others[0] if others else first)
        return {**topics, **again.topics}

    def _cannot_read(self, name: str, error: int) -> None:
        if name not in self._denied:
            self._denied.add(name)
            log.warning("settings of topic %s cannot be read: %s", name, for_code(error).__name__)

    def _state(
        self,
        name: str,
        facts: TopicMetadata,
        settings: Mapping[str, str] | None,
        before: TopicState | None,
    ) -> TopicState:
        if before is None or before.topic_id != facts.topic_id:
            before = TopicState(name, self._cluster, facts.topic_id, len(facts.partitions))
        state = before._replace(
            cluster=self._cluster,
            partitions=len(facts.partitions),
            replication_factor=facts.replication_factor,
        )
        return with_settings(state, settings or {})


READ_ERRORS = (KafkaError, OSError, TimeoutError)


# ---- descriptions of Kafka's errors for clients
#
# The exceptions of aiokafka contain addresses and classes, which only the log may show.


_BY_KIND = (
    (
        (AuthenticationFailedError, SaslAuthenticationFailed),
        "the credentials are refused",
        "sasl_username",
    ),
    ((IllegalSaslStateError,), "the listener takes no SASL", "security_protocol"),
    (
        (AuthenticationMethodNotSupported, UnsupportedSaslMechanismError),
        "it does not offer this SASL mechanism",
        "sasl_mechanism",
    ),
    ((NoTokenError,), "the token endpoint returns no token", "sasl_oauth_token_url"),
    ((TlsFileError,), "a file for TLS cannot be used", "ssl_cafile"),
    ((NoBrokersAvailable,), "the cluster names no broker", "bootstrap_servers"),
    ((KafkaTimeoutError,), "it does not answer in time", "security_protocol"),
)
_REFUSES_CERTIFICATE = ("certificate", "unknown ca")  # parts of TLS alerts


def kafka_in_words(error: BaseException, cluster: str) -> str:
    """Describe an error for clients, and name the option to look at.

    An error from a broker has Kafka's own name.

    Args:
        error: The error.
        cluster: The name of the cluster in the configuration.
    """
    causes = sorted({_cause(each) for each in causes_of(error)})
    return ", ".join(
        f"{words} (see clusters.{cluster}.{option})" if option else words
        for words, option in causes
    )


def causes_of(error: BaseException) -> Sequence[BaseException]:
    """Return the error of each bootstrap server, or else the error itself."""
    group = error.__cause__
    return group.exceptions if isinstance(group, BaseExceptionGroup) else (error,)


def kafka_in_log(error: BaseException, cluster: str) -> str:
    """Describe an error for the log: like `kafka_in_words`, but with each bootstrap server."""
    if isinstance(error.__cause__, BaseExceptionGroup):
        return connection_error(error)
    return kafka_in_words(error, cluster)


def _cause(error: BaseException) -> tuple[str, str]:
    """Return a description of an error, and the option of its cluster; empty if there is none."""
    for kinds, words, option in _BY_KIND:
        if isinstance(error, kinds):
            return words, option
    if name := kafka_name(error):
        is_denied = name.endswith("_AUTHORIZATION_FAILED")
        return (f"the user is not authorised: {name}", "sasl_username") if is_denied else (name, "")
    words = cause(error)
    if is_untrusted(error):
        return words, "ssl_cafile"
    if is_tls_error(error):
        is_own = any(part in words for part in _REFUSES_CERTIFICATE)
        return words, "ssl_certfile" if is_own else "security_protocol"
    if is_closed_early(error):
        return words, "security_protocol"
    if not words and isinstance(error, (KafkaConnectionError, NodeNotReadyError, OSError)):
        words = "no connection"
    return (words, "bootstrap_servers") if words else ("the answer cannot be used", "")


def kafka_error(error: BaseException) -> str:
    """Describe an error for the log; an error from a broker has Kafka's own name."""
    return kafka_name(error) or connection_error(error)


def kafka_name(error: BaseException) -> str | None:
    """Return Kafka's name of an error, such as TOPIC_AUTHORIZATION_FAILED."""
    return error.message if isinstance(error, BrokerResponseError) else None


_RETRY_S = 1.0  # while a cluster does not answer
_PAUSE_S = 0.5  # between two requested refreshes
_START_S = 5.0
_END_S = 3.0
RETRY_AFTER_S = 2

Change = Callable[[TopicState | None, TopicState | None], None]


class KafkaTopics:
    """Implementation of `base.Topics`. Between refreshes `get` costs one dict lookup."""

    def __init__(self, clusters: Mapping[str, ClusterOptions], refresh_ms: int):
        self._readings = {
            name: _Reading(name, options, refresh_ms / 1000, self._publish)
            for name, options in clusters.items()
        }
        self._states: dict[str, TopicState] = {}
        self._listeners: list[Change] = []
        self._wanted: Callable[[str], str | None] = lambda topic: None
        self._tasks = OwnedTasks()

    async def start(self, wanted: Callable[[str], str | None], within_s: float = _START_S) -> None:
        """Begin to read, and wait for the first answers.

        Args:
            wanted: Returns the cluster of a topic by its policy, or None for other topics. It is
                    called again at every refresh.
            within_s: How long to wait, in seconds. Reading goes on after that.
        """
        self._wanted = wanted
        for reading in self._readings.values():
            self._tasks.keep(partial(reading.run, wanted), f"topics of {reading.cluster}")
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for reading in self._readings.values():
                    await reading.tried.wait()

    async def close(self) -> None:
        """End reading and drop the connections."""
        await self._tasks.end(_END_S)
        for reading in self._readings.values():
            await reading.reader.close()

    def get(self, topic: str) -> TopicState | None:
        """Return the topic's newest known state; None if its cluster does not have it."""
        return self._states.get(topic)

    def lacks(self, topic: str, cluster: str) -> bool:
        """Return whether the cluster has answered and does not have this topic of it."""
        reading = self._readings.get(cluster)
        return reading is not None and reading.was_read and topic not in self._states

    def states(self) -> list[TopicState]:
        """Return all topics, by name."""
        return [self._states[name] for name in sorted(self._states)]

    def missing_reason(self, topic: str) -> Failure:
        """Return why `get` returns None: the topic is unknown, or its cluster has not answered yet.

        This call requests a refresh, so a new topic is found soon after the first request for it.
        """
        cluster = self._wanted(topic)
        if cluster is not None:
            self.refresh_soon(cluster)
        if cluster in self._readings and not self._readings[cluster].was_read:
            trouble = self._readings[cluster].trouble
            detail = f"cluster {cluster} has not answered since the start: {trouble}"
            return Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)
        return Failure(
            Reason.UNKNOWN_TOPIC, f"there is no topic {brief(topic)} in Kafka: create it"
        )

    def cluster_ids(self) -> dict[str, str]:
        """Return Kafka's ids of the clusters that have answered, by our names."""
        ids = {name: reading.reader.cluster_id for name, reading in self._readings.items()}
        return {name: cluster_id for name, cluster_id in ids.items() if cluster_id is not None}

    async def partitions(self, topic: str) -> list[PartitionState]:
        """Return a topic's partitions with their replicas. Raises Refused."""
        state = self._states.get(topic)
        if state is None:
            raise Refused(self.missing_reason(topic))
        try:
            return await self._readings[state.cluster].reader.partitions(topic)
        except READ_ERRORS as error:
            log.warning("partitions of topic %s cannot be read: %s", topic, connection_error(error))
            detail = (
                f"cluster {state.cluster} does not answer: {kafka_in_words(error, state.cluster)}"
            )
            failure = Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)
            raise Refused(failure) from error

    def healthy(self, cluster: str) -> bool:
        """Return whether the cluster answered the last request."""
        return self._readings[cluster].answering

    def reachable(self) -> dict[str, tuple[bool, str]]:
        """Return for each cluster whether it answers, and a text with the reason if not."""
        return {
            name: (reading.answering, "connected" if reading.answering else reading.detail)
            for name, reading in self._readings.items()
        }

    def is_fresh(self, cluster: str, since_s: float) -> bool:
        """Return whether the last reading began after this time; if not, request another one.

        Args:
            cluster: The name of the cluster.
            since_s: Monotonic time, in seconds.
        """
        reading = self._readings[cluster]
        if reading.read_s > since_s:
            return True
        reading.requested.set()
        return False

    def detail(self, cluster: str) -> str:
        """Return a text about the last reading of the cluster."""
        return self._readings[cluster].detail

    def refresh_soon(self, cluster: str | None = None) -> None:
        """Read again now (at most every 0.5 s), from one cluster or all."""
        for name, reading in self._readings.items():
            if cluster in (None, name):
                reading.requested.set()

    def on_change(self, listener: Change) -> None:
        """Call `listener(old, new)` at every change; None is the state of a missing topic."""
        self._listeners.append(listener)

    def recall(self, states: Iterable[TopicState]) -> None:
        """Use the states of an earlier run until their clusters answer."""
        for state in states:
            reading = self._readings.get(state.cluster)
            is_ours = self._wanted(state.name) == state.cluster
            if reading is None or reading.was_read or not is_ours or state.name in self._states:
                continue
            self._states[state.name] = state
            self._report(None, state)

    def grown(self, topic: str, topic_id: bytes, partitions: int) -> None:
        """Apply a higher partition count that another component knows.

        Args:
            topic: The topic.
            topic_id: Kafka's id of the topic.
            partitions: The partition count.
        """
        state = self._states.get(topic)
        if state is None or state.topic_id != topic_id or state.partitions >= partitions:
            return
        self._states[topic] = grown = state._replace(partitions=partitions)
        self._report(state, grown)
        self.refresh_soon(state.cluster)

    def _publish(self, cluster: str, states: Mapping[str, TopicState]) -> None:
        """Store all states of a reading, then notify the listeners of the changes.

        The listener of a topic may look up its held topic, so all states must be stored before.
        """
        gone = [current for current in self._states.values() if current.cluster == cluster]
        changed: list[tuple[TopicState | None, TopicState | None]] = []
        for state in states.values():
            before = self._states.get(state.name)
            if before is not None and before.topic_id == state.topic_id:
                # A broker may be behind, but a topic never has fewer partitions than before.
                state = state._replace(partitions=max(before.partitions, state.partitions))
            if (
                before != state
            ):  # an equal state keeps the old object, and the objects that were made from it
                self._states[state.name] = state
                changed.append((before, state))
        for state in gone:
            if state.name not in states:
                del self._states[state.name]
                changed.append((state, None))
        for pair in changed:
            self._report(*pair)

    def _report(self, before: TopicState | None, after: TopicState | None) -> None:
        for listener in self._listeners:
            listener(before, after)


class _Reading:
    """Periodic reading of one cluster's topics."""

    def __init__(
        self,
        cluster: str,
        options: ClusterOptions,
        refresh_s: float,
        publish: Callable[[str, Mapping[str, TopicState]], None],
    ) -> None:
        self.cluster = cluster
        self.reader = TopicReader(cluster, options)
        self.requested = asyncio.Event()
        self.tried = asyncio.Event()
        self.answering = False
        self.was_read = False
        self.read_s = -math.inf  # when the last successful reading began
        self.detail = self.trouble = "not asked yet"
        self._outage = ClusterOutage(cluster)
        self._refresh_s = refresh_s
        self._publish = publish
        self._states: Mapping[str, TopicState] = {}

    async def run(self, wanted: Callable[[str], str | None]) -> None:
        """Read the topics again and again."""
        in_cluster(self.cluster)
        while True:
            self.requested.clear()
            await self._read_once(wanted)
            self.tried.set()
            await asyncio.sleep(_PAUSE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._refresh_s if self.answering else _RETRY_S):
                    await self.requested.wait()

    async def _read_once(self, wanted: Callable[[str], str | None]) -> None:
        began_s = time.monotonic()
        try:
            states = await self.reader.read(
                lambda topic: wanted(topic) == self.cluster, self._states
            )
        except READ_ERRORS as error:
            self._failed(error)
            await self.reader.close()
            return
        if (away_s := self._outage.ends()) is not None:
            log.info("cluster %s answers again", self.cluster, extra={"away_s": away_s})
        self.answering = self.was_read = True
        self.detail = counted(len(states), "topic")
        self._states = states
        self._publish(self.cluster, states)
        self.read_s = began_s

    def _failed(self, error: BaseException) -> None:
        if self._outage.begins() or not self.was_read:
            why = kafka_in_log(error, self.cluster)
            log.warning("cluster %s does not answer: %s", self.cluster, why)
        self.answering = False
        self.trouble = kafka_in_words(error, self.cluster)
        self.detail = f"no answer: {self.trouble}"


# ---- offsets of the next readable records, without markers and aborted records of transactions
#
# Offsets alone do not show this, and Kafka has no request for it, so a little is read.


_LONG_S, _WAIT_MS = 5.0, 100
_PARTITION_BYTES = 65_536  # of one partition in one response
_ANSWER_BYTES = 4 * 1024 * 1024


async def record_at(
    options: ClusterOptions, partition: Partition, offset: int, within_s: float
) -> ConsumerRecord | None:
    """Return the first readable record from an offset on; None if it is not found in time.

    Reads one response at most, and commits nothing. This function raises nothing.
    """
    consumer = _open_reader(options)
    try:
        async with asyncio.timeout(within_s):
            await consumer.start()
            tp = TopicPartition(*partition)
            consumer.assign([tp])
            consumer.seek(tp, offset)
            return await consumer.getone(tp)
    except (KafkaError, OSError, TimeoutError) as error:
        log.info("record at %s-%d %d is not read: %s", *partition, offset, connection_error(error))
        return None
    finally:
        await drop_consumer(consumer)


def _open_reader(options: ClusterOptions) -> AIOKafkaConsumer:
    return open_consumer(
        options,
        client_id="headgate-monitor",
        isolation_level="read_committed",
        auto_offset_reset="none",
        fetch_max_wait_ms=_WAIT_MS,
        max_partition_fetch_bytes=_PARTITION_BYTES,
        fetch_max_bytes=_ANSWER_BYTES,
    )


async def first_readable(
    options: ClusterOptions, spans: Mapping[Partition, tuple[int, int]]
) -> dict[Partition, int]:
    """Return the offset of the first record in each span, or the span's end if it holds none.

    A partition is missing from the result if the offset cannot be found in a few seconds, for
    example because of an open transaction. A partition without permission counts as one with a
    record. This function raises nothing.

    Args:
        options: The cluster.
        spans: The first offset and the end of each span, by partition.
    """
    offsets: dict[Partition, int] = {}
    if not spans:
        return offsets
    consumer = _open_reader(options)
    try:
        async with asyncio.timeout(_LONG_S):
            await consumer.start()
            await _read(consumer, spans, offsets)
    except (KafkaError, OSError, TimeoutError) as error:
        log.info(
            "readable ranges of %d partitions are unknown: %s",
            len(spans) - len(offsets),
            connection_error(error),
        )
    finally:
        await drop_consumer(consumer)
    return offsets


async def _read(
    consumer: AIOKafkaConsumer,
    spans: Mapping[Partition, tuple[int, int]],
    offsets: dict[Partition, int],
) -> None:
    consumer.assign([TopicPartition(*partition) for partition in spans])
    for partition, (start, _) in spans.items():
        consumer.seek(TopicPartition(*partition), start)
    unread = set(spans)
    while unread:
        try:
            batches = await consumer.getmany(timeout_ms=_WAIT_MS)
        except TopicAuthorizationFailedError as error:
            denied = {partition for partition in unread if partition.topic in error.args}
            if not denied:
                raise
            consumer.pause(*(TopicPartition(*partition) for partition in denied))
            unread -= denied
            # Assume a record, because its absence cannot be shown; the partition is not read again.
            offsets.update((partition, spans[partition][0]) for partition in denied)
            continue
        for tp, records in batches.items():
            partition = Partition(*tp)
            if partition in unread:
                offsets[partition] = min(records[0].offset, spans[partition][1])
        for partition in unread - offsets.keys():
            # aiokafka advances the position past records that it does not return.
            if await consumer.position(TopicPartition(*partition)) >= spans[partition][1]:
                offsets[partition] = spans[partition][1]
        consumer.pause(*(TopicPartition(*partition) for partition in unread & offsets.keys()))
        unread -= offsets.keys()


# ---- admin clients, for one command each


_ADMIN_START_S = 15.0  # longer than an ordinary leader loss


@asynccontextmanager
async def admin_of(options: ClusterOptions) -> AsyncIterator[AIOKafkaAdminClient]:
    """Open an admin client, and drop it at the end."""
    admin = open_admin(options, client_id="headgate-control")
    try:
        async with asyncio.timeout(_ADMIN_START_S):
            await admin.start()
        yield admin
    finally:
        await drop_admin(admin)


async def create_on(options: ClusterOptions, topics: Iterable[InternalTopic]) -> None:
    """Create topics; ignore those that exist already. Raises KafkaError or TimeoutError."""
    async with admin_of(options) as admin:
        await create_topics(admin, topics)
