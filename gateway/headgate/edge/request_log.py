"""What the log says of requests: those that did not end well, and every one where that is wanted.

The table of reasons gives the level: a client's mistake is no alarm. Of each reason and producer
some lines a minute are written, and then it is told how many were left out: a client that repeats
its mistake without end must neither fill the disk nor hide the mistakes of others.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Protocol

from aiohttp import web

from headgate.core.outcome import TRAITS, Failure, Reason
from headgate.core.publish import Ticket
from headgate.metrics.catalogue import OTHER
from headgate.metrics.logs import ACCESS, REQUESTS

LINES = 10  # of one reason and producer within WINDOW_S
WINDOW_S = 60.0
MAX_PRODUCERS = 50  # of one reason that are told apart at a time: clients may choose their names
_MAX_DETAIL = 500
_MAX_FIELD = 200
_LEVELS = logging.getLevelNamesMapping()

log = logging.getLogger(REQUESTS)
access = logging.getLogger(ACCESS)

# What is known of a request beside what aiohttp knows: request id and producer.
REPORTED: Final = web.RequestKey("told", dict[str, str])

Later = Callable[[float, Callable[[], None]], object]


class RequestReports(Protocol):
    """What the log says of requests. logs_every_request: of each one."""

    logs_every_request: bool

    def refused(self, failure: Failure, request_id: str, **fields: object) -> None: ...

    def began(self, ticket: Ticket) -> None: ...

    def ended(self, ticket: Ticket, status: int) -> None: ...

    def served(
        self, method: str, path: str, status: int, size: int, seconds: float, **fields: str
    ) -> None: ...


class RequestLog:
    """logs_every_request: or only what failed.  later: calls something after so many seconds, by
    default by the running loop.  trace_id: of the request that is being answered, if it is sampled.
    """

    def __init__(
        self,
        *,
        logs_every_request: bool = False,
        later: Later | None = None,
        trace_id: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._later = later or _later
        self._trace_id = trace_id
        self.logs_every_request = logs_every_request
        self._windows: dict[Reason, dict[str, _Window]] = {}

    def refused(self, failure: Failure, request_id: str, **fields: Any) -> None:
        """A request failed as a whole. fields: producer, topic or path, as far as is known; status
        where it is not that of the reason."""
        status = TRAITS[failure.reason].status
        texts = {name: text for name, text in fields.items() if isinstance(text, str)}
        fields.update({name: text[:_MAX_FIELD] for name, text in texts.items()})
        self._report(failure, {"request_id": request_id, "status": status, **fields})

    def began(self, ticket: Ticket) -> None:
        """Events of a request go their way: nothing to say yet."""

    def ended(self, ticket: Ticket, status: int) -> None:
        """All events of a request have ended; one line if any failed."""
        failures = [one.failure for one in ticket.answered() if one.failure is not None]
        if not failures:
            return
        counts = Counter(failure.reason for failure in failures)
        worst = max(failures, key=lambda one: (_level(one.reason), TRAITS[one.reason].status))
        fields: dict[str, Any] = {
            "request_id": ticket.request_id,
            "producer": ticket.producer,
            "topic": ticket.topic[:_MAX_FIELD],
            "status": status,
        }
        if ticket.is_batch:
            fields["events"] = len(ticket.outcomes)
            fields["reasons"] = dict(counts)
        self._report(worst, fields)

    def served(
        self, method: str, path: str, status: int, size: int, seconds: float, **fields: Any
    ) -> None:
        """Any request, where `logs_every_request`. size: bytes of its body, as sent."""
        path = path[:_MAX_FIELD]
        method = method[:_MAX_FIELD]
        extra = {"method": method, "path": path, "status": status, "bytes": size, **fields}
        extra["ms"] = round(seconds * 1000, 3)
        access.info("%s %s %d", method, path, status, extra=self._traced(extra))

    def close(self) -> None:
        """Tell what is only counted."""
        for reason, windows in list(self._windows.items()):
            for producer in list(windows):
                self._end(reason, producer)

    def _report(self, failure: Failure, fields: dict[str, Any]) -> None:
        reason = failure.reason
        level = _level(reason)
        if not log.isEnabledFor(level):
            return
        fields = self._traced({**fields, "reason": str(reason)})
        window = self._window(reason, str(fields.get("producer", "")))
        window.written += 1
        if window.written > LINES:
            window.left_out += 1
            window.newest = fields
            return
        log.log(level, "%s: %s", reason, failure.detail[:_MAX_DETAIL], extra=fields)

    def _window(self, reason: Reason, producer: str) -> "_Window":
        windows = self._windows.setdefault(reason, {})
        if producer not in windows and len(windows) >= MAX_PRODUCERS:
            producer = OTHER
        window = windows.get(producer)
        if window is None:
            window = windows[producer] = _Window()
            self._later(WINDOW_S, lambda: self._end(reason, producer))
        return window

    def _end(self, reason: Reason, producer: str) -> None:
        window = self._windows.get(reason, {}).pop(producer, None)
        if window is None or not window.left_out:
            return
        extra = {**window.newest, "left_out": window.left_out}
        log.log(
            _level(reason),
            "%s: more failures with this reason; the fields show the latest",
            reason,
            extra=extra,
        )

    def _traced(self, fields: dict[str, Any]) -> dict[str, Any]:
        trace_id = self._trace_id()
        return fields if trace_id is None else {**fields, "trace_id": trace_id}


class _Window:
    """The lines of one reason and producer. newest: the fields of the last that was left out."""

    __slots__ = ("left_out", "newest", "written")

    def __init__(self) -> None:
        self.written = 0
        self.left_out = 0
        self.newest: dict[str, Any] = {}


def received_bytes(request: web.BaseRequest) -> int:
    """Of the body, so far; aiohttp's reader of no body at all counts none."""
    return getattr(request.content, "total_bytes", 0)


def _later(seconds: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, call)


def _level(reason: Reason) -> int:
    return _LEVELS[TRAITS[reason].log_level]
