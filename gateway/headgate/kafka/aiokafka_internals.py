"""The inside of aiokafka: the only module that uses its private attributes and modules.

Other modules use aiokafka's documented interface (`aiokafka`, `.admin`, `.errors`, `.structs`) and
the functions of this module, which also open all clients. Each section gives the reason for its
private parts. tests/unit/kafka/test_aiokafka_internals.py compares them with the installed aiokafka
and names the functions to look at when a new version differs.

aiokafka's metadata requests ask the broker to create unknown topics. A client that still remembers
a deleted topic would therefore create it again, empty. All clients of this module use other
requests.
"""

import asyncio
import copy
import logging
import random
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient as AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import AIOKafkaConnection as AIOKafkaConnection
from aiokafka.conn import create_conn
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, ProducerClosed
from aiokafka.producer.message_accumulator import MessageBatch as MessageBatch
from aiokafka.producer.sender import Sender, SendProduceReqHandler
from aiokafka.protocol.admin import DescribeConfigsRequest as DescribeConfigsRequest
from aiokafka.protocol.fetch import FetchRequest as FetchRequest
from aiokafka.protocol.metadata import MetadataRequest as MetadataRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import (
    DefaultRecordBatchBuilder,
    _DefaultRecordBatchBuilderPy,
    _DefaultRecordBatchPy,
)
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from headgate.errors_in_words import connection_error
from headgate.kafka.access import ClusterAccess, client_arguments

# The logger of aiokafka's client, so that a command that silences it silences this module, too.
log = logging.getLogger("aiokafka")

# aiokafka repeats requests without a pause while a partition has no leader: about 500 requests a
# second during an election. Java's retry.backoff.ms is 100.
_PAUSE_S = 0.1
_BEGIN_PAUSE_S = 1.0
_NO_KAFKA = "it accepts connections and does not answer; check security_protocol and the port"
_BEGIN_TIMEOUT_S = 10.0  # known brokers may be back by then


class _Metadata:
    """Replacement for `bootstrap` and `_metadata_update` of aiokafka's client.

    If no known broker answers, it starts again with the bootstrap servers, as Java's clients do
    (KIP-899). A broker that the controller has fenced may have returned an empty list of brokers,
    and brokers may come back at other addresses.
    """

    def __init__(self, client: AIOKafkaClient) -> None:
        self._client = client
        self._requested_at = self._began_at = 0.0

    async def bootstrap(self) -> None:
        """Read the brokers from a bootstrap server. Raises KafkaConnectionError if none answers.

        aiokafka's method leaves its connection open after a timeout or a cancellation, and if the
        answer names no broker.
        """
        client = self._client
        errors: list[Exception] = []
        reasons: list[str] = []
        for host, port, _ in client.hosts:
            try:
                answer = await self._ask_first(host, port)
                break
            except (OSError, KafkaError, TimeoutError) as error:
                errors.append(error)
                reasons.append(f"{host}:{port}: {connection_error(error)}")
        else:
            text = f"no bootstrap server answers: {'; '.join(reasons)}"
            raise KafkaConnectionError(text) from ExceptionGroup(text, errors)
        for reason in reasons:
            log.warning("bootstrap server %s", reason)
        client.cluster.update_metadata(answer)
        if client._sync_task is None:
            client._sync_task = asyncio.create_task(client._md_synchronizer())

    async def update(self, cluster: ClusterMetadata, topics: set[str] | None) -> bool:
        """Read metadata of these topics, or of all topics (None); return whether it succeeded.

        An empty set requests no topic, while aiokafka's method requests all topics.
        """
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._requested_at + _PAUSE_S - loop.time()))
        self._requested_at = loop.time()
        if await self._ask_all(cluster, topics):
            return True
        if loop.time() - self._began_at < _BEGIN_PAUSE_S:
            return False
        await self._begin()
        self._began_at = loop.time()
        return await self._ask_all(cluster, topics)

    async def _begin(self) -> None:
        try:
            async with asyncio.timeout(_BEGIN_TIMEOUT_S):
                await self.bootstrap()
        except (KafkaError, TimeoutError) as error:
            log.debug("bootstrap servers returned no metadata: %s", connection_error(error))

    async def _ask_first(self, host: str, port: int) -> Any:
        """Return a bootstrap server's answer about the brokers.

        Raises:
            OSError, KafkaError, TimeoutError: It does not answer.
        """
        connection = await _connect(self._client, host, port)
        try:
            return await connection.send(MetadataRequest([]))
        except (KafkaError, TimeoutError) as error:
            raise KafkaTimeoutError(_NO_KAFKA) from error
        finally:
            connection.close()

    async def _ask_all(self, cluster: ClusterMetadata, topics: set[str] | None) -> bool:
        nodes = [broker.nodeId for broker in self._client.cluster.brokers()]
        random.shuffle(nodes)
        for node in nodes:
            answer = await self._ask(node, None if topics is None else sorted(topics))
            if answer is not None and answer.brokers:
                cluster.update_metadata(answer)
                return True
        return False

    async def _ask(self, node: int, topics: list[str] | None) -> Any:
        connection = await self._client._get_conn(node)
        if connection is None:
            return None
        try:
            return await connection.send(MetadataRequest(topics, allow_auto_topic_creation=False))
        except (KafkaError, TimeoutError) as error:
            log.warning("Kafka node %s returned no metadata: %s", node, connection_error(error))
            return None


