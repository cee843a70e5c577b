"""A consumer that commits only events that are done, never backwards, and stays paused.

    async with Consumer("orders", group="billing", bootstrap="127.0.0.1:9092") as consumer:
        async for event in consumer:
            await book(event)
            event.done()

Several tasks may iterate over one consumer: events of one key are handed out one after the other,
those of different keys side by side. `run` does that with a handler.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from headgate.backends.owned import OwnedTasks
from headgate.consumer.assignment import Assignment
from headgate.consumer.commits import OffsetStore
from headgate.consumer.failures import Failures
from headgate.consumer.membership import Membership
from headgate.consumer.options import ConsumerOptions, Counts, refuse_unknown
from headgate.consumer.ownership import Owned
from headgate.consumer.partition import Received
from headgate.errors_in_words import connection_error
from headgate.kafka.options import ClusterOptions
from headgate.model.times import Outage
from headgate.redis.pauses import Intent, Pauses, PauseScope, RedisPauses

log = logging.getLogger("headgate.consumer")

_REJOIN_S, _PAUSE_POLL_S = 1.0, 1.0
_CLOSE_S, _CANCEL_S = 5.0, 5.0

Events = AsyncIterator[Received]
Handler = Callable[[Received], Awaitable[None]]


class Consumer:
    """A member of `group` for these topics. See the module.

    Args:
        topics: At least one.
        group: Id of the group.
        bootstrap: `host:port[,...]`, or `ClusterOptions` for TLS or SASL.
        options: Default: `ConsumerOptions()`.
        pauses: A store of pause intent that others write to (`RedisPauses`). No event is handed out
            before it was read once; while it is unavailable, the last intent holds.
        offsets: A store of offsets beside the group's commits: `SqlOffsets`.
    """

    def __new__(cls, *_: object, **given: object) -> Self:
        """Refuse an unknown argument with the fix."""
        refuse_unknown("Consumer", given, ("group", "bootstrap", "options", "pauses", "offsets"))
        return super().__new__(cls)

    def __init__(
        self,
        *topics: str,
        group: str,
        bootstrap: str | ClusterOptions,
        options: ConsumerOptions | None = None,
        pauses: RedisPauses | None = None,
        offsets: OffsetStore | None = None,
    ) -> None:
        if not topics:
            raise ValueError("Consumer: name at least one topic")
        self.group = group
        self.options = options or ConsumerOptions()
        self.counts = Counts()
        self._topics = topics
        self._offsets = offsets
        self._store = pauses
        self._pauses = Pauses()
        self._outage = Outage(time.monotonic)
        cluster = bootstrap if isinstance(bootstrap, ClusterOptions) else ClusterOptions(bootstrap)
        self._failures = Failures(cluster, self.options.retries, self.options.client_id)
        revoke_ms = round((self.options.drain_s + _CLOSE_S) * 1000)
        self._membership = Membership(
            cluster, group, self.options, self, revoke_ms, reads_pauses=pauses is not None
        )
        self._assignment: Assignment | None = None
        self._tasks = OwnedTasks()
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()
        self._error: BaseException | None = None

    # ---- life

    async def __aenter__(self) -> Self:
        await self._failures.start()
        try:
            if self._store is not None:
                await self._read_store(self._store)
        except BaseException:  # __aexit__ will not be called
            await self._failures.close()
            raise
        self._tasks.spawn(self._be_member(), f"member of {self.group}")
        if self._store is not None:
            self._tasks.keep(partial(self._watch_store, self._store), "pause intent")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        drain_s = self.options.drain_s + 3 * _CLOSE_S
        await self._tasks.finish(drain_s)
        await self._tasks.end(_CLOSE_S)
        await self._failures.close()

    def stop(self) -> None:
        """Hand out nothing more. Iterations end; leaving the `async with` drains and commits."""
        self._stop.set()
        self._wake.set()

    async def _be_member(self) -> None:
        while not self._stop.is_set():
            try:
                await self._membership.hold(self._topics, self._stop)
            except (KafkaError, OSError, TimeoutError) as error:
                why, name = connection_error(error), self.options.client_id
                log.warning("%s rejoins its group: %s", name, why, extra={"group": self.group})
                await asyncio.sleep(_REJOIN_S)
            except Exception as error:  # the outermost frame of this task
                self.give_up(error)

    # ---- events

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        """Return the next event. Raises the error that ended the consumer, such as GaveUpError."""
        while True:
            if self._error is not None:
                raise self._error
            if self._stop.is_set():
                raise StopAsyncIteration
            received = self._assignment.next() if self._assignment is not None else None
            if received is not None:
                return received
            self._wake.clear()
            await self._wake.wait()

    async def run(self, handler: Callable[[Received], Awaitable[None]], tasks: int = 16) -> None:
        """Call `handler` for each event, with so many at a time, until `stop` or an error.

        An event is done when the handler returns, and has failed when it raises.

        After `stop`, handlers in flight have `drain_s` to return; then they are cancelled, and this
        method ends. The event of a cancelled handler is neither done nor failed: its offset is not
        committed, and the partition's next owner gets it, with later events of its key. (A handler
        that resists its cancellation is abandoned a few seconds later.)

        An error that ends the consumer comes in an ExceptionGroup. Then handlers in flight are
        cancelled at once, and their events come again, too.
        """
        await work(self, handler, tasks, self._stop, self.options.drain_s)

    async def commit(self) -> None:
        """Commit all events that are done now, before the next interval."""
        if self._assignment is not None:
            await self._assignment.commit()

    # ---- pauses

    def pause(self, reason: str, topic: str | None = None, partition: int | None = None) -> None:
        """Hand out nothing more of all, a topic or a partition, until this reason is resumed.

        It holds across rebalances, also for partitions that are not assigned now.
        """
        if self._pauses.pause(PauseScope(topic, partition), reason):
            self._apply_pauses()

    def resume(self, reason: str, topic: str | None = None, partition: int | None = None) -> None:
        """Remove one reason. Others for the same partitions still hold."""
        if self._pauses.resume(PauseScope(topic, partition), reason):
            self._apply_pauses()

    def intents(self) -> list[Intent]:
        """Return every reason not to read: the consumer's own and the store's."""
        return self._pauses.intents()

    def _apply_pauses(self) -> None:
        if self._assignment is not None:
            self._assignment.apply_pauses()

    async def _read_store(self, store: RedisPauses) -> None:
        while not self._stop.is_set():
            if await self._stored(store, "no event is handed out before they were") is not None:
                return
            await asyncio.sleep(_PAUSE_POLL_S)

    async def _watch_store(self, store: RedisPauses) -> None:
        while not self._stop.is_set():
            await asyncio.sleep(_PAUSE_POLL_S)
            if await self._stored(store, "the last known ones stay active"):
                self._apply_pauses()

    async def _stored(self, store: RedisPauses, effect: str) -> bool | None:
        """Read the stored pauses; return whether they changed, None if that failed."""
        group = {"group": self.group}
        try:
            intents = await store.intents(self.group)
        except OSError as error:
            if self._outage.begins():
                log.warning("pauses cannot be read, and %s: %s", effect, error, extra=group)
            return None
        if (away_s := self._outage.ends()) is not None:
            log.info("pauses can be read again", extra={**group, "away_s": away_s})
        return self._pauses.store_says(intents)

    # ---- membership.Holder

    def assigned(self, consumer: AIOKafkaConsumer, owned: Iterable[Owned]) -> None:
        """Begin an assignment. There must be no await between it and the pauses."""
        self._assignment = Assignment(
            consumer,
            self._membership.ownership,
            owned,
            self.options,
            self._pauses,
            self.counts,
            self._wake.set,
            self.give_up,
            self._failures,
            self._offsets,
        )
        self._assignment.begin()

    async def ending(self) -> None:
        """End the assignment, while its terms of ownership still last."""
        assignment, self._assignment = self._assignment, None
        if assignment is not None:
            await assignment.end()

    async def revoked(self) -> None:
        """Do nothing: `ending` came first."""

    def give_up(self, error: BaseException) -> None:
        """End the consumer: iterations raise this error."""
        self._error = error
        self.stop()


async def work(
    events: Events, handler: Handler, tasks: int, stop: asyncio.Event, drain_s: float
) -> None:
    """Handle events with so many tasks at a time, until there are no more.

    After `stop`, handlers in flight have `drain_s` to end. Then they are cancelled, and abandoned
    if they still do not end. Errors of `events` are raised as an ExceptionGroup; then handlers in
    flight are cancelled at once.
    """
    end = asyncio.create_task(_end(events, stop), name="end of the events")
    workers = [
        asyncio.create_task(_handle_all(events, handler), name=f"handler {number}")
        for number in range(tasks)
    ]
    every = [end, *workers]
    try:
        await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        if not _errors(every):
            await asyncio.wait(every, timeout=drain_s, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await _cancel(every)
    if errors := _errors(every):
        raise BaseExceptionGroup("the consumer cannot go on", errors)


async def _end(events: Events, stop: asyncio.Event) -> None:
    """Raise the error that ended the events, also while all workers are busy."""
    await stop.wait()
    await anext(events, None)


async def _handle_all(events: Events, handler: Handler) -> None:
    async for event in events:
        try:
            await handler(event)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # It came from within the handler, such as from a task that it waited for.
            log.warning("handler cancelled itself for %r", event)
            event.failed(error)
        except Exception as error:  # the application's handler may raise anything
            log.exception("handler failed for %r", event)
            event.failed(error)
        else:
            event.done()


def _errors(tasks: list[asyncio.Task[None]]) -> list[BaseException]:
    ended = [task for task in tasks if task.done() and not task.cancelled()]
    # Each task that waits for an event raises the same error.
    return list(dict.fromkeys(error for task in ended if (error := task.exception()) is not None))


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        _, unfinished = await asyncio.wait(running, timeout=_CANCEL_S)
        for task in unfinished:
            log.error("%s continues after its cancellation and is abandoned", task.get_name())
