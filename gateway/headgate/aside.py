"""A process aside for what holds the interpreter's lock: parsing a document of megabytes.

It is started by the first call and ended when nothing was asked for a while, for its memory is
part of the worker's. It may die or hang: whoever asked is told that there is no answer.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import active_children, get_context
from typing import Any, NamedTuple, ParamSpec, TypeVar

log = logging.getLogger(__name__)

PATIENCE_S = 10.0  # without any answer while some are due: 800 kB take 20-40 ms, a start 1 s
_IDLE_S = 60.0

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class _Started(NamedTuple):
    pool: ProcessPoolExecutor
    processes: list[Any]  # multiprocessing's own; killed at the end, for one that hangs never ends


class Aside:
    """One process for one event loop; work is done in the order in which it came.

    prepare: run in the new process before anything else (it must end with its parent).
    What waits here is bounded by what admission has let in.
    """

    def __init__(self, prepare: Callable[[], None], patience_s: float = PATIENCE_S) -> None:
        self._prepare = prepare
        self._patience_s = patience_s
        self._started: _Started | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._open = 0
        self._ended = 0  # answers since the last look
        self._idle_looks = 0

    def ask(
        self, work: Callable[Given, Answer], *args: Given.args, **kwargs: Given.kwargs
    ) -> "asyncio.Future[Answer | None]":
        """Do this work there: a plain function of a module, and arguments that can be pickled.

        The future ends with what the function returns, or with None when the process was lost.
        """
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        try:
            theirs = self._submit(partial(work, *args, **kwargs))
        except (BrokenProcessPool, OSError) as error:  # no memory, no more processes
            log.error("no process aside: %s", error)  # noqa: TRY400 - a traceback tells no more
            answer.set_result(None)
            return answer
        self._open += 1
        asyncio.wrap_future(theirs).add_done_callback(partial(self._end, answer, self._started))
        return answer

    def close(self) -> None:
        """End the process; what it was asked and has not answered is lost."""
        started, self._started = self._started, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if started is not None:
            started.pool.shutdown(wait=False, cancel_futures=True)
            for process in started.processes:
                process.kill()

    @property
    def is_running(self) -> bool:
        """Whether there is a process now."""
        return self._started is not None

    def _submit(self, work: Callable[[], Answer]) -> "Future[Answer]":
        try:
            return self._start().pool.submit(work)
        except BrokenProcessPool:  # it died while nobody waited for it
            self.close()
            return self._start().pool.submit(work)

    def _start(self) -> _Started:
        if self._started is None:
            before = active_children()
            pool = ProcessPoolExecutor(1, get_context("spawn"), self._prepare)
            pool.submit(int)  # the pool starts its process with the first call
            processes = [each for each in active_children() if each not in before]
            self._started = _Started(pool, processes)
            self._idle_looks = 0
            self._look_later()
        return self._started

    def _end(
        self,
        answer: "asyncio.Future[Answer | None]",
        started: _Started | None,
        theirs: "asyncio.Future[Answer]",
    ) -> None:
        self._open -= 1
        self._ended += 1
        error = None if theirs.cancelled() else theirs.exception()
        found = None if theirs.cancelled() or error is not None else theirs.result()
        if isinstance(error, BrokenProcessPool):
            log.error("the process aside died")
            if self._started is started:
                self.close()
        elif error is not None:
            log.error("the process aside failed", exc_info=error)
        if not answer.done():
            answer.set_result(found)

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._patience_s, self._look)

    def _look(self) -> None:
        """Now and then: does it still answer, is it still needed?"""
        self._timer = None
        is_silent, self._ended = not self._ended, 0
        self._idle_looks = 0 if self._open or not is_silent else self._idle_looks + 1
        if self._open and is_silent:
            log.error("the process aside hangs and is ended", extra={"open": self._open})
            self.close()
        elif self._idle_looks * self._patience_s >= _IDLE_S:
            self.close()
        else:
            self._look_later()
