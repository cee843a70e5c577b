"""A port of the test's own process, of which nothing is left open in the end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

from headgate.devstack.ports import LOOPBACK

_TURNS_TO_ACCEPT = 5  # of the loop: from the kernel's queue to the callback, with one to spare

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@asynccontextmanager
async def accepting(
    serve: Serve, port: int = 0, context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve each connection in a task of its own, as long as the block runs; its port.

    A connection may be accepted just when the block ends: asyncio's server forgets it if it is
    closed before the connection has its transport, and whichever test runs when it is collected
    fails of it. So the port stops to accept, is left alone for some turns, and is closed then.
    """
    tasks = set[asyncio.Task[None]]()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # even if it never ran

    server = await asyncio.start_server(accept, LOOPBACK, port, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for one in server.sockets:
            asyncio.get_running_loop().remove_reader(one.fileno())
        await _turns(_TURNS_TO_ACCEPT)
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _turns(_TURNS_TO_ACCEPT)  # the transports close in the next ones


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
