"""Reloads of the configuration in a thread, so that no request waits."""

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from headgate.backends.owned import OwnedTasks
from headgate.config import HttpSettings, Settings, reloadable
from headgate.config.settings import AuthSettings
from headgate.http.auth import AttemptLimit, Authenticator, SignedTokens
from headgate.http.origins import Origins
from headgate.model.policy import PolicyTable
from headgate.wiring.memory import without_the_collector

if TYPE_CHECKING:
    from headgate.http.jwt import FetchedKeys


log = logging.getLogger("headgate.wiring")

_TURN_S = 0.0005
_AT_ONCE = 500
_END_S = 3.0

Given = ParamSpec("Given")
Result = TypeVar("Result")


class RestartNeededError(Exception):
    """A new file that changes options which need a restart; `options` names them."""

    def __init__(self, options: list[str]) -> None:
        super().__init__(f"these options need a restart: {', '.join(options)}")
        self.options = options


class Reload(NamedTuple):
    """The parts of an active configuration that take time to make."""

    settings: Settings
    policies: PolicyTable
    callers: Authenticator

    def parts(self) -> list[object]:
        """Return all parts of which there are many."""
        identities = self.callers.identities()
        return [*self.settings.producers.values(), *self.policies.policies, *identities]


async def free_in_turns(parts: list[object]) -> None:
    """Free parts that no container holds any more, with turns of the event loop in between.

    Dropping the last reference to a dict of 10,000 producers frees them all: 5 to 20 ms.
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
    """Return the reload of new settings; for a thread.

    Args:
        old: The active settings.
        new: The new settings.
        callers: Returns the authenticator of new settings.
        topics: Names of existing topics; a look-up of their policies compiles the globs.

    Raises:
        RestartNeededError: The new settings change options that need a restart.
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
    """Run computation in a thread without blocking the event loop.

    Whenever the loop's thread makes a system call, the other thread takes the interpreter's lock
    and keeps it for a switch interval. With the usual 5 ms a request would wait for several.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_TURN_S)
    try:
        with without_the_collector():
            return await asyncio.to_thread(work, *args, **kwargs)
    finally:
        sys.setswitchinterval(usual)


class Reloading:
    """One reload at a time. Requests during a reload cause one more, however many they are."""

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
        """End the current reload; bounded."""
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
    """A background task that prepares the routes of new topics, soon and in turns.

    A start, and a reload with new patterns, bring thousands at once, 50 us each. An event that
    arrives first prepares its own.
    """

    def __init__(self, prepare_in_turns: Callable[[Iterable[str]], Awaitable[None]]) -> None:
        self._prepare_in_turns = prepare_in_turns
        self._tasks = OwnedTasks()
        self._topics: list[str] = []

    def ask(self, topic: str) -> None:
        """Prepare this topic soon."""
        self._topics.append(topic)
        if len(self._topics) == 1:
            self._tasks.keep(self._run, "routes")

    async def finish(self) -> None:
        """Wait until all requested topics are prepared."""
        await self._tasks.finish(_END_S)

    async def close(self) -> None:
        """Stop; topics that are not prepared yet stay so."""
        await self._tasks.end(_END_S)

    async def _run(self) -> None:
        while self._topics:
            topics = tuple(self._topics)
            try:
                await self._prepare_in_turns(topics)
            finally:  # a topic that cannot be prepared must not block later ones
                del self._topics[: len(topics)]


# ---- authenticators

_FIRST_KEYS_S = 3.0


class Callers:
    """A factory of authenticators, one for each configuration; keys and attempts outlive them.

    Args:
        auth: The settings of authentication.
        origins: Returns the web origins that browsers may use.
        report: Called with the result of each fetch of keys.
    """

    def __init__(
        self,
        auth: AuthSettings,
        origins: Callable[[HttpSettings], Origins],
        report: Callable[[str], None],
    ) -> None:
        self._origins = origins
        self._attempts = AttemptLimit(auth.failed_attempts_per_minute)
        self._keys: FetchedKeys | None = None
        self._signed: SignedTokens | None = None
        if "jwt" in auth.mode:
            self._keys, self._signed = _signed_tokens(auth, report)

    def of(self, settings: Settings) -> Authenticator:
        """Return an authenticator for these settings. May be called in a thread."""
        origins = self._origins(settings.http)
        return Authenticator(
            settings.auth, settings.producers, origins, self._attempts, self._signed
        )

    async def start(self, tasks: OwnedTasks) -> None:
        """Begin to fetch keys, and wait briefly for the first: without keys tokens get 503."""
        if self._keys is not None:
            tasks.keep(self._keys.run, "the issuer's keys")
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_KEYS_S):
                    await self._keys.first.wait()


def _signed_tokens(
    auth: AuthSettings, report: Callable[[str], None]
) -> "tuple[FetchedKeys, SignedTokens]":
    # An extra of the package, needed only for signed tokens.
    from headgate.http.jwt import CheckedTokens, FetchedKeys

    keys = FetchedKeys(auth, report, time.time)
    return keys, CheckedTokens(auth, keys, time.time)
