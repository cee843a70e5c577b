"""Log lines for failed requests, and optionally for all requests.

The reason of a failure determines the level: a client's mistake is no alarm. For each reason and
producer, some lines a minute are written; a last line has the number of omitted ones. So a client
that repeats a mistake neither fills the disk nor hides the mistakes of others.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from aiohttp import web

from headgate.metrics.catalogue import OTHER
from headgate.metrics.logs import ACCESS, REQUESTS
from headgate.model.outcome import TRAITS, Failure, Reason
from headgate.model.publish import Ticket
from headgate.model.trace import Trace

LINES = 10  # of one reason and producer within WINDOW_S
WINDOW_S = 60.0
MAX_PRODUCERS = 50  # with lines of their own, for each reason: clients may choose their names
_MAX_DETAIL = 500
_MAX_FIELD = 200
_LEVELS = logging.getLevelNamesMapping()

log = logging.getLogger(REQUESTS)
access = logging.getLogger(ACCESS)

# Facts about a request that aiohttp does not know: request id and producer.
REPORTED: Final = web.RequestKey("told", dict[str, str])
# Trace of a sampled request on aiohttp's path.
TRACE: Final = web.RequestKey("trace", Trace)

Later = Callable[[float, Callable[[], None]], object]


def request_ids(node: bytes) -> Callable[[], str]:
    """Return a generator of request ids: unique among processes, and short enough to read aloud.

    Args:
        node: 48 random bits of this process.
    """
    return map(f"{node.hex()}-%x".__mod__, count(1)).__next__


class RequestLog:
    """Log of requests.

    Args:
        logs_every_request: Whether successful requests are logged too.
        later: Schedules a call after a delay in seconds; by default on the running loop.
    """

    def __init__(
        self,
        *,
        logs_every_request: bool = False,
        later: Later | None = None,
    ) -> None:
        self._later = later or _later
        self.logs_every_request = logs_every_request
        self._windows: dict[Reason, dict[str, _Window]] = {}

    def refused(
        self, failure: Failure, request_id: str, trace: Trace | None = None, **fields: Any
    ) -> None:
        """Log a request that failed as a whole.

        Args:
            failure: The failure.
            request_id: Id of the request.
            trace: Its trace, if it is sampled.
            fields: Producer, topic, path and remote, as far as known; the status, if it is not the
                one of the reason.
        """
        status = TRAITS[failure.reason].status
        _omit_unknown(fields)
        texts = {name: text for name, text in fields.items() if isinstance(text, str)}
        fields.update({name: text[:_MAX_FIELD] for name, text in texts.items()})
        if trace is not None:
            trace.reason = str(failure.reason)
        self._report(failure, {"request_id": request_id, "status": status, **fields}, trace)

    def ended(self, ticket: Ticket, status: int) -> None:
        """Log a request whose events have all ended: one line if any failed."""
        failures = [outcome.failure for outcome in ticket.answered() if outcome.failure is not None]
        if not failures:
            return
        counts = Counter(failure.reason for failure in failures)
        worst = max(
            failures, key=lambda failure: (_level(failure.reason), TRAITS[failure.reason].status)
        )
        fields: dict[str, Any] = {
            "request_id": ticket.request_id,
            "producer": ticket.producer,
            "topic": ticket.topic[:_MAX_FIELD],
            "status": status,
        }
        if ticket.is_batch:
            fields["events"] = len(ticket.outcomes)
            fields["reasons"] = dict(counts)
        self._report(worst, fields, ticket.trace)

    def served(
        self,
        method: str,
        path: str,
        status: int,
        size: int,
        seconds: float,
        trace: Trace | None = None,
        **fields: Any,
    ) -> None:
        """Log a request in the access log, if `logs_every_request`.

        Args:
            method: Method of the request.
            path: Path of the request.
            status: Status of the response.
            size: Size of the request's body as sent, in bytes.
            seconds: Duration, in seconds.
            trace: Trace of the request, if it is sampled.
            fields: Further fields of the line.
        """
        _omit_unknown(fields)
        path = path[:_MAX_FIELD]
        method = method[:_MAX_FIELD]
        extra = {"method": method, "path": path, "status": status, "bytes": size, **fields}
        extra["ms"] = round(seconds * 1000, 3)
        access.info("%s %s %d", method, path, status, extra=_traced(extra, trace))

    def close(self) -> None:
        """Log the numbers of omitted lines."""
        for reason, windows in list(self._windows.items()):
            for producer in list(windows):
                self._end(reason, producer)

    def _report(self, failure: Failure, fields: dict[str, Any], trace: Trace | None) -> None:
        reason = failure.reason
        level = _level(reason)
        if not log.isEnabledFor(level):
            return
        fields = _traced({**fields, "reason": str(reason)}, trace)
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


class _Window:
    """Lines of one reason and producer. `newest` holds the fields of the last omitted line."""

    __slots__ = ("left_out", "newest", "written")

    def __init__(self) -> None:
        self.written = 0
        self.left_out = 0
        self.newest: dict[str, Any] = {}


def received_bytes(request: web.BaseRequest) -> int:
    """Return the bytes of the body that have arrived; 0 without a body."""
    return getattr(request.content, "total_bytes", 0)


def _omit_unknown(fields: dict[str, Any]) -> None:
    """Remove the client's address if it has none: a unix socket, or a client that has left."""
    if not fields.get("remote", True):
        del fields["remote"]


def _traced(fields: dict[str, Any], trace: Trace | None) -> dict[str, Any]:
    return fields if trace is None else {**fields, "trace_id": trace.trace_id}


def _later(seconds: float, call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, call)


def _level(reason: Reason) -> int:
    return _LEVELS[TRAITS[reason].log_level]
