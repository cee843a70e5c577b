"""Reloads of the configuration in a thread, so that no request waits; and the process' memory."""

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from headgate.backends.owned import OwnedTasks
from headgate.backends.system import give_back
from headgate.config import HttpSettings, Settings, reloadable
from headgate.config.settings import AuthSettings
from headgate.http.auth import AttemptLimit, Authenticator, Origins
from headgate.metrics.meter import memory_bytes
from headgate.model.policy import PolicyTable

if TYPE_CHECKING:
    from headgate.http.jwt import CheckedTokens, FetchedKeys


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
    authenticator: Authenticator

    def parts(self) -> list[object]:
        """Return all parts of which there are many."""
        identities = self.authenticator.identities()
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
    authenticator_of: Callable[[Settings], Authenticator],
    topics: Iterable[str] = (),
) -> Reload:
    """Return the reload of new settings; for a thread.

    Args:
        old: The active settings.
        new: The new settings.
        authenticator_of: Returns the authenticator of new settings.
        topics: Names of existing topics; a look-up of their policies compiles the globs.

    Raises:
        RestartNeededError: The new settings change options that need a restart.
    """
    if fixed := reloadable(old, new):
        raise RestartNeededError(fixed)
    policies = PolicyTable(new.topics)
    for topic in topics:
        policies.match(topic)
    return Reload(new, policies, authenticator_of(new))


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


class Authenticators:
    """A factory of authenticators, one for each configuration; keys, attempts and uses stay.

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
        self._last_used: dict[bytes, float] = {}
        self._keys: FetchedKeys | None = None
        self._signed: CheckedTokens | None = None
        if "jwt" in auth.mode:
            self._keys, self._signed = _signed_tokens(auth, report)

    def of(self, settings: Settings) -> Authenticator:
        """Return an authenticator for these settings. May be called in a thread."""
        origins = self._origins(settings.http)
        return Authenticator(
            settings.auth,
            settings.producers,
            origins,
            self._attempts,
            self._signed,
            last_used=self._last_used,
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
) -> "tuple[FetchedKeys, CheckedTokens]":
    # An extra of the package, needed only for signed tokens.
    from headgate.http.jwt import CheckedTokens, FetchedKeys

    keys = FetchedKeys(auth, report, time.time)
    return keys, CheckedTokens(auth, keys, time.time)


# ---- memory: the garbage collector, and the return of memory to the system
#
# Events make many objects and no cycles, so the collector runs rarely. After a backlog, cycles are
# collected and freed memory is returned to the system.


def spare_the_collector() -> None:
    """Let the cyclic garbage collector run rarely: events make many objects and no cycles.

    Other cycles are collected when it pays (`give_back_leftovers`).

    Measured with batches of 50, this saves 10 % of the CPU (loadtest/README.md). With 100,000 held
    events a full collection takes 50 ms. All existing objects are frozen, so that the collector
    skips them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@contextmanager
def without_the_collector() -> Iterator[None]:
    """Disable the collector while long-lived objects are made.

    10,000 sections of a configuration trigger several collections of 10 to 30 ms each, and every
    thread that needs the interpreter's lock waits as long. Reference counting still frees dropped
    objects. Cycles that other threads drop in these one or two seconds are never freed.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


_LOOK_S = 1.0
_WORTH_BYTES = 16 * 2**20  # less varies with the load, and would be allocated again
_QUIET_LOOKS = 5  # longer than the pauses of a bursty load


class Leftovers:
    """A decision when to return memory.

    Args:
        resident: Bytes in memory at the start.
    """

    def __init__(self, resident: float) -> None:
        self._usual = resident
        self._quiet = 0

    def are_worth_it(self, resident: float, in_flight: int) -> bool:
        """Take a look, and return whether memory should be returned now.

        Args:
            resident: Bytes in memory.
            in_flight: Bytes of events in flight.
        """
        self._usual = min(self._usual, resident)
        grown = resident - self._usual
        is_quiet = grown > _WORTH_BYTES and in_flight < grown / 8
        self._quiet = self._quiet + 1 if is_quiet else 0
        return self._quiet >= _QUIET_LOOKS

    def given_back(self, resident: float) -> None:
        """Restart from the memory that could not be returned: only further growth counts."""
        self._usual = resident
        self._quiet = 0


async def give_back_leftovers(in_flight: Callable[[], int]) -> None:
    """Look every second until cancelled, and return memory when it pays.

    While Kafka does not answer, 100,000 events of 650 bytes (`admission.in_flight_max_events`) take
    250 MiB. glibc keeps most of it after they have ended: 321 MiB stayed resident, and 161 MiB
    after malloc_trim, which took 14 ms of a thread.

    Cycles are collected first. Events leave none, but each connection that a broker refuses does
    (aiokafka's exceptions refer to their frames): 122 of them, with their read buffers, held 10 MiB
    after three minutes with brokers down. The collector takes milliseconds, and runs only when
    little is in flight.

    Args:
        in_flight: Returns the bytes of events in flight.
    """
    leftovers = Leftovers(memory_bytes())
    while True:
        await asyncio.sleep(_LOOK_S)
        if leftovers.are_worth_it(memory_bytes(), in_flight()):
            gc.collect()
            await asyncio.to_thread(give_back)
            leftovers.given_back(memory_bytes())
