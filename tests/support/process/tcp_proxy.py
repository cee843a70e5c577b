"""A TCP proxy with a latency of its own, that can hold what passes without closing anything."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from headgate.devstack.ports import LOOPBACK


class TcpProxy:
    """Forwards `port` to `target`, each direction in its order.

    answer_delay: seconds that a piece from the target is under way. Pieces do not wait for each
    other: a large answer takes no longer than a small one.
    """

    def __init__(self, port: int, target: int) -> None:
        self.port, self._target = port, target
        self.answer_delay: Callable[[], float] = lambda: 0.0
        self._gates: list[asyncio.Event] = []  # of each connection; set: it passes on
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._holds_new = False

    async def __aenter__(self) -> TcpProxy:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def hold(self, *, new_too: bool) -> None:
        """Keep what comes on every connection. new_too: also on those that begin later."""
        self._holds_new = new_too
        for gate in self._gates:
            gate.clear()

    def release(self) -> None:
        """Pass on what was held, even from and to those who have gone meanwhile."""
        self._holds_new = False
        for gate in self._gates:
            gate.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        gate = asyncio.Event()
        if not self._holds_new:
            gate.set()
        self._gates.append(gate)
        writers = [writer]
        try:
            there_reader, there_writer = await asyncio.open_connection(LOOPBACK, self._target)
            writers.append(there_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, there_writer, gate, lambda: 0.0))
                both.create_task(_pass_on(there_reader, writer, gate, self._answer_delay))
        except (OSError, asyncio.CancelledError):
            pass  # the end of the proxy, or no target
        finally:
            self._gates.remove(gate)
            for one in writers:
                one.transport.abort()
            await asyncio.gather(*(one.wait_closed() for one in writers), return_exceptions=True)

    def _answer_delay(self) -> float:
        return self.answer_delay()


async def _pass_on(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    gate: asyncio.Event,
    delay: Callable[[], float],
) -> None:
    """Read on while pieces are held; close the other side behind the last of them."""
    loop = asyncio.get_running_loop()
    pieces = deque[tuple[float, bytes]]()
    news = asyncio.Event()

    async def read() -> None:
        with suppress(OSError):
            while piece := await reader.read(65536):
                pieces.append((loop.time() + delay(), piece))
                news.set()
        pieces.append((0.0, b""))
        news.set()

    async def write() -> None:
        while True:
            while not pieces:
                news.clear()
                await news.wait()
            due, piece = pieces.popleft()
            await asyncio.sleep(max(0.0, due - loop.time()))
            await gate.wait()
            if not piece:
                break
            with suppress(OSError):
                writer.write(piece)
                await writer.drain()
        writer.close()

    async with asyncio.TaskGroup() as both:
        both.create_task(read())
        both.create_task(write())