async def _connect(client: AIOKafkaClient, host: str, port: int) -> AIOKafkaConnection:
    """Connect as the client itself does. Raises OSError, KafkaError or TimeoutError."""
    return await create_conn(
        host,
        port,
        client_id=client._client_id,
        request_timeout_ms=client._request_timeout_ms,
        ssl_context=client._ssl_context,
        security_protocol=client._security_protocol,
        max_idle_ms=client._connections_max_idle_ms,
        sasl_mechanism=client._sasl_mechanism,
        sasl_plain_username=client._sasl_plain_username,
        sasl_plain_password=client._sasl_plain_password,
        sasl_kerberos_service_name=client._sasl_kerberos_service_name,
        sasl_kerberos_domain_name=client._sasl_kerberos_domain_name,
        sasl_oauth_token_provider=client._sasl_oauth_token_provider,
    )


def use_own_metadata(client: AIOKafkaClient) -> None:
    """Replace the metadata requests of an aiokafka client that has not been started.

    The new requests create no topics, pause between attempts, and leave no connection open.
    """
    own = _Metadata(client)
    client.bootstrap, client._metadata_update = own.bootstrap, own.update


# ---- clients
#
# A consumer and an admin client have no public way to their client, which sends any request.


def open_client(access: ClusterAccess, **options: Any) -> AIOKafkaClient:
    """Return a client that is not connected yet and creates no topic.

    Args:
        access: The cluster.
        options: Further arguments of aiokafka's client.
    """
    client = AIOKafkaClient(**client_arguments(access), **options)
    use_own_metadata(client)
    return client


def open_producer(access: ClusterAccess, **options: Any) -> AIOKafkaProducer:
    """Return a producer that is not started yet and creates no topic (see `open_client`)."""
    producer = AIOKafkaProducer(**client_arguments(access), **options)
    use_own_metadata(producer.client)
    return producer


def open_admin(access: ClusterAccess, **options: Any) -> AIOKafkaAdminClient:
    """Return an admin client that is not started yet (see `open_client`)."""
    admin = AIOKafkaAdminClient(**client_arguments(access), **options)
    use_own_metadata(client_of(admin))
    return admin


def open_consumer(access: ClusterAccess, **options: Any) -> AIOKafkaConsumer:
    """Return a consumer that is not started yet, commits nothing by itself and creates no topic.

    It reads any header name, while aiokafka's own consumer fails on a name that is not UTF-8 and
    never gets past that record (see `open_client`).
    """
    keep_header_names()
    consumer = AIOKafkaConsumer(**client_arguments(access), enable_auto_commit=False, **options)
    use_own_metadata(client_of(consumer))
    return consumer


