"""Rereads the configuration beside a running event loop, so that no request waits for it."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, ParamSpec, TypeVar

from headgate.backends.owned import OwnedTasks
from headgate.config import Settings, reloadable
from headgate.core.topics.policy import PolicyTable
from headgate.edge.auth import Authenticator
from headgate.wiring.collector import without_the_collector

log = logging.getLogger("headgate.reloading")

_TURN_S = 0.0005
_AT_ONCE = 500
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

    def parts(self) -> list[object]:
        """All that it has many of."""
        identities = self.callers.identities()
        return [*self.settings.producers.values(), *self.policies.policies, *identities]


async def free_in_turns(parts: list[object]) -> None:
    """Let go of what is in no container any more, with turns of the event loop for others.

    Whoever drops the last reference to a dict of 10,000 producers frees them all: 5 to 20 ms.
    """
    while parts:
        del parts[-_AT_ONCE:]
        await asyncio.sleep(0)


def prepared(
    old: Settings,
    new: Settings,
    callers: Callable[[Settings], Authenticator],
    topics: Iterable[str] = (),
) -> Reload:
    """Make what follows from new settings; for a thread. Raises RestartNeededError.

    callers: knows those of new settings.  topics: those that are there. Their policies are looked
    up, for that compiles the globs.
    """
    if fixed := reloadable(old, new):
        raise RestartNeededError(fixed)
    policies = PolicyTable(new.topics)
    for topic in topics:
        policies.match(topic)
    return Reload(new, policies, callers(new))


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
        self._is_requested = False

    def ask(self) -> None:
        """Reload soon; the handler of SIGHUP."""
        self._is_requested = True
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run(), "reload")

    async def close(self) -> None:
        """End what is under way; bounded."""
        await self._tasks.end(_END_S)

    async def _run(self) -> None:
        try:
            while self._is_requested:
                self._is_requested = False
                try:
                    await self._reload()
                except Exception:
                    log.exception("reload failed")
        finally:
            self._is_running = False


class Preparing:
    """Prepares the routes of topics that are new, soon and in turns.

    A start, and a reload with new patterns, bring thousands at once, 50 us each. An event that
    comes first prepares its own.
    """

    def __init__(self, prepare_in_turns: Callable[[Iterable[str]], Awaitable[None]]) -> None:
        self._prepare_in_turns = prepare_in_turns
        self._tasks = OwnedTasks()
        self._topics: list[str] = []

    def ask(self, topic: str) -> None:
        """Prepare this one, too."""
        self._topics.append(topic)
        if len(self._topics) == 1:
            self._tasks.keep(self._run, "routes")

    async def finish(self) -> None:
        """Wait until all that was asked for is done."""
        await self._tasks.finish(_END_S)

    async def close(self) -> None:
        """Leave undone what is not done yet."""
        await self._tasks.end(_END_S)

    async def _run(self) -> None:
        while self._topics:
            topics = tuple(self._topics)
            try:
                await self._prepare_in_turns(topics)
            finally:  # what cannot be prepared must not keep later topics from it
                del self._topics[: len(topics)]
