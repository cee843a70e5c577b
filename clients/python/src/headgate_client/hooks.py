"""Reports of requests and outcomes: to the log, and to an observer."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headgate_client.core.answer import counted
from headgate_client.outcomes import Failed, Outcome, Rejected, Unknown

log = logging.getLogger("headgate_client")
_SHOWN = 100  # characters of a key or id


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request and its response.

    Attributes:
        topic: Topic of the request.
        events: Number of events in it.
        content_bytes: Size of the body before compression.
        number: 1 for the first request with these bytes, then 2, 3, ...
        duration_s: Time until the response, in seconds.
        result: `ended` if each event has an outcome, else the reason of the failure.
        detail: Text that explains the failure.
        status: HTTP status, None without a response.
        request_id: Id of the request in the gateway's log.
        is_bypassed: The gateway could not check the Idempotency-Key: its Redis is unavailable.
    """

    topic: str
    events: int
    content_bytes: int
    number: int
    duration_s: float
    result: str
    detail: str = ""
    status: int | None = None
    request_id: str | None = None
    is_bypassed: bool = False


class Observer:
    """Base class of observers, for metrics. Override the methods that you need.

    The client calls them from the thread or task that sends, so they must be quick.
    """

    def on_attempt(self, attempt: Attempt) -> None:
        """Handle a request that has its response, or failed."""

    def on_outcomes(self, topic: str, outcomes: Sequence[Outcome]) -> None:
        """Handle the outcomes of some events of a topic."""


class Outage(NamedTuple):
    """Requests of a topic that fail and are sent again.

    Attributes:
        began_s: Time of the first of them.
        failed: Number of failed attempts.
    """

    began_s: float
    failed: int


class AttemptReports:
    """Logs the begin and the end of each topic's outage, and passes requests to an observer.

    Threads may share it.

    Args:
        observer: Receives the requests.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self, observer: Observer | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._observer, self._clock = observer, clock
        self._outages: dict[str, Outage] = {}
        self._lock = threading.Lock()

    def report(self, attempt: Attempt, *, is_retryable: bool) -> None:
        """Report a request that has its response, or failed.

        Args:
            attempt: The request.
            is_retryable: It failed, and may be sent again. Another failure is an outcome, and is
                logged as that.
        """
        if is_retryable:
            self._log_failure(attempt)
        elif attempt.result == "ended" or attempt.status is not None:
            with self._lock:
                outage = self._outages.pop(attempt.topic, None)
            if outage is not None:
                log.warning(
                    "%s: the outage ended after %.1f s and %s",
                    attempt.topic,
                    self._clock() - outage.began_s,
                    counted(outage.failed, "failed attempt"),
                )
        if self._observer is not None:
            try:
                self._observer.on_attempt(attempt)
            except Exception:
                log.exception("Observer.on_attempt raised")

    def _log_failure(self, attempt: Attempt) -> None:
        topic = attempt.topic
        with self._lock:
            is_new = topic not in self._outages
            outage = self._outages.get(topic, Outage(self._clock() - attempt.duration_s, 0))
            self._outages[topic] = outage._replace(failed=outage.failed + 1)
        log.log(
            logging.WARNING if is_new else logging.DEBUG,
            "%s: %s, attempt %d failed: %s (%s)%s",
            topic,
            counted(attempt.events, "event"),
            attempt.number,
            attempt.result,
            printable(attempt.detail),
            "; more failed attempts are logged at the end of the outage" if is_new else "",
        )


def report_outcomes(
    observer: Observer | None, outcomes: Iterable[Outcome], *, is_batch: bool = False
) -> None:
    """Log the failures once, by topic and reason, and pass all outcomes to the observer.

    Args:
        observer: Receives the outcomes.
        outcomes: Outcomes of events of any topics.
        is_batch: The outcomes are those of one call of `send_batch`, so their positions count.
    """
    by_topic: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_topic.setdefault(outcome.topic, []).append(outcome)
    for topic, outcomes_of_topic in by_topic.items():
        _log_failures(topic, outcomes_of_topic, is_batch)
        if observer is not None:
            try:
                observer.on_outcomes(topic, outcomes_of_topic)
            except Exception:
                log.exception("Observer.on_outcomes raised")


def _log_failures(topic: str, outcomes: Sequence[Outcome], is_batch: bool) -> None:
    """Log how many events failed for each reason, and what identifies the first of them."""
    failures: dict[tuple[str, str], list[tuple[int, Failed]]] = {}
    for position, outcome in enumerate(outcomes):
        if isinstance(outcome, (Rejected, Unknown)):
            same = failures.setdefault((outcome.name, outcome.reason), [])
            same.append((position, outcome))
    for (name, reason), failed in failures.items():
        position, first = failed[0]
        detail, events = printable(first.detail), counted(len(failed), "event")
        which = _identity(first, position if is_batch else None)
        shown = f"; {'first: ' if len(failed) > 1 else ''}{which}" if which else ""
        log.error("%s: %s %s: %s (%s)%s", topic, events, name, reason, detail, shown)


def _identity(failure: Failed, position: int | None) -> str:
    """Return what is known of an event: its position, key, id and the request."""
    key = failure.key if isinstance(failure.key, str) else failure.key and failure.key.hex()
    fields = {"key": key, "id": failure.event_id, "request": failure.request_id}
    texts = [f"{name} {printable(text)[:_SHOWN]}" for name, text in fields.items() if text]
    return ", ".join(([] if position is None else [f"events[{position}]"]) + texts)


def printable(text: str) -> str:
    """Return the text in one line, with escapes for characters that control a terminal."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