def client_of(owner: AIOKafkaConsumer | AIOKafkaAdminClient) -> AIOKafkaClient:
    """Return the client that a consumer or an admin client sends its requests with."""
    return owner._client


def share_connections(
    client: AIOKafkaClient, connections: MutableMapping[Any, AIOKafkaConnection], lock: asyncio.Lock
) -> None:
    """Make a client use the connections of other clients of the same cluster, and share its own.

    Args:
        client: The client.
        connections: The open connections; a client adds those that it opens.
        lock: The lock for opening a connection.
    """
    client._conns, client._get_conn_lock_value = connections, lock


# ---- shutdown of aiokafka clients, also while Kafka does not answer
#
# `stop()` and `close()` of aiokafka flush first, and hang while a broker is unavailable
# (aio-libs/aiokafka #1101).


# l_onoff = 1, l_linger = 0: close with RST and discard data that the kernel has not sent yet.
_NO_LINGER = struct.pack("ii", 1, 0)
_END_S = 2.0
# Tasks of a coordinator, with a group and without one.
_OF_COORDINATORS = (
    "_coordination_task",
    "_heartbeat_task",
    "_commit_refresh_task",
    "_reset_committed_task",
)


async def drop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Shut down a consumer at once; `stop` may wait for ever for a fetch that was never sent.

    A remaining task would cause an ERROR in the log when the garbage collector finds it.
    """
    consumer._closed = True  # as stop() does; __del__ warns otherwise
    fetcher, coordinator = consumer._fetcher, consumer._coordinator
    tasks = [getattr(coordinator, name, None) for name in _OF_COORDINATORS]
    for task in (*tasks, getattr(fetcher, "_fetch_task", None)):
        if task is not None:
            await end_task(task)
    # The fetch task above created the pending tasks.
    await drop_client(consumer._client, *getattr(fetcher, "_pending_tasks", ()))


async def drop_producer(
    producer: AIOKafkaProducer, requests: Iterable[asyncio.Task[Any]] = ()
) -> None:
    """Shut down a producer at once; data that was not sent yet is never sent.

    The next producer with its id aborts its transaction.

    Args:
        producer: The producer.
        requests: The tasks of its requests (see `keep_requests` and `LaneAccess`).
    """
    producer._closed = True  # as stop() does; __del__ warns otherwise
    tasks = [*requests, producer._sender.sender_task]
    for task in tasks:
        if task is not None:
            task.cancel()
    await drop_client(producer.client, *tasks)


async def drop_admin(admin: AIOKafkaAdminClient) -> None:
    """Shut down an admin client at once, also if it was never started."""
    await drop_client(client_of(admin))


async def stop_consumer(consumer: AIOKafkaConsumer, within_s: float) -> BaseException | None:
    """Leave the group if Kafka answers in time, and shut down the consumer in any case.

    Returns:
        The error that prevented the consumer from leaving, or None.
    """
    try:
        return await _stopped(consumer.stop(), within_s)
    finally:
        await drop_consumer(consumer)


async def stop_producer(producer: AIOKafkaProducer, within_s: float) -> BaseException | None:
    """Send the waiting records if Kafka takes them in time, and shut down in any case.

    Returns:
        The error that prevented the producer from sending them, or None.
    """
    try:
        return await _stopped(producer.stop(), within_s)
    finally:
        await drop_producer(producer)


async def _stopped(stopping: Awaitable[None], within_s: float) -> BaseException | None:
    try:
        async with asyncio.timeout(within_s):
            await stopping
    except (KafkaError, OSError, TimeoutError) as error:
        return error
    return None


async def drop_client(client: AIOKafkaClient, *tasks: asyncio.Task[None] | None) -> None:
    """Close all sockets of a client at once, without sending buffered data.

    Args:
        client: The client.
        tasks: Tasks of its owner, which end with it.
    """
    connections = list(client._conns.values())
    for connection in connections:
        if connection._writer is not None:
            abort(connection._writer.transport)
        connection.close()
    for task in (*tasks, client._sync_task):
        if task is not None:
            await end_task(task)
    client._sync_task = None
    for connection in list(client._conns.values()):  # connections that were opened meanwhile
        connection.close()
    client._conns.clear()


def abort(transport: asyncio.WriteTransport) -> None:
    """Reset a connection."""
    peer = transport.get_extra_info("socket")
    if peer is not None:
        with suppress(OSError):  # it is closed already
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


async def end_task(task: asyncio.Task[None]) -> None:
    """Cancel a task repeatedly, for a bounded time, because aiokafka's tasks finish work first."""
    end = asyncio.get_running_loop().time() + _END_S
    while not task.done() and asyncio.get_running_loop().time() < end:
        task.cancel()
        await asyncio.wait([task], timeout=0.05)
    if task.done() and not task.cancelled():
        task.exception()  # retrieved, because the task was cancelled on purpose


