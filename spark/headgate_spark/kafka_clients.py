"""aiokafka's clients as the jobs use them: their options, and their ends.

Private parts of aiokafka 0.14: `stop()` of a producer or consumer waits for brokers and hangs
while they are away (aiokafka #1101), so clients are dropped: connections closed, tasks cancelled.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

from headgate.core.header_names import LenientRecords
from headgate_spark.connections import Connection

CLIENT_ID = "headgate-mirror"  # a quota on it caps all of the mirror at the brokers, too
_END_S = 2.0
_METADATA_PAUSE_S = 0.1  # Java's retry.backoff.ms; aiokafka asks at once, again and again
CLIENT_ERRORS = (KafkaError, OSError, TimeoutError, AssertionError)  # it asserts its own states


def client_arguments(connection: Connection) -> dict[str, Any]:
    """What every aiokafka client of this cluster takes."""
    return {
        "bootstrap_servers": connection.bootstrap_servers,
        "client_id": CLIENT_ID,
        "security_protocol": connection.security_protocol,
        "ssl_context": _ssl_context(connection),
        "sasl_mechanism": connection.sasl_mechanism,
        "sasl_plain_username": connection.sasl_username,
        "sasl_plain_password": connection.sasl_password,
    }


def _ssl_context(connection: Connection) -> ssl.SSLContext | None:
    if "SSL" not in connection.security_protocol.split("_"):
        return None
    context = ssl.create_default_context(cafile=connection.ssl_cafile)
    if connection.ssl_certfile:
        context.load_cert_chain(connection.ssl_certfile, connection.ssl_keyfile)
    return context


def never_create_topics(client: AIOKafkaClient) -> None:
    """Make the client's own metadata requests create nothing, and keep a pause.

    aiokafka's ask the broker to create what is unknown: a copier that still remembers a deleted
    topic would bring it back, empty.
    """
    asked_at_s = 0.0

    async def update(cluster: ClusterMetadata, topics: set[str]) -> bool:
        nonlocal asked_at_s
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, asked_at_s + _METADATA_PAUSE_S - loop.time()))
        asked_at_s = loop.time()
        request = MetadataRequest(sorted(topics), allow_auto_topic_creation=False)
        nodes = [broker.nodeId for broker in client.cluster.brokers()]
        random.shuffle(nodes)
        for node in nodes:
            answer = await _asked(client, node, request)
            if answer is not None and answer.brokers:
                cluster.update_metadata(answer)
                return True
        cluster.failed_update(None)
        return False

    client._metadata_update = update


async def _asked(client: AIOKafkaClient, node: int, request: MetadataRequest) -> Any:
    connection = await client._get_conn(node)
    if connection is None:
        return None
    try:
        return await connection.send(request)
    except (KafkaError, TimeoutError):
        return None  # another node is asked, or this one later


def keep_header_names() -> None:
    """Teach aiokafka's consumers of this process to read header names that are not UTF-8."""
    fetcher.MemoryRecords = lambda data: LenientRecords(data, MemoryRecords, _DefaultRecordBatchPy)


def open_consumer(connection: Connection, **options: Any) -> AIOKafkaConsumer:
    """A consumer without a group that sees committed records alone and never resets itself."""
    keep_header_names()
    consumer = AIOKafkaConsumer(
        **client_arguments(connection),
        enable_auto_commit=False,
        auto_offset_reset="none",  # an offset that is gone is an error, not another offset
        isolation_level="read_committed",
        **options,
    )
    never_create_topics(consumer._client)
    return consumer


async def drop(client: AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """End it at once and in bounded time, whatever its brokers do. What it had begun is undone by
    whoever starts with its transactional id."""
    client._closed = True  # what stop() sets; __del__ warns otherwise
    tasks = [task for task in _tasks(client) if task is not None]
    for task in tasks:
        task.cancel()
    inner: AIOKafkaClient = client._client if _reads(client) else client.client
    for connection in list(inner._conns.values()):
        connection.close()
    inner._conns.clear()
    if inner._sync_task is not None:
        tasks.append(inner._sync_task)
        inner._sync_task = None
    await _end(tasks)


def _reads(client: Any) -> bool:
    return isinstance(client, AIOKafkaConsumer)


def _tasks(client: Any) -> list[asyncio.Task[Any] | None]:
    if not _reads(client):
        return [client._sender.sender_task]
    fetcher, coordinator = client._fetcher, client._coordinator
    found: list[asyncio.Task[Any] | None] = []
    if fetcher is not None:
        fetcher._closed = True
        found += [fetcher._fetch_task, *fetcher._pending_tasks]
    if coordinator is not None:
        found.append(getattr(coordinator, "_reset_committed_task", None))
    return found


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel until they end: aiokafka's tasks finish work first."""
    end = asyncio.get_running_loop().time() + _END_S
    waiting = set(tasks)
    while waiting and asyncio.get_running_loop().time() < end:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=0.05)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # seen: its end was asked for
