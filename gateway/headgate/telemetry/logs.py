"""The log: one line an event of interest on standard error, JSON or text.

Each module names its logger by a fixed word, not by `__name__`: people filter by the field
`logger`, so it must survive a move of the module. What identifies the event (topic, request_id,
...) goes into `extra`. Bodies, tokens and secrets are never logged. Nothing is configured at
import: the process's entry calls `configure` once.
"""

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

from headgate.config.settings import LogSettings
from headgate.core.terminal.text import escaped

# Loggers of requests: those that failed (`edge.request_log` bounds their lines), and all.
REQUESTS, ACCESS = "headgate.requests", "headgate.access"

REPEAT_S = 10.0  # an identical warning is written once, then counted and written again
_REMEMBERED = 256  # different warnings at a time

# What every record carries anyway; everything else was given as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_HIDDEN = frozenset({"authorization", "token", "body", "password", "value"})


def configure(
    logs: LogSettings, stream: TextIO | None = None, monotonic: Callable[[], float] = time.monotonic
) -> None:
    """Replace the root logger's handlers by ours. stream: standard error when not given."""
    handler = Lines(stream or sys.stderr, monotonic)
    handler.setFormatter(JsonLine() if logs.format == "json" else TextLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logs.level)
    # aiokafka tells every retry as an error of its own; our lanes and topics say what follows.
    logging.getLogger("aiokafka").setLevel(max(logging.WARNING, root.level))


class Lines(logging.StreamHandler[TextIO]):
    """Writes records; holds back warnings that repeat and says later how many there were."""

    def __init__(self, stream: TextIO, monotonic: Callable[[], float]) -> None:
        super().__init__(stream)
        self._monotonic = monotonic
        self._held: dict[tuple[str, int, str], _Repeats] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it; and write the counts that are due."""
        now = self._monotonic()
        self._tell_repeats(now, everything=False)
        if record.levelno < logging.WARNING or record.name == REQUESTS:
            super().emit(record)
            return
        kind = (record.name, record.levelno, record.getMessage())
        repeats = self._held.get(kind)
        if repeats is not None:
            repeats.count += 1
            repeats.newest = record
            return
        if len(self._held) < _REMEMBERED:
            self._held[kind] = _Repeats(now)
        super().emit(record)

    def close(self) -> None:
        """Write what is still only counted."""
        self._tell_repeats(self._monotonic(), everything=True)
        super().close()

    def _tell_repeats(self, now: float, *, everything: bool) -> None:
        due = [
            kind
            for kind, repeats in self._held.items()
            if everything or now - repeats.since >= REPEAT_S
        ]
        for kind in due:
            repeats = self._held.pop(kind)
            if repeats.newest is not None:
                repeats.newest.__dict__["repeated"] = repeats.count
                super().emit(repeats.newest)


class _Repeats:
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
        except orjson.JSONEncodeError:  # lone surrogates, huge integers: rare, but never lost
            text = json.dumps(line, default=str, ensure_ascii=False)
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
            line += "".join(f"\n    {_visible(one)}" for one in error.split("\n"))
        return line


def _visible(text: str) -> str:
    """Without signs that begin another line, or that a terminal carries out: what a client chose
    must look like what it is."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode()
        for one in text
    )


def _shown(value: object) -> str:
    """A field's value. One that could be taken for more fields is in quotes."""
    text = _visible(str(value))
    return json.dumps(text, ensure_ascii=False) if "  " in text or text[:1] == '"' else text


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