# ---- producers of lanes
#
# - `_txn_manager`: a refused batch consumes its sequence numbers, and aiokafka never returns them
#   (aio-libs/aiokafka #1017). The successor of a producer keeps its id and raises the epoch, as
#   Java's producer does (KIP-360); brokers then refuse late batches of the predecessor.
# - `_message_accumulator`: `send_batch` repeats checks of the lane, and adds a shield around a
#   future that is never cancelled here. Without the shield, a lane gets the result of its batch
#   before the sender collects the next request's batches, not after. A waiting batch can be taken
#   back. `_batch_ttl`: a batch without a leader would expire after request_timeout_ms and poison
#   its partition; the deadline of its lane ends it instead.
# - `_sender`, `_sync_task`: if one has died, the producer accepts batches and never sends them
#   (#1039). `_in_flight`: the brokers that have a request under way.
# - `_send_produce_req`: the sender keeps the tasks of its requests in a local variable, so
#   cancelling the sender does not end them.
# - `SendProduceReqHandler`: it retries a batch that a broker refused for one topic, while the other
#   topics of the broker wait, and it addresses topics only by name.


AddressedBatch = tuple[TopicPartition, bytes, bytes]  # partition, topic id or empty, record batch


class LaneAccess:
    """Access of lanes to an idempotent producer that has not been started.

    Args:
        producer: The producer.
        request_for: Returns the request to send, from aiokafka's request and its batches.
        not_retried: Errors that end a batch at its first attempt; its lane sends it again.
        on_request_end: Called with a broker's id and the number of records of its request.

    Attributes:
        busy: Ids of the brokers with a request under way, updated by the sender.
        codec: The number of the codec in the protocol.
        batch_bytes: The limit of an uncompressed batch.
        requests: The tasks of the requests under way.
    """

    def __init__(
        self,
        producer: AIOKafkaProducer,
        request_for: Callable[[ProduceRequest, list[AddressedBatch]], Any],
        not_retried: tuple[type[KafkaError], ...],
        on_request_end: Callable[[int, int], None],
    ) -> None:
        self._producer = producer
        self._accumulator = producer._message_accumulator
        self._accumulator._batch_ttl = float("inf")
        self._sequences = producer._txn_manager
        self._request_for = request_for
        self._not_retried = not_retried
        self._on_request_end = on_request_end
        self.busy: set[int] = producer._sender._in_flight
        self.codec, self.batch_bytes = batch_settings(producer)
        self.requests: set[asyncio.Task[Any]] = set()
        producer._sender._send_produce_req = self._send

    async def _send(self, node: int, batches: Mapping[TopicPartition, MessageBatch]) -> None:
        _keep_current_task(self.requests)
        records = sum([batch.record_count for batch in batches.values()])
        sender = self._producer._sender
        try:
            await RequestHandler(sender, batches, self._request_for, self._not_retried).do(node)
            sender._in_flight.remove(node)
            sender._muted_partitions.difference_update(batches)
        finally:
            self._on_request_end(node, records)

    def follow(self, predecessor: "LaneAccess", max_epoch: int) -> None:
        """Continue with the producer id of a predecessor and the next epoch, if there are any."""
        pid, epoch = predecessor._sequences.producer_id, predecessor._sequences.producer_epoch
        if pid >= 0 and epoch < max_epoch:
            self._sequences.set_pid_and_epoch(pid, epoch + 1)

    def on_task_end(self, callback: Callable[[asyncio.Task[Any]], None]) -> None:
        """Call back if the sender or the metadata task of the started producer ends."""
        self._producer._sender.sender_task.add_done_callback(callback)
        self._producer.client._sync_task.add_done_callback(callback)

    def append(self, builder: Any, tp: TopicPartition, topic_id: bytes) -> tuple[MessageBatch, int]:
        """Hand over a batch for a partition that has no other batch.

        Args:
            builder: The batch, with the interface of aiokafka's `BatchBuilder`.
            tp: The partition.
            topic_id: Kafka's id of the topic; 16 zeros or empty if it is not known.

        Returns:
            The batch, and the sequence number of its first record.

        Raises:
            KafkaError: The sender has died.
        """
        accumulator = self._accumulator
        if accumulator._exception is not None:
            raise copy.copy(accumulator._exception)
        if accumulator._closed or self._producer._closed or tp in accumulator._batches:
            raise ProducerClosed
        sequence: int = self._sequences.sequence_number(tp)
        builder.close()
        batch = accumulator._append_batch(builder, tp)
        batch.topic_id = topic_id
        return batch, sequence

    def rewind(self, tp: TopicPartition, sequence: int) -> None:
        """Set the sequence number of a partition's next batch."""
        self._sequences.increment_sequence_number(
            tp, sequence - self._sequences.sequence_number(tp)
        )

    def is_waiting(self, batch: MessageBatch) -> bool:
        """Return whether the sender has the batch and no request carries it now."""
        return batch in self._accumulator._batches.get(batch.tp, ())

    def take_back(self, batch: MessageBatch) -> None:
        """Remove a waiting batch."""
        batches = self._accumulator._batches
        batches[batch.tp].remove(batch)
        if not batches[batch.tp]:
            del batches[batch.tp]


