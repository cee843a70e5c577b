"""Background sending from threads: the producer takes events at once and sends them in batches."""

import atexit
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import NoReturn, Unpack
from weakref import WeakSet

from headgate_client.buffered import (
    LONGEST_WAIT_S,
    ProducerConfig,
    ProducerOptions,
    check_client,
    full_text,
    resolve,
)
from headgate_client.client import Client
from headgate_client.core.answer import Answer
from headgate_client.core.encode import as_event
from headgate_client.core.lanes import Entry
from headgate_client.core.outbox import Load, Outbox
from headgate_client.errors import BufferFullError, ClosedError
from headgate_client.habits import PRODUCER_HABITS, name_habits
from headgate_client.hooks import log, report_outcomes
from headgate_client.outcomes import Outcome
from headgate_client.settings import check_wait, explain_arguments

_FUTURE_HABITS = {
    "get": "result(timeout=...)",
    "add_callback": "add_done_callback(function): it gets the future; result() is the outcome",
    "add_errback": "add_done_callback(function): a failure is an outcome, too",
}


class _Pending(Future[Outcome]):
    """The future of an event that was taken."""

    def cancel(self) -> bool:
        """Return False: the event is sent in any case."""
        return False

    def __getattr__(self, name: str) -> NoReturn:
        """Name the method for those that futures of kafka-python have."""
        fix = _FUTURE_HABITS.get(name)
        hint = "" if fix is None else f"; use {fix}"
        raise AttributeError(f"a future has no {name!r}{hint}")


