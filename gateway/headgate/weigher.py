"""Weighs oversize documents in a process of its own: parsing holds the interpreter's lock."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from headgate.core.weigh import Weight, heaviest

INLINE_BYTES = 65_536  # below, weighing takes less than the hop to another process
_PATIENCE_S = 5.0  # an answer without paths is better than one that comes too late


class PoolWeigher:
    """One process, started by the first large document."""

    def __init__(self, prepare: Callable[[], None]) -> None:
        """prepare: run in the new process before anything else (it must end with its parent)."""
        self._prepare = prepare
        self._pool: ProcessPoolExecutor | None = None

    async def weigh(self, document: bytes) -> list[Weight]:
        if len(document) <= INLINE_BYTES:
            return heaviest(document)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await loop.run_in_executor(self._executor(), heaviest, document)
        except (TimeoutError, BrokenProcessPool):
            self.close()
            return []

    def _executor(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, get_context("spawn"), self._prepare)
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