class RequestHandler(SendProduceReqHandler):  # type: ignore[misc]
    """Handler of one request to one broker; for the arguments see `LaneAccess`."""

    def __init__(
        self,
        sender: Sender,
        batches: Mapping[TopicPartition, MessageBatch],
        request_for: Callable[[ProduceRequest, list[AddressedBatch]], Any],
        not_retried: tuple[type[KafkaError], ...],
    ) -> None:
        super().__init__(sender, batches)
        self._request_for = request_for
        self._not_retried = not_retried

    def create_request(self) -> Any:
        """Make the request; aiokafka calls this."""
        addressed = [
            (tp, batch.topic_id, batch.get_data_buffer()) for tp, batch in self._batches.items()
        ]
        return self._request_for(super().create_request(), addressed)

    def _can_retry(self, error: BaseException, batch: MessageBatch) -> bool:
        if batch.retry_count == 1 and isinstance(error, self._not_retried):
            return False
        return bool(super()._can_retry(error, batch))


def batch_settings(producer: AIOKafkaProducer) -> tuple[int, int]:
    """Return the codec's number in the protocol, and the limit of an uncompressed batch.

    A batch with another builder than aiokafka's needs them, and there is no public way to them.
    """
    accumulator = producer._message_accumulator
    return accumulator._compression_type, accumulator._batch_size


# ---- transactional producers
#
# - `_send_produce_req`, `_maybe_do_transactional_request`: as for lanes, the sender does not end
#   the tasks of its requests.
# - `_drain_waiter`: the sender that has ended sets its error on each batch and on the future for
#   its drain, and asyncio would log each that no task retrieves.
# - `sender_task`: a sender that was fenced ends, and later calls fail with an assertion.


