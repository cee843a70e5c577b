"""Sends in the background, in a loop: events are taken at once and go in batches."""

import asyncio
import time
from contextlib import suppress
from types import TracebackType

from headgate_client.aio import AsyncClient
from headgate_client.buffered import LONGEST_WAIT_S, LaneOf, WhenFull, lane_for, tell_by_topic
from headgate_client.core.encode import Part, check_topic
from headgate_client.core.lanes import Entry
from headgate_client.core.outbox import Load, Outbox
from headgate_client.errors import BufferFullError, ClosedError
from headgate_client.outcomes import Outcome
from headgate_client.settings import Buffering


class AsyncBufferedProducer:
    """Takes events at once and sends them in batches, in the order of each key.

        async with AsyncClient("http://127.0.0.1:8080") as client:
            async with AsyncBufferedProducer(client) as producer:
                await producer.send("orders", {"order_id": 1})

    lane_of, when_full: see `BufferedProducer`. It is made where a loop runs, and stays in it.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        buffering: Buffering | None = None,
        lane_of: LaneOf | None = None,
        when_full: WhenFull = "wait",
    ) -> None:
        buffering = buffering or Buffering()
        self._client, self._wire = client, client.wire
        self._lane_of, self._when_full = lane_of, when_full
        self._outbox = Outbox(self._wire.retry, self._wire.limits, buffering, self._wire.chances)
        self._due = asyncio.Event()  # there may be something to post
        self._ended = asyncio.Event()  # events have ended; then there is another one
        self._is_closed = False
        self._tasks = [asyncio.create_task(self._work()) for _ in range(buffering.in_flight)]

    async def send(
        self, topic: str, event: object, *, timeout_s: float | None = None
    ) -> asyncio.Future[Outcome]:
        """Take an event: a JSON value, an `Event` or a `CloudEvent`. The future has its outcome.

        timeout_s: how long to wait for room; then BufferFullError is raised.
        """
        part = self._wire.part(event)
        lane = lane_for(part, check_topic(topic), event, self._lane_of)
        if not (self._is_closed or self._outbox.has_room(part)):
            await self._room(part, 0.0 if self._when_full == "raise" else timeout_s)
        if self._is_closed:
            raise ClosedError("the producer is closed")
        pending: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def end(outcome: Outcome) -> None:
            if not pending.done():  # who waits may have cancelled it
                pending.set_result(outcome)

        if self._outbox.add(topic, part, lane, time.monotonic(), end):
            self._due.set()
        return pending

    @property
    def events(self) -> int:
        """How many events have no outcome yet."""
        return self._outbox.events

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Send what is there without waiting for more; return whether all of it has ended."""
        number = self._outbox.flush()
        self._due.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self._outbox.is_flushed(number):
                    await self._ended.wait()
        return self._outbox.is_flushed(number)

    async def close(self, timeout_s: float | None = None) -> bool:
        """Take no more events, and flush. What has not ended then ends as `not_sent` or unknown.

        Returns whether all events ended by themselves.
        """
        self._is_closed = True
        self._wake()
        try:
            return await self.flush(timeout_s)
        finally:
            tell_by_topic(
                self._wire.observer,
                self._settle(self._outbox.abandon("the producer was closed")),
            )
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

    async def _room(self, part: Part, timeout_s: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not (self._is_closed or self._outbox.has_room(part)):
                    await self._ended.wait()
        if not (self._is_closed or self._outbox.has_room(part)):
            raise BufferFullError(f"{self._outbox.events} events wait; nothing was taken")

    async def _work(self) -> None:
        while True:
            taken = self._outbox.take(time.monotonic())
            if isinstance(taken, Load):
                await self._send(taken)
                continue
            self._due.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(taken, LONGEST_WAIT_S)):
                    await self._due.wait()

    async def _send(self, load: Load) -> None:
        answer = await self._client.post(load.delivery.post())
        ended = self._settle(self._outbox.answered(load, answer, time.monotonic()))
        self._due.set()  # lanes are free
        tell_by_topic(self._wire.observer, ended)

    def _settle(self, ended: list[tuple[Entry, Outcome]]) -> list[Outcome]:
        for entry, outcome in ended:
            entry.done(outcome)
        if ended:
            self._wake()
        return [outcome for _, outcome in ended]

    def _wake(self) -> None:
        """Wake whoever waits for events to end."""
        self._ended.set()
        self._ended = asyncio.Event()
