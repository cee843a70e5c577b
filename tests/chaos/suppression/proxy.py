"""A TCP proxy that holds up what passes, in order, for random times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from headgate.devstack.ports import LOOPBACK


class DelayingProxy:
    """Forwards `port` to `target`. delay: seconds that the next piece of a direction waits."""

    def __init__(self, port: int, target: int, delay: Callable[[], float]) -> None:
        self._port, self._target, self._delay = port, target, delay
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> DelayingProxy:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        writers = [writer]
        try:
            there_reader, there_writer = await asyncio.open_connection(LOOPBACK, self._target)
            writers.append(there_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, there_writer))
                both.create_task(self._pass_on(there_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass  # the end of the connection, or of the proxy
        finally:
            for one in writers:
                one.transport.abort()
            await asyncio.gather(*(one.wait_closed() for one in writers), return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(65536):
                await asyncio.sleep(self._delay())
                writer.write(piece)
                await writer.drain()
        writer.close()