def keep_requests(producer: AIOKafkaProducer) -> set[asyncio.Task[Any]]:
    """Return a set that holds the tasks of the producer's requests while they run."""
    requests: set[asyncio.Task[Any]] = set()
    sender = producer._sender
    produce, ask = sender._send_produce_req, sender._maybe_do_transactional_request

    async def produce_kept(node: int, batches: Any) -> None:
        _keep_current_task(requests)
        await produce(node, batches)

    def ask_kept() -> asyncio.Task[Any] | None:
        task: asyncio.Task[Any] | None = ask()
        if task is not None:
            _keep(task, requests)
        return task

    sender._send_produce_req = produce_kept
    sender._maybe_do_transactional_request = ask_kept
    return requests


def is_in_transaction(producer: AIOKafkaProducer) -> bool:
    """Return whether a transaction is open."""
    return bool(producer._txn_manager.is_in_transaction())


def forget_failures(producer: AIOKafkaProducer) -> None:
    """Retrieve the errors of all batches of a dropped producer."""
    accumulator = producer._message_accumulator
    waiting = [batch for batches in accumulator._batches.values() for batch in batches]
    for batch in (*waiting, *accumulator._pending_batches):
        waiter = batch._drain_waiter
        if waiter.done() and not waiter.cancelled():
            waiter.exception()


def sender_error(producer: AIOKafkaProducer) -> BaseException | None:
    """Return the error that has ended a producer's sender, or None."""
    task = producer._sender.sender_task
    is_over = task is not None and task.done() and not task.cancelled()
    return task.exception() if is_over else None


def _keep(task: asyncio.Task[Any], tasks: set[asyncio.Task[Any]]) -> None:
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def _keep_current_task(tasks: set[asyncio.Task[Any]]) -> None:
    task = asyncio.current_task()
    if task is not None:
        _keep(task, tasks)


# ---- consumers and their groups
#
# - `_coordinator`: the public `committed` has no metadata; `commit` reads the member id and the
#   generation whenever it sends, also when it retries (see `consumer.commits`); the member id is
#   not public.
# - `_coordination_task`, `_fetch_task`, `_sync_task`: a consumer without one of them reports no
#   error and gets no records. `_pending_exception` is kept until the next poll, and a member
#   without partitions never polls.
# - `_subscription`: the public `position` waits for a position.