@name_habits(PRODUCER_HABITS)
class BufferedProducer:
    """Takes events at once and sends them in batches, in the order of each key.

        with Client("http://127.0.0.1:8080") as client, BufferedProducer(client) as producer:
            producer.send("orders", {"order_id": 1})

    Threads may share a producer. A process that is forked needs a producer of its own.

    Args:
        client: Client that sends the requests. Close it after the producer.
        options: See `ProducerOptions`.

    Raises:
        InvalidOptionError: An option does not exist or has an invalid value.
    """

    @explain_arguments("buffering=...")
    def __init__(self, client: Client, **options: Unpack[ProducerOptions]) -> None:
        check_client(client, Client, "AsyncBufferedProducer takes an AsyncClient")
        self._config = ProducerConfig.of(type(self).__name__, options)
        self._client, self._wire = client, client.wire
        buffering = self._config.buffering
        self._outbox = Outbox(self._wire.retry, self._wire.limits, buffering, self._wire.chances)
        lock = threading.Lock()
        self._due = threading.Condition(lock)  # there may be something to send
        self._ended = threading.Condition(lock)  # futures have their outcomes
        self._resolving: list[int] = []  # oldest epoch of each batch whose futures are being set
        self._is_closed = self._is_over = False
        self._process = os.getpid()
        self._threads = [
            threading.Thread(target=self._work, name=f"headgate-client-{number}", daemon=True)
            for number in range(buffering.in_flight)
        ]
        _open_producers.add(self)
        for thread in self._threads:
            thread.start()

    @explain_arguments("key=...")
    def send(
        self,
        topic: str,
        value: object,
        *,
        key: str | bytes | None = None,
        id: str | None = None,
        headers: Mapping[str, str] | None = None,
        timestamp: int | datetime | None = None,
        timeout_s: float | None = None,
    ) -> Future[Outcome]:
        """Take one event and return a future of its outcome.

        The future never raises: a failure is an outcome, too, and is logged. The event cannot be
        taken back, so `cancel()` returns False. Callbacks run in a thread that sends: they must be
        quick, and cannot call `flush` or `close`.

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
            ClosedError: The producer is closed, or belongs to another process.
        """
        check_wait(timeout_s)
        event = as_event(value, key, id, headers, timestamp)
        part = self._wire.part(event)
        lane = self._config.lane(topic, event, part)
        if os.getpid() != self._process:
            raise ClosedError("the producer belongs to the parent process; make one after the fork")
        with self._due:
            has_room = self._outbox.has_room(part)
            if not has_room and self._config.waits and not self._is_sender():
                has_room = self._ended.wait_for(
                    lambda: self._is_closed or self._outbox.has_room(part), timeout_s
                )
            if self._is_closed:
                raise ClosedError("the producer is closed")
            if not has_room:
                raise BufferFullError(
                    full_text(self._outbox.events, self._outbox.limit(part) or "")
                )
            future = _Pending()
            if self._outbox.add(topic, part, lane, time.monotonic(), future.set_result):
                self._due.notify()
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
    def flush(self, timeout_s: float | None = None) -> bool:
        """Send all events that were taken so far, and wait for their outcomes.

        Args:
            timeout_s: Time limit, in seconds. The default has no limit.

        Returns:
            True if all of them have their outcomes.
        """
        self._refuse_sender("flush")
        check_wait(timeout_s)
        if os.getpid() != self._process:
            return False
        with self._due:
            number = self._outbox.flush()
            self._due.notify_all()
            return self._ended.wait_for(lambda: self._is_flushed(number), timeout_s)

    @explain_arguments("timeout_s=...")
    def close(self, timeout_s: float | None = None) -> bool:
        """Take no more events, send those that were taken, and stop the threads.

        Args:
            timeout_s: Time limit, in seconds. Events that have no outcome by then end as
                `Rejected` (`not_sent`), or as `Unknown` if their request is under way.

        Returns:
            True if all events had their outcomes in time.
        """
        self._refuse_sender("close")
        check_wait(timeout_s)
        if os.getpid() != self._process:
            return False  # the threads and the events are those of the parent process
        with self._due:
            self._is_closed = True
            self._ended.notify_all()
        is_flushed = self.flush(timeout_s)
        self._end("the producer was closed")
        if is_flushed:  # else a thread still waits for its response
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

    def _end(self, detail: str) -> None:
        """Stop the threads, and end the events that have no outcome with the best knowledge."""
        with self._due:
            self._is_closed = self._is_over = True
            ended = self._outbox.abandon(detail)
            self._due.notify_all()
        _open_producers.discard(self)
        self._settle(ended)

    def _is_sender(self) -> bool:
        return threading.current_thread() in self._threads

    def _refuse_sender(self, method: str) -> None:
        if self._is_sender():
            raise RuntimeError(f"{method}() waits for this thread; do not call it from a callback")

    def _is_flushed(self, number: int) -> bool:
        is_resolved = all(epoch >= number for epoch in self._resolving)
        return is_resolved and self._outbox.is_flushed(number)

    def _work(self) -> None:
        try:
            while (load := self._next()) is not None:
                self._answered(load, self._client.post(load.delivery.post()))
        except BaseException as error:
            log.exception("the sender thread failed")
            self._end(f"the sender thread failed: {error!r}")

    def _next(self) -> Load | None:
        """Wait for the next request to send; return None at the end."""
        with self._due:
            while not self._is_over:
                taken = self._outbox.take(time.monotonic())
                if isinstance(taken, Load):
                    self._due.notify()  # there may be more of it, for another thread
                    return taken
                self._due.wait(min(taken, LONGEST_WAIT_S))
        return None

    def _answered(self, load: Load, answer: Answer) -> None:
        with self._due:
            ended = self._outbox.answered(load, answer, time.monotonic())
            epoch = min((entry.epoch for entry, _ in ended), default=None)
            if epoch is not None:
                self._resolving.append(epoch)
            self._due.notify()  # lanes are free
        try:
            self._settle(ended)
        except BaseException:  # a callback wanted to end the thread
            log.exception("a callback raised")
        finally:
            if epoch is not None:
                with self._due:
                    self._resolving.remove(epoch)
                    self._ended.notify_all()

    def _settle(self, ended: list[tuple[Entry, Outcome]]) -> None:
        """Set the futures and report, without the lock: callbacks may send."""
        try:
            resolve(ended)
        finally:
            report_outcomes(self._wire.observer, [outcome for _, outcome in ended])
            with self._due:
                self._ended.notify_all()


_open_producers: WeakSet[BufferedProducer] = WeakSet()


@atexit.register
def _end_open_producers() -> None:
    """Report the events of producers that the program did not close."""
    for producer in list(_open_producers):
        if producer._process == os.getpid():
            producer._end("the program ended without close() of the producer")
