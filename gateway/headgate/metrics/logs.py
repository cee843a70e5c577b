"""The log: one line per event of interest on standard error, as JSON or text.

Each module names its logger after its package, not by `__name__`: users filter by the field
`logger`, and files move within a package. Identifying facts (topic, request_id, ...) go
into `extra`. Bodies, tokens and secrets are never logged. Importing configures nothing: the
process's entry calls `configure` once.
"""

import copy
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TextIO

import orjson

from headgate.config.settings import LogSettings
from headgate.metrics.library_lines import Later, LibraryLines, later_on_thread
from headgate.model.text import counted, escaped

# Loggers of failed requests (`http.request_log` bounds their lines), and of all requests.
REQUESTS, ACCESS = "headgate.requests", "headgate.access"

REPEAT_S = 10.0  # an identical warning is written once, then counted for so long at a time
_REMEMBERED = 256  # different warnings at a time

# Attributes of every record; all others come from `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_HIDDEN = frozenset({"authorization", "token", "body", "password", "value"})


def configure(
    logs: LogSettings,
    stream: TextIO | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    later: Later | None = None,
    worker: int | None = None,
) -> None:
    """Replace the root logger's handlers. The default stream is standard error.

    Args:
        logs: The options.
        stream: Receives the lines.
        monotonic: Monotonic clock, in seconds.
        later: Schedules the lines that count repetitions.
        worker: The number of the worker; None in other processes.
    """
    later = later or later_on_thread
    handler = Lines(stream or sys.stderr, monotonic, later)
    handler.setFormatter(JsonLine() if logs.format == "json" else TextLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logs.level)
    handler.addFilter(LibraryLines(root.level, worker, monotonic, later))
    logging.getLogger("aiokafka").setLevel(max(logging.WARNING, root.level))


def write_counts() -> None:
    """Write the counts of repeated warnings, before the last line of a process."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, Lines):
            handler.write_counts()


class Lines(logging.StreamHandler[TextIO]):
    """A handler that writes records, and counts repeated warnings instead of writing them.

    A thread of its own writes the counts when they are due, because no other line may follow. The
    handler's lock covers all of it.
    """

    def __init__(self, stream: TextIO, monotonic: Callable[[], float], later: Later) -> None:
        super().__init__(stream)
        self._monotonic = monotonic
        self._later = later
        self._cancel: Callable[[], None] | None = None
        self._held: dict[tuple[str, int, str], _Repeats] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it; and write the counts that are due."""
        now = self._monotonic()
        self._write_due(now)
        if record.name in (REQUESTS, ACCESS):
            super().emit(record)
            return
        kind = None
        if record.levelno >= logging.WARNING:
            kind = (record.name, record.levelno, record.getMessage())
            repeats = self._held.get(kind)
            if repeats is not None:
                repeats.count += 1
                repeats.newest = record
                self._set_timer(now)
                return
        # The count of an outage comes before the line of its end.
        for (name, _, _), repeats in self._held.items():
            if name == record.name:
                self._write_count(repeats)
        if kind is not None and len(self._held) < _REMEMBERED:
            self._held[kind] = _Repeats(now)
        super().emit(record)

    def write_counts(self) -> None:
        """Write the counts so far."""
        with self.lock or threading.RLock():
            for repeats in self._held.values():
                self._write_count(repeats)

    def close(self) -> None:
        """Write the remaining counts."""
        with self.lock or threading.RLock():
            if self._cancel is not None:
                self._cancel()
                self._cancel = None
            for repeats in self._held.values():
                self._write_count(repeats)
            self._held.clear()
        super().close()

    def _write_due(self, now_s: float) -> None:
        due = [kind for kind, repeats in self._held.items() if now_s - repeats.since >= REPEAT_S]
        for kind in due:
            repeats = self._held[kind]
            if repeats.count:
                self._write_count(repeats)
                repeats.since = now_s
            else:
                del self._held[kind]

    def _write_count(self, repeats: "_Repeats") -> None:
        if repeats.newest is None:
            return
        line = copy.copy(repeats.newest)
        line.msg = f"{line.getMessage()} (repeated {counted(repeats.count, 'time')})"
        line.args = None
        line.__dict__["repeated"] = repeats.count
        repeats.count, repeats.newest = 0, None
        super().emit(line)

    def _set_timer(self, now_s: float) -> None:
        if self._cancel is not None:
            return
        waiting = [repeats.since for repeats in self._held.values() if repeats.count]
        if waiting:
            self._cancel = self._later(max(0.0, min(waiting) + REPEAT_S - now_s), self._on_timer)

    def _on_timer(self) -> None:
        with self.lock or threading.RLock():
            self._cancel = None
            now = self._monotonic()
            self._write_due(now)
            self._set_timer(now)


