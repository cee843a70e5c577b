"""A helper process for work that holds the interpreter's lock, such as parsing megabytes of JSON.

The first call starts the process. It ends after a time without calls, because its memory counts
as the worker's. If it dies or hangs, the result of each open call is None.

concurrent.futures does not fit: its start blocks the event loop for 12-50 ms (1 ms here), it
needs one more process, and a shutdown at the wrong time breaks the interpreter's own.
"""

import asyncio
import logging
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, BinaryIO, ParamSpec, TypeVar, cast

from headgate.formats.json_text import Weight, heaviest

log = logging.getLogger("headgate.offload")

PATIENCE_S = 10.0  # without a result while calls are open: 800 kB take 10-60 ms, a start 0.3 s
_IDLE_S = 60.0

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
OnResult = Callable[["_Process", int, Any], None]


class HelperProcess:
    """One helper process for one event loop; it runs calls in the order of their arrival.

    The requests that admission has let in bound the queue.

    Args:
        patience_s: Longest time without a result while calls are open, in seconds.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._process: _Process | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._last_job = 0
        self._answered = 0  # results since the last check
        self._idle_s = 0.0

    def ask(
        self, work: Callable[Given, Answer], *args: Given.args, **kwargs: Given.kwargs
    ) -> "asyncio.Future[Answer | None]":
        """Call a function in the helper process.

        Args:
            work: Plain function of a module.
            *args: Its positional arguments, which must be picklable.
            **kwargs: Its keyword arguments, which must be picklable.

        Returns:
            A future of the function's result; None if the process was lost.
        """
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        try:
            process = self._process or self._start()
        except OSError as error:  # no memory, no more processes
            log.error("helper process cannot be started: %s", error)  # noqa: TRY400 - a traceback says no more
            answer.set_result(None)
            return answer
        self._last_job += 1
        self._open[self._last_job] = answer
        process.jobs.put((self._last_job, partial(work, *args, **kwargs)))
        return answer

    def close(self) -> None:
        """End the process; open calls end with None."""
        process, self._process = self._process, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if process is not None:
            process.end()
        lost, self._open = self._open, {}
        for answer in lost.values():
            if not answer.done():
                answer.set_result(None)

    @property
    def is_running(self) -> bool:
        """Return whether there is a process now."""
        return self._process is not None

    def _start(self) -> "_Process":
        self._process = _Process(asyncio.get_running_loop(), self._received)
        self._idle_s = 0.0
        self._check_later()
        return self._process

    def _received(self, process: "_Process", number: int, result: Any) -> None:
        """End the future of a call with its result.

        Args:
            process: Process that reports.
            number: Number of the call.
            result: Result and error of the call, or None if the process has ended.
        """
        if process is not self._process:
            return
        if result is None:
            log.error("helper process died", extra={"open": len(self._open)})
            self.close()
            return
        self._answered += 1
        value, error = result
        if error is not None:
            log.error("helper process failed", exc_info=error)
        answer = self._open.pop(number)
        if not answer.done():  # the caller may have given up
            answer.set_result(value)

    def _check_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._patience_s, self._check)

    def _check(self) -> None:
        """End the process if it hangs or has been idle for too long."""
        self._timer = None
        is_silent, self._answered = not self._answered, 0
        self._idle_s = 0.0 if self._open or not is_silent else self._idle_s + self._patience_s
        if self._open and is_silent:
            log.error("helper process hangs and is killed", extra={"open": len(self._open)})
            self.close()
        elif self._idle_s >= _IDLE_S:
            self.close()
        else:
            self._check_later()


class _Process:
    """One process and the thread of its socket: a pickle of megabytes fits in no buffer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, received: OnResult) -> None:
        self._loop = loop
        self._received = received
        self.jobs: SimpleQueue[tuple[int, Callable[[], Any]] | None] = SimpleQueue()
        ours, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            command = (sys.executable, "-m", "headgate.offload.helper_main", str(number))
            try:
                self._child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, pass_fds=(number,)
                )
            except OSError:
                ours.close()
                raise
        threading.Thread(target=self._talk, args=(ours,), name="aside", daemon=True).start()

    def end(self) -> None:
        """Kill the process, which also ends its thread."""
        self._child.kill()
        self.jobs.put(None)

    def _talk(self, connection: socket.socket) -> None:
        try:
            with (
                suppress(OSError, EOFError, pickle.UnpicklingError),
                connection,
                cast(BinaryIO, connection.makefile("rwb")) as stream,
            ):
                while (job := self.jobs.get()) is not None:
                    number, work = job
                    pickle.dump(work, stream, pickle.HIGHEST_PROTOCOL)
                    stream.flush()
                    self._deliver(number, pickle.load(stream))
        finally:
            self._child.kill()
            self._child.wait()
            self._deliver(0, None)

    def _deliver(self, number: int, result: Any) -> None:
        with suppress(RuntimeError):  # the event loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._received, self, number, result)


INLINE_BYTES = 65_536  # up to this size, weighing takes less time than the hop to the process
_PATIENCE_S = 5.0  # a response without paths is better than one that comes too late


class PoolWeigher:
    """A weigher of document members that sends long documents to the helper process."""

    def __init__(self, helper: HelperProcess) -> None:
        self._helper = helper

    async def weigh(self, document: bytes) -> list[Weight]:
        if len(document) <= INLINE_BYTES:
            return heaviest(document)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self._helper.ask(heaviest, document) or []
        except TimeoutError:
            return []