async def read_commits(
    consumer: AIOKafkaConsumer, tps: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return a group's commits; partitions without one are omitted. Raises KafkaError."""
    commits = await consumer._coordinator.fetch_committed_offsets(list(tps))
    return {tp: commit for tp, commit in commits.items() if commit.offset >= 0}


def generation_of(consumer: AIOKafkaConsumer) -> tuple[int, str]:
    """Return the group's generation and the member id; neither is set outside of the group."""
    coordinator = consumer._coordinator
    return coordinator.generation, coordinator.member_id


async def find_coordinator(consumer: AIOKafkaConsumer) -> None:
    """Wait until the coordinator of the group is known."""
    await consumer._coordinator.ensure_coordinator_known()


async def commit_once(
    consumer: AIOKafkaConsumer, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Send one commit request, with the generation of this moment. Raises KafkaError.

    The request is made before the first await.
    """
    await consumer._coordinator._do_commit_offsets(None, offsets)


def group_trouble(consumer: AIOKafkaConsumer) -> str | None:
    """Return why a started member of a group gets no records any more, or None."""
    coordinator = consumer._coordinator
    for task in (coordinator._coordination_task, consumer._fetcher._fetch_task):
        if task.done():
            return "a task of the consumer has ended"
    error = coordinator._pending_exception
    return None if error is None else connection_error(error)


def is_running(consumer: AIOKafkaConsumer) -> bool:
    """Return whether the tasks of a started consumer without a group go on."""
    return not (consumer._fetcher._fetch_task.done() or client_of(consumer)._sync_task.done())


def known_position(consumer: AIOKafkaConsumer, tp: TopicPartition) -> int | None:
    """Return the position in an assigned partition, or None if there is none yet."""
    state = consumer._subscription.subscription.assignment.state_value(tp)
    return state.position if state is not None and state.has_valid_position else None


# ---- codecs
#
# `CompiledEncoder` is five times as fast as `PythonEncoder`, but it takes the timestamp -1 for a
# missing one, and refuses header names that are not UTF-8.


CompiledEncoder = DefaultRecordBatchBuilder
PythonEncoder = _DefaultRecordBatchBuilderPy


def replace_zstd(encode: Callable[[Any], bytes]) -> None:
    """Make aiokafka's record builder compress with another function.

    The compiled builder looks up the function in its own module for each batch.
    """
    module = sys.modules[DefaultRecordBatchBuilder.__module__]
    module.zstd_encode = encode  # type: ignore[attr-defined]


# ---- names of record headers that are not UTF-8
#
# Java writes only UTF-8, but librdkafka accepts any bytes, and aiokafka fails to read and to write
# them. Here each invalid byte becomes a lone surrogate (PEP 383), so that writing restores the same
# bytes. The classes replace aiokafka's own classes and wrap them.


_STRANGE = "surrogateescape"
_LENGTH_AT, _AFTER_LENGTH = 8, 12  # of a record batch


class RawName(str):
    """A name that encodes to its original bytes."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = _STRANGE) -> bytes:
        """Return the original bytes."""
        return str(self).encode("utf-8", _STRANGE)


def legible(name: str) -> str:
    """Return a name that any client can write; invalid bytes become `\\xNN`."""
    return name.encode("utf-8", _STRANGE).decode("utf-8", "backslashreplace")


class LenientRecords:
    """The record batches of a fetch, with support for names that are not UTF-8.

    Args:
        data: The bytes of the batches.
        quick: aiokafka's `MemoryRecords`.
        slow: aiokafka's batch in Python, for batches with names that are not UTF-8.
    """

    def __init__(self, data: bytes, quick: Callable[[bytes], Any], slow: type[Any]) -> None:
        self._data, self._slow, self._at = data, slow, 0
        self._inner = quick(data)
        self.has_next = self._inner.has_next
        self.size_in_bytes = self._inner.size_in_bytes

    def next_batch(self) -> Any:
        """Return the next batch, or None."""
        batch = self._inner.next_batch()
        if batch is None:
            return None
        start, lengths = self._at, self._data[self._at + _LENGTH_AT : self._at + _AFTER_LENGTH]
        self._at += _AFTER_LENGTH + int.from_bytes(lengths)
        return _Batch(batch, memoryview(self._data)[start : self._at], self._slow)


class _Batch:
    """A batch that is decoded again if a name is not UTF-8; aiokafka skips the records so far.

    `data` is copied only in this case, because a copy of each batch would cost more than the rest
    of this class.
    """

    def __init__(self, batch: Any, data: memoryview, slow: type[Any]) -> None:
        self._batch, self._data, self._slow = batch, data, slow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._batch
        except UnicodeDecodeError:
            yield from self._lenient()

    def _lenient(self) -> Any:
        again = self._slow(bytes(self._data))
        again._maybe_uncompress()
        again._buffer = _Bytes(again._buffer)
        return again


class _Bytes(bytearray):
    """Bytes whose slices decode any content."""

    def __getitem__(self, at: Any) -> Any:
        part = super().__getitem__(at)
        return _Bytes(part) if isinstance(at, slice) else part

    def decode(self, encoding: str = "utf-8", errors: str = _STRANGE) -> str:
        return super().decode("utf-8", _STRANGE)


def keep_header_names() -> None:
    """Make the consumers of this process read any header name.

    The fetcher of aiokafka looks up the class of record batches in its module for each response.
    """
    fetcher.MemoryRecords = lambda data: LenientRecords(data, MemoryRecords, _DefaultRecordBatchPy)
