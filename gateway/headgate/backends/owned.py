"""Tasks with an owner, which ends the tasks that it spawned."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger("headgate.backends")

_RESTART_S = 1.0


class OwnedTasks:
    """The tasks of one backend object, from its `start()` to its `close()`.

    A TaskGroup is bound to the task that entered it, but different tasks of the composition root
    may start and close a backend.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` until it ends or the owner does; log its failure."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
        """Run `work()` to its end; after an error, log it and restart in a second."""
        return self.spawn(_kept(work, name), name)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task %s failed", task.get_name(), exc_info=error)

    async def finish(self, deadline_s: float) -> None:
        """Wait for all to end by themselves, at most `deadline_s` seconds."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=deadline_s)

    async def end(self, deadline_s: float) -> None:
        """Cancel all and wait for them, at most `deadline_s` seconds."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=deadline_s)


async def _kept(work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    while True:
        try:
            await work()
        except Exception:
            log.exception("task %s failed and continues", name)
            await asyncio.sleep(_RESTART_S)
        else:
            return
