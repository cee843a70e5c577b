"""A TCP proxy that can do to its connections what networks do."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

from headgate.devstack.ports import LOOPBACK
from support.network.accepting import accepting


class TcpProxy:
    """Forwards `port` to `target`, which may change; each direction in its order.

    request_delay, answer_delay: seconds that a piece to or from the target is under way. Pieces do
    not wait for each other: a large answer takes no longer than a small one.
    """

    def __init__(self, port: int, target: int) -> None:
        self.port, self.target = port, target
        self.request_delay: Callable[[], float] = _at_once
        self.answer_delay: Callable[[], float] = _at_once
        self._passing: set[_Passing] = set()
        self._end = AsyncExitStack()
        self._holds_new = self._is_cut = self._loses = False

    async def __aenter__(self) -> TcpProxy:
        await self._end.enter_async_context(accepting(self._accept, self.port))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end.aclose()

    def hold(self, *, new_too: bool) -> None:
        """Keep what comes on every connection. new_too: also on those that begin later."""
        self._holds_new = new_too
        for one in self._passing:
            one.gate.clear()

    def release(self) -> None:
        """Pass on what was held, even from and to those who have gone meanwhile."""
        self._holds_new = False
        for one in self._passing:
            one.gate.set()

    def cut(self) -> None:
        """Reset every connection, those that begin later too, until `mend`."""
        self._is_cut = True
        self.reset()

    def reset(self) -> None:
        """Reset the connections there are."""
        for one in list(self._passing):
            one.abort()

    def lose(self) -> None:
        """Lose whatever comes, and close nothing: each side takes the connection for open."""
        self._loses = True
        for one in self._passing:
            one.loses = True

    def mend(self) -> None:
        """End `hold`, `cut`, `lose` and delays. What has lost anything is reset."""
        self._is_cut = self._loses = False
        self.request_delay = self.answer_delay = _at_once
        for one in list(self._passing):
            if one.loses:
                one.abort()
        self.release()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        passing = _Passing(writer, is_held=self._holds_new, loses=self._loses)
        self._passing.add(passing)
        try:
            there_reader, there_writer = await asyncio.open_connection(LOOPBACK, self.target)
            passing.writers.append(there_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(passing.on(reader, there_writer, lambda: self.request_delay()))
                both.create_task(passing.on(there_reader, writer, lambda: self.answer_delay()))
        except (OSError, asyncio.CancelledError):
            pass  # the end of the proxy, or no target
        finally:
            self._passing.remove(passing)
            passing.abort()
            await asyncio.gather(
                *(one.wait_closed() for one in passing.writers), return_exceptions=True
            )


class _Passing:
    """One connection. gate: set = it passes on."""

    def __init__(self, writer: asyncio.StreamWriter, *, is_held: bool, loses: bool) -> None:
        self.writers = [writer]
        self.loses = loses
        self.gate = asyncio.Event()
        if not is_held:
            self.gate.set()

    def abort(self) -> None:
        for one in self.writers:
            one.transport.abort()

    async def on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
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
                await self.gate.wait()
                if not piece:
                    break
                if self.loses:
                    continue
                with suppress(OSError):
                    writer.write(piece)
                    await writer.drain()
            if not self.loses:
                writer.close()

        async with asyncio.TaskGroup() as both:
            both.create_task(read())
            both.create_task(write())


def _at_once() -> float:
    return 0.0
