"""aiokafka's clients as the jobs use them: their options, and their ends.

Private parts of aiokafka 0.14: `stop()` of a producer or consumer waits for brokers and hangs
while they are away (aiokafka #1101), so clients are dropped: connections closed, tasks cancelled.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from headgate_spark.connections import Connection

CLIENT_ID = "headgate-mirror"  # a quota on it caps all of the mirror at the brokers, too
_END_S = 2.0
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


def open_consumer(connection: Connection, **options: Any) -> AIOKafkaConsumer:
    """A consumer without a group that sees committed records alone and never resets itself."""
    return AIOKafkaConsumer(
        **client_arguments(connection),
        enable_auto_commit=False,
        auto_offset_reset="none",  # an offset that is gone is an error, not another offset
        isolation_level="read_committed",
        **options,
    )


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
