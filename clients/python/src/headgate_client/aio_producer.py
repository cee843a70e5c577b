"""Background sending with asyncio: the producer takes events at once and sends them in batches."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Unpack

from headgate_client.aio import AsyncClient
from headgate_client.buffered import (
    LONGEST_WAIT_S,
    ProducerConfig,
    ProducerOptions,
    check_client,
    full_text,
    resolve,
)
from headgate_client.core.encode import Part, as_event
from headgate_client.core.lanes import Entry
from headgate_client.core.outbox import Load, Outbox
from headgate_client.errors import BufferFullError, ClosedError
from headgate_client.habits import PRODUCER_HABITS, name_habits
from headgate_client.hooks import log, report_outcomes
from headgate_client.outcomes import Outcome
from headgate_client.settings import check_wait, explain_arguments

_LOOP_ENDED = "the event loop ended without close() of the producer"


@name_habits(PRODUCER_HABITS)
class AsyncBufferedProducer:
    """Takes events at once and sends them in batches, in the order of each key.

        async with AsyncClient("http://127.0.0.1:8080") as client:
            async with AsyncBufferedProducer(client) as producer:
                await producer.send("orders", {"order_id": 1})

    A producer belongs to the event loop in which it was made.

    Args:
        client: Client that sends the requests. Close it after the producer.
        options: See `ProducerOptions`.

    Raises:
        InvalidOptionError: An option does not exist or has an invalid value.
    """

    @explain_arguments("buffering=...")
    def __init__(self, client: AsyncClient, **options: Unpack[ProducerOptions]) -> None:
        check_client(client, AsyncClient, "BufferedProducer takes a Client")
        self._config = ProducerConfig.of(type(self).__name__, options)
        self._loop = asyncio.get_running_loop()
        self._client, self._wire = client, client.wire
        buffering = self._config.buffering
        self._outbox = Outbox(self._wire.retry, self._wire.limits, buffering, self._wire.chances)
        self._due = asyncio.Event()  # there may be something to send
        self._ended = asyncio.Event()  # events have ended; then a new object takes its place
        self._closed_because = ""
        self._tasks = [self._loop.create_task(self._work()) for _ in range(buffering.in_flight)]
        for task in self._tasks:  # one that is cancelled before it starts has no `finally`
            task.add_done_callback(lambda _: self._end(_LOOP_ENDED))

    @explain_arguments("key=...")
    async def send(
        self,
        topic: str,
        value: object,
        *,
        key: str | bytes | None = None,
        id: str | None = None,
        headers: Mapping[str, str] | None = None,
        timestamp: int | datetime | None = None,
        timeout_s: float | None = None,
    ) -> asyncio.Future[Outcome]:
        """Take one event and return a future of its outcome.

        The future never raises: a failure is an outcome, too, and is logged. Cancelling the future
        does not take the event back: it is sent, and a failure is logged.

        Args:
            topic: Kafka topic.
            value: Anything that JSON has, `RawJson`, bytes or `TOMBSTONE`; or an `Event` or
                `CloudEvent`, which has its own key, id, headers and timestamp.
            key: Record key. It overrides the topic's key rule.
            id: Event id. A topic with `dedupe_ttl_s` writes each id once.
            headers: Record headers.
            timestamp: Milliseconds since 1970, or a `datetime` with a time zone.
            timeout_s: Time limit for room in the buffer, in seconds. The default has no limit.

        Raises:
            InvalidEventError: An argument is invalid.
            BufferFullError: The buffer had no room within the time limit.
            ClosedError: The producer is closed.
        """
        check_wait(timeout_s)
        event = as_event(value, key, id, headers, timestamp)
        part = self._wire.part(event)
        lane = self._config.lane(topic, event, part)
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the producer belongs to another event loop; make one in this loop")
        if not (self._closed_because or self._outbox.has_room(part)):
            await self._room(part, timeout_s if self._config.waits else 0.0)
        if self._closed_because:
            raise ClosedError(self._closed_because)
        future: asyncio.Future[Outcome] = self._loop.create_future()

        def set_result(outcome: Outcome) -> None:
            if not future.done():  # the caller may have cancelled it
                future.set_result(outcome)

        if self._outbox.add(topic, part, lane, time.monotonic(), set_result):
            self._due.set()
        return future

    @property
    def events(self) -> int:
        """Number of events that have no outcome yet."""
        return self._outbox.events

    @property
    def bytes(self) -> int:
        """Memory of these events, about."""
        return self._outbox.bytes

    @explain_arguments("timeout_s=...")
    async def flush(self, timeout_s: float | None = None) -> bool:
        """Send all events that were taken so far, and wait for their outcomes.

        Args:
            timeout_s: Time limit, in seconds. The default has no limit.

        Returns:
            True if all of them have their outcomes.
        """
        check_wait(timeout_s)
        number = self._outbox.flush()
        self._due.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self._outbox.is_flushed(number):
                    await self._ended.wait()
        return self._outbox.is_flushed(number)

    @explain_arguments("timeout_s=...")
    async def close(self, timeout_s: float | None = None) -> bool:
        """Take no more events, send those that were taken, and stop the tasks.

        Args:
            timeout_s: Time limit, in seconds. Events that have no outcome by then end as
                `Rejected` (`not_sent`), or as `Unknown` if their request is under way.

        Returns:
            True if all events had their outcomes in time.
        """
        check_wait(timeout_s)
        self._closed_because = self._closed_because or "the producer is closed"
        self._wake()
        try:
            return await self.flush(timeout_s)
        finally:
            self._end("the producer was closed")
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> "AsyncBufferedProducer":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _end(self, detail: str) -> None:
        """End the events that have no outcome with the best knowledge."""
        self._closed_because = self._closed_because or detail
        self._settle(self._outbox.abandon(detail))
        with suppress(RuntimeError):  # the loop may be closed
            self._wake()

    async def _room(self, part: Part, timeout_s: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not (self._closed_because or self._outbox.has_room(part)):
                    await self._ended.wait()
        if not (self._closed_because or self._outbox.has_room(part)):
            raise BufferFullError(full_text(self._outbox.events, self._outbox.limit(part) or ""))

    async def _work(self) -> None:
        detail = _LOOP_ENDED
        try:
            while True:
                taken = self._outbox.take(time.monotonic())
                if isinstance(taken, Load):
                    await self._send(taken)
                    continue
                self._due.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(taken, LONGEST_WAIT_S)):
                        await self._due.wait()
        except Exception as error:
            log.exception("the sender task failed")
            detail = f"the sender task failed: {error!r}"
        finally:
            self._end(detail)

    async def _send(self, load: Load) -> None:
        answer = await self._client.post(load.delivery.post())
        ended = self._outbox.answered(load, answer, time.monotonic())
        self._due.set()  # lanes are free
        self._settle(ended)

    def _settle(self, ended: list[tuple[Entry, Outcome]]) -> None:
        resolve(ended)
        if ended:
            report_outcomes(self._wire.observer, [outcome for _, outcome in ended])
            self._wake()

    def _wake(self) -> None:
        """Wake the callers that wait for events to end."""
        self._ended.set()
        self._ended = asyncio.Event()
