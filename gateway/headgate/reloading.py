"""Reads the configuration anew beside a running event loop, so that no request waits for it."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, ParamSpec, TypeVar

from headgate.backends.owned import OwnedTasks
from headgate.collector import without_the_collector
from headgate.config import Settings, reloadable
from headgate.core.policy import PolicyTable
from headgate.edge.auth import Authenticator
from headgate.edge.origins import Origins

log = logging.getLogger(__name__)

_TURN_S = 0.0005
_END_S = 3.0

Given = ParamSpec("Given")
Result = TypeVar("Result")


class RestartNeededError(Exception):
    """The new file changes options that only a restart can change; `options` names them."""

    def __init__(self, options: list[str]) -> None:
        super().__init__(f"these options need a restart: {', '.join(options)}")
        self.options = options


class Reload(NamedTuple):
    """What a configuration in force consists of, as far as making it takes time."""

    settings: Settings
    policies: PolicyTable
    callers: Authenticator


def prepared(old: Settings, new: Settings, origins: Origins, topics: Iterable[str] = ()) -> Reload:
    """Make what follows from new settings; for a thread. Raises RestartNeededError.

    origins: see `Authenticator`.  topics: those that are there. Their policies are looked up, for
    that compiles the globs.
    """
    if fixed := reloadable(old, new):
        raise RestartNeededError(fixed)
    policies = PolicyTable(new.topics)
    for topic in topics:
        policies.match(topic)
    return Reload(new, policies, Authenticator(new.auth, new.producers, origins))


async def beside(
    work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
) -> Result:
    """Do work that only computes in a thread, without holding up the event loop.

    Whenever the loop's thread makes a system call the other one takes the interpreter's lock, and
    keeps it for a switch interval. Of the usual 5 ms a request would have to wait several.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_TURN_S)
    try:
        with without_the_collector():
            return await asyncio.to_thread(work, *args, **kwargs)
    finally:
        sys.setswitchinterval(usual)


class Reloading:
    """One reload at a time. What is asked for meanwhile is done once more, however often it was."""

    def __init__(self, reload: Callable[[], Awaitable[None]]) -> None:
        self._reload = reload
        self._tasks = OwnedTasks()
        self._is_running = False
        self._is_asked = False

    def ask(self) -> None:
        """Reload soon; the handler of SIGHUP."""
        self._is_asked = True
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run(), "reload")

    async def close(self) -> None:
        """End what is under way; bounded."""
        await self._tasks.end(_END_S)

    async def _run(self) -> None:
        try:
            while self._is_asked:
                self._is_asked = False
                try:
                    await self._reload()
                except Exception:
                    log.exception("the reload failed")
        finally:
            self._is_running = False