class _Repeats:
    """The repetitions of one line.

    Attributes:
        count: Number of repetitions that are not written yet.
        newest: The newest of them.
        since: Beginning of the count.
    """

    __slots__ = ("count", "newest", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.count = 0
        self.newest: logging.LogRecord | None = None


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    given = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {name: "hidden" if name in _HIDDEN else value for name, value in given.items()}


class JsonLine(logging.Formatter):
    """`{"time", "level", "logger", "text", ...fields}`, with `error` for a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "text": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = "".join(traceback.format_exception(record.exc_info[1]))
        try:
            return escaped(orjson.dumps(line, default=str).decode())
        except orjson.JSONEncodeError:  # lone surrogates, huge integers: rare, but not lost
            text = json.dumps(line, default=str, ensure_ascii=False, separators=(",", ":"))
            return escaped(text.encode("utf-8", "replace").decode())


class TextLine(logging.Formatter):
    """`time LEVEL text  name=value ...` for people. A traceback follows, each line indented."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f"  {name}={_shown(value)}" for name, value in _fields(record).items())
        # Two blanks begin a field, so the text has none.
        text = _visible(record.getMessage()).replace("  ", r" \x20")
        line = f"{_time(record)} {record.levelname:7} {text}{fields}"
        if record.exc_info and record.exc_info[1] is not None:
            error = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
            line += "".join(f"\n    {_visible(row)}" for row in error.split("\n"))
        return line


def _visible(text: str) -> str:
    """Escape characters that begin another line or control a terminal.

    A text from a client must look like what it is.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def _shown(value: object) -> str:
    """Return a field's value, in quotes if it could be taken for more fields."""
    text = _visible(str(value))
    return json.dumps(text, ensure_ascii=False) if "  " in text or text[:1] == '"' else text


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ---- fields of the log. docs/operate/logs.md shows this table. A test reads every log call and
# fails if a field is missing here.


class LogField(NamedTuple):
    """The type of a field, as JSON names it, and its meaning, with the unit of a number."""

    kind: str
    text: str


STRING, INTEGER, NUMBER, OBJECT, ARRAY = "string", "integer", "number", "object", "array"

LOG_FIELDS: Final[Mapping[str, LogField]] = {
    # Every line.
    "time": LogField(STRING, "Time in UTC with milliseconds (RFC 3339)."),
    "level": LogField(STRING, "DEBUG, INFO, WARNING, ERROR or CRITICAL."),
    "logger": LogField(
        STRING,
        "Package that logs, such as `headgate.spool`, or a stream, such as `headgate.requests`.",
    ),
    "text": LogField(STRING, "Description for people; its words may change between releases."),
    "error": LogField(STRING, "A traceback of several lines."),
    "repeated": LogField(INTEGER, "Number of suppressed repetitions since the previous line."),
    # Requests.
    "request_id": LogField(STRING, "The X-Request-Id of the request and its response."),
    "trace_id": LogField(STRING, "Trace id of a sampled request: 32 hex digits."),
    "producer": LogField(
        STRING, "The producer or operator that made the request; empty if unknown."
    ),
    "topic": LogField(STRING, "The topic."),
    "path": LogField(STRING, "Path of the request, or of a removed directory."),
    "method": LogField(STRING, "The request's method."),
    "status": LogField(INTEGER, "HTTP status of the answer."),
    "reason": LogField(
        STRING, "Reason of a failure (reference/reasons.md), or the reason given for a pause."
    ),
    "reasons": LogField(OBJECT, "Failed events of a batch, counted by reason."),
    "events": LogField(INTEGER, "Number of events in a batch."),
    "bytes": LogField(INTEGER, "Size of the request's body as sent, in bytes."),
    "ms": LogField(NUMBER, "Milliseconds from the request's headers to the response."),
    "left_out": LogField(INTEGER, "Number of similar lines that were left out in the last minute."),
    # Processes.
    "pid": LogField(INTEGER, "Process id."),
    "worker": LogField(INTEGER, "The worker's number, from 0."),
    "workers": LogField(INTEGER, "Number of configured workers."),
    "exit_code": LogField(INTEGER, "Exit code of a worker; negative: the signal that ended it."),
    "version": LogField(STRING, "Headgate's version."),
    "native": LogField(STRING, "c, or python without native code."),
    "hot_path": LogField(STRING, "mypyc, or python without compiled modules."),
    "python": LogField(STRING, "Python's version."),
    "data": LogField(STRING, "Address and port of the data plane (events)."),
    "management": LogField(STRING, "Address and port of the management plane."),
    "port": LogField(INTEGER, "The monitor's port, or the port that a client used."),
    "file": LogField(STRING, "The configuration file."),
    "config_sha256": LogField(
        STRING, "SHA-256 of the active configuration file, as sha256sum prints it."
    ),
    "added": LogField(ARRAY, "Topics and producers that a reload added; at most 50."),
    "removed": LogField(ARRAY, "Topics and producers that a reload removed; at most 50."),
    "changed": LogField(ARRAY, "Options that a reload changed, without values; at most 50."),
    "options": LogField(ARRAY, "Changed options that need a restart."),
    "delay_s": LogField(NUMBER, "Seconds during which a stopping gateway still serves."),
    "bound_s": LogField(NUMBER, "Longest time until the process ends, in seconds."),
    "answered": LogField(
        INTEGER, "Number of events that were answered after the stop signal, also refused ones."
    ),
    "spooled": LogField(INTEGER, "Number of events that the spool keeps for the next start."),
    "drain_s": LogField(NUMBER, "Seconds from the stop signal to the end of the process."),
    "open": LogField(INTEGER, "Requests that the helper process had not answered."),
    # Dependencies.
    "away_s": LogField(NUMBER, "Length of an outage that is over, in seconds."),
    "cluster": LogField(STRING, "The Kafka cluster, by its name in the configuration."),
    "url": LogField(STRING, "Address of the issuer's keys."),
    "trusted_for_s": LogField(INTEGER, "Seconds for which the known keys remain valid."),
    # Callers and changes.
    "remote": LogField(STRING, "Address of the client."),
    "wrong": LogField(INTEGER, "Number of wrong credentials in the window."),
    "refused": LogField(INTEGER, "Number of credentials that were refused without a check."),
    "addresses": LogField(INTEGER, "Number of addresses that sent them."),
    "key": LogField(STRING, "Key whose suppression state an operator removed."),
    "group": LogField(STRING, "Consumer group of a change, or of a consumer."),
    "scope": LogField(STRING, "Paused part of the consumer group."),
    "replay": LogField(STRING, "Id of a changed replay."),
    "called": LogField(STRING, "Name of a changed replay."),
    "snapshot": LogField(STRING, "Name of a snapshot."),
    "owner": LogField(STRING, "Member that committed a lower offset."),
    "owner_before": LogField(STRING, "Member that committed the higher offset before."),
}
