"""Replacements for internals of aiokafka: metadata requests, shutdown, names of headers.

aiokafka's metadata requests ask the broker to create unknown topics. A client that still remembers
a deleted topic would therefore create it again, empty.
"""

import asyncio
import logging
import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from headgate.errors_in_words import connection_error
from headgate.kafka.access import ClusterAccess, client_arguments

# The logger of aiokafka's client, so that a command that silences it silences this module, too.
log = logging.getLogger("aiokafka.client")

# aiokafka repeats requests without a pause while a partition has no leader: about 500 requests a
# second during an election. Java's retry.backoff.ms is 100.
_PAUSE_S = 0.1
_BEGIN_PAUSE_S = 1.0
_NO_KAFKA = "it accepts connections and does not answer; check security_protocol and the port"
_BEGIN_TIMEOUT_S = 10.0  # known brokers may be back by then


class _Metadata:
    """Replacement for `bootstrap` and `_metadata_update` of aiokafka 0.14's `AIOKafkaClient`.

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
        reasons: list[str] = []
        for host, port, _ in client.hosts:
            answer = await self._ask_first(host, port, reasons)
            if answer is not None:
                break
        else:
            raise KafkaConnectionError(f"no bootstrap server answers: {'; '.join(reasons)}")
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
            log.warning("bootstrap servers returned no metadata: %r", error)

    async def _ask_first(self, host: str, port: int, reasons: list[str]) -> Any:
        """Return a bootstrap server's answer about the brokers, or None and add the reason."""
        try:
            connection = await _connect(self._client, host, port)
        except (OSError, KafkaError, TimeoutError) as error:
            reason = connection_error(error)
            log.warning("bootstrap server %s:%s cannot be reached: %s", host, port, reason)
            reasons.append(f"{host}:{port}: {reason}")
            return None
        try:
            return await connection.send(MetadataRequest([]))
        except (KafkaError, TimeoutError) as error:
            log.warning("bootstrap server %s:%s returned no metadata: %r", host, port, error)
            reasons.append(f"{host}:{port}: {_NO_KAFKA}")
            return None
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
            log.warning("Kafka node %s returned no metadata: %r", node, error)
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


# ---- Shutdown of aiokafka clients, also while Kafka does not answer
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


async def drop_producer(producer: AIOKafkaProducer) -> None:
    """Shut down a producer at once; the next producer with its id aborts its transaction."""
    producer._closed = True
    await drop_client(producer.client, producer._sender.sender_task)


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


# ---- Names of record headers that are not UTF-8
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
        whole: aiokafka's `MemoryRecords`, which decodes quickly.
        slow: aiokafka's batch in Python, for batches with names that are not UTF-8.
    """

    def __init__(self, data: bytes, whole: Callable[[bytes], Any], slow: type[Any]) -> None:
        self._data, self._slow, self._at = data, slow, 0
        self._inner = whole(data)
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


# ---- Consumers that tolerate any header name
#
# aiokafka's own consumer fails on a header name that is not UTF-8, and never gets past that record.


def open_consumer(access: ClusterAccess, **options: Any) -> AIOKafkaConsumer:
    """Return a consumer that is not started yet and commits nothing by itself.

    It reads any header name, creates no topic, and uses the metadata requests of this module.

    Args:
        access: The cluster.
        options: Further arguments of aiokafka's consumer.
    """
    keep_header_names()
    consumer = AIOKafkaConsumer(**client_arguments(access), enable_auto_commit=False, **options)
    use_own_metadata(consumer._client)
    return consumer


def keep_header_names() -> None:
    """Make the consumers of this process read any name, by a private part of aiokafka 0.14."""
    fetcher.MemoryRecords = lambda data: LenientRecords(data, MemoryRecords, _DefaultRecordBatchPy)
