"""Sends in the background, from threads: events are taken at once and go in batches."""

import threading
import time
from types import TracebackType
from typing import Final

from headgate_client.buffered import LONGEST_WAIT_S, LaneOf, WhenFull, lane_for, tell_by_topic
from headgate_client.client import Client
from headgate_client.core.answer import Answer
from headgate_client.core.encode import check_topic
from headgate_client.core.lanes import Entry
from headgate_client.core.outbox import Load, Outbox
from headgate_client.errors import BufferFullError, ClosedError
from headgate_client.outcomes import Outcome
from headgate_client.settings import Buffering


class Pending:
    """An event that a producer has taken."""

    __slots__ = ("_ended", "outcome", "topic")

    def __init__(self, topic: str, ended: threading.Condition) -> None:
        self.topic: Final = topic
        self.outcome: Outcome | None = None
        self._ended = ended

    def result(self, timeout_s: float | None = None) -> Outcome:
        """Wait for its outcome. Raises TimeoutError."""
        with self._ended:
            if not self._ended.wait_for(lambda: self.outcome is not None, timeout_s):
                raise TimeoutError(f"no outcome within {timeout_s} s")
        assert self.outcome is not None  # waited for
        return self.outcome

    def end(self, outcome: Outcome) -> None:
        """Have its outcome; the producer wakes who waits."""
        self.outcome = outcome


class BufferedProducer:
    """Takes events at once and sends them in batches, in the order of each key.

        with Client("http://127.0.0.1:8080") as client, BufferedProducer(client) as producer:
            producer.send("orders", {"order_id": 1})

    Threads may share it.  lane_of: for events without a key of their own: what their order hangs
    on, as the value at the topic's pointer. Without it all such events of a topic go one request
    after another.  when_full: wait for room, or raise BufferFullError.
    """

    def __init__(
        self,
        client: Client,
        *,
        buffering: Buffering | None = None,
        lane_of: LaneOf | None = None,
        when_full: WhenFull = "wait",
    ) -> None:
        buffering = buffering or Buffering()
        self._client, self._wire = client, client.wire
        self._lane_of, self._when_full = lane_of, when_full
        self._outbox = Outbox(self._wire.retry, self._wire.limits, buffering, self._wire.chances)
        lock = threading.Lock()
        self._due = threading.Condition(lock)  # there may be something to post
        self._ended = threading.Condition(lock)  # events have ended
        self._is_closed = self._is_over = False
        self._threads = [
            threading.Thread(target=self._work, name=f"headgate-client-{number}", daemon=True)
            for number in range(buffering.in_flight)
        ]
        for thread in self._threads:
            thread.start()

    def send(self, topic: str, event: object, *, timeout_s: float | None = None) -> Pending:
        """Take an event: a JSON value, an `Event` or a `CloudEvent`.

        timeout_s: how long to wait for room; then BufferFullError is raised.
        """
        part = self._wire.part(event)
        lane = lane_for(part, topic, event, self._lane_of)
        pending = Pending(check_topic(topic), self._ended)
        if self._when_full == "raise":
            timeout_s = 0.0
        with self._due:
            has_room = self._outbox.has_room(part) or self._ended.wait_for(
                lambda: self._is_closed or self._outbox.has_room(part), timeout_s
            )
            if self._is_closed:
                raise ClosedError("the producer is closed")
            if not has_room:
                raise BufferFullError(f"{self._outbox.events} events wait; nothing was taken")
            if self._outbox.add(topic, part, lane, time.monotonic(), pending.end):
                self._due.notify()
        return pending

    @property
    def events(self) -> int:
        """How many events have no outcome yet."""
        return self._outbox.events

    def flush(self, timeout_s: float | None = None) -> bool:
        """Send what is there without waiting for more; return whether all of it has ended."""
        with self._due:
            number = self._outbox.flush()
            self._due.notify_all()
            return self._ended.wait_for(lambda: self._outbox.is_flushed(number), timeout_s)

    def close(self, timeout_s: float | None = None) -> bool:
        """Take no more events, and flush. What has not ended then ends as `not_sent` or unknown.

        Returns whether all events ended by themselves.
        """
        with self._due:
            self._is_closed = True
            self._ended.notify_all()
        is_flushed = self.flush(timeout_s)
        with self._due:
            self._is_over = True
            ended = self._settle(self._outbox.abandon("the producer was closed"))
            self._due.notify_all()
        tell_by_topic(self._wire.observer, ended)
        if is_flushed:  # else one of them still waits for an answer
            for thread in self._threads:
                thread.join()
        return is_flushed

    def __enter__(self) -> "BufferedProducer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _work(self) -> None:
        while (load := self._next()) is not None:
            answer = self._client.post(load.delivery.post())
            tell_by_topic(self._wire.observer, self._answered(load, answer))

    def _next(self) -> Load | None:
        """Wait for what is to be posted; None at the end."""
        with self._due:
            while not self._is_over:
                taken = self._outbox.take(time.monotonic())
                if isinstance(taken, Load):
                    self._due.notify()  # there may be more of it, for another thread
                    return taken
                self._due.wait(min(taken, LONGEST_WAIT_S))
        return None

    def _answered(self, load: Load, answer: Answer) -> list[Outcome]:
        with self._due:
            ended = self._settle(self._outbox.answered(load, answer, time.monotonic()))
            self._due.notify()  # lanes are free
        return ended

    def _settle(self, ended: list[tuple[Entry, Outcome]]) -> list[Outcome]:
        for entry, outcome in ended:
            entry.done(outcome)
        if ended:
            self._ended.notify_all()
        return [outcome for _, outcome in ended]
