"""Ending aiokafka clients for good, also while Kafka does not answer.

`stop()` and `close()` of aiokafka flush first, and hang as long as a broker is away
(aio-libs/aiokafka #1101).
"""

import asyncio
import socket
import struct
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.client import AIOKafkaClient

# l_onoff = 1, l_linger = 0: close with RST and forget what the kernel has not sent yet.
_NO_LINGER = struct.pack("ii", 1, 0)
_END_S = 2.0
# With a group, and without one.
_OF_COORDINATORS = (
    "_coordination_task",
    "_heartbeat_task",
    "_commit_refresh_task",
    "_reset_committed_task",
)


async def drop_consumer(consumer: AIOKafkaConsumer) -> None:
    """End a consumer at once: `stop` may wait for ever for a fetch that was never sent.

    A task that is left over is an ERROR in the log once the garbage collector finds it.
    """
    consumer._closed = True  # what stop() sets; __del__ warns otherwise
    fetcher, coordinator = consumer._fetcher, consumer._coordinator
    tasks = [getattr(coordinator, name, None) for name in _OF_COORDINATORS]
    for task in (*tasks, getattr(fetcher, "_fetch_task", None)):
        if task is not None:
            await end_task(task)
    # The pending ones the task above has made.
    await drop_client(consumer._client, *getattr(fetcher, "_pending_tasks", ()))


async def drop_producer(producer: AIOKafkaProducer) -> None:
    """End a producer at once. What it had begun is undone by whoever starts with its id."""
    producer._closed = True
    await drop_client(producer.client, producer._sender.sender_task)


async def drop_client(client: AIOKafkaClient, *tasks: asyncio.Task[None] | None) -> None:
    """Close all sockets at once. Not one byte that is still on this machine is sent.

    tasks: of its owner, which end with it.
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
    for connection in list(client._conns.values()):  # one that was being opened meanwhile
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
    """Cancel a task until it ends, for a bounded time: aiokafka's tasks finish work first."""
    end = asyncio.get_running_loop().time() + _END_S
    while not task.done() and asyncio.get_running_loop().time() < end:
        task.cancel()
        await asyncio.wait([task], timeout=0.05)
    if task.done() and not task.cancelled():
        task.exception()  # seen: its end was asked for
