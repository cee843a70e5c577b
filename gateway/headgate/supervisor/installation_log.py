"""The installation log: events of this gateway, in memory and, over restarts, in a file.

The log never harms the gateway. If the file cannot be written, the log warns once and continues in
memory. A thread does the writing, because a disk may hang. It is a daemon of its own, because a
process waits at its end for the threads of an executor.
"""

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import orjson

from headgate import __version__
from headgate.config import ReloadChanges, Settings
from headgate.config.settings import LogSettings
from headgate.metrics.fleet import Fleet
from headgate.model.installation import (
    Detail,
    Kind,
    LogEntry,
    NewEntry,
    as_document,
    entry_of,
    read_entry,
)
from headgate.model.policy import PolicyTable
from headgate.model.reply import json_text
from headgate.model.suppression_states import AWAY, ON, QUARANTINE, worst
from headgate.model.text import counted
from headgate.native.chosen import CODE
from headgate.supervisor.control import WorkerState

log = logging.getLogger("headgate.supervisor")

KEPT = 2_000  # entries in memory: 1 MiB, or a year of a quiet installation
_RETRY_S = 5.0  # time after a failed write until the next attempt
_LAST_WRITE_S = 2.0  # time limit of the last write: a disk that hangs must not delay the end


class InstallationLog:
    """The entries in memory, and their file.

    Call `run` for as long as the gateway lives, and `close` at its end.

    Args:
        file: File of the entries; None to keep them only in memory.
        clock_ms: Milliseconds since 1970.
    """

    def __init__(
        self,
        file: "LogFile | None",
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._file = file
        self._clock_ms = clock_ms
        self._entries = deque(() if file is None else file.read(), maxlen=KEPT)
        self._unwritten: deque[LogEntry] = deque(maxlen=KEPT)
        self._wake = asyncio.Event()
        self._under_way: asyncio.Future[None] | None = None

    @classmethod
    def from_settings(cls, logs: LogSettings) -> "InstallationLog":
        """Return the log that the settings ask for."""
        path = logs.installation_file
        return cls(None if path is None else LogFile(Path(path), logs.installation_max_bytes))

    def note(self, what: NewEntry) -> None:
        """Add an entry."""
        number = self._entries[-1].number + 1 if self._entries else 1
        entry = entry_of(number, self._clock_ms(), what)
        self._entries.append(entry)
        if self._file is not None:
            self._unwritten.append(entry)
            self._wake.set()

    def recent(self, limit: int = KEPT) -> Sequence[LogEntry]:
        """Return the newest entries, newest first."""
        newest = list(self._entries)[-limit:] if limit > 0 else []
        return newest[::-1]

    async def run(self) -> None:
        """Write new entries until cancelled; after a failure, retry at intervals."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_S if self._unwritten else None):
                    await self._wake.wait()
            self._wake.clear()
            await self._write()

    async def close(self) -> None:
        """Write the remaining entries, in bounded time."""
        try:
            async with asyncio.timeout(_LAST_WRITE_S):
                await self._write()
        except TimeoutError:
            log.warning("%d entries were not written in time", len(self._unwritten))

    async def _write(self) -> None:
        """Write the entries noted so far.

        A write continues if its caller is cancelled, so that the next one follows it and repeats
        none of its entries.
        """
        while self._under_way is not None:
            await asyncio.shield(self._under_way)
        if self._file is None or not self._unwritten:
            return
        entries = list(self._unwritten)
        self._under_way = done = asyncio.get_running_loop().create_future()
        append = partial(self._append, self._file, entries, done)
        threading.Thread(target=append, name="installation log", daemon=True).start()
        await asyncio.shield(done)

    def _append(
        self, file: "LogFile", entries: Sequence[LogEntry], done: "asyncio.Future[None]"
    ) -> None:
        """Write the entries, in a thread, and report to the event loop."""
        is_written = False
        try:
            is_written = file.append(entries)
        finally:
            last = entries[-1].number if is_written else 0
            with suppress(RuntimeError):  # the loop has ended: the disk took too long
                done.get_loop().call_soon_threadsafe(self._appended, last, done)

    def _appended(self, last: int, done: "asyncio.Future[None]") -> None:
        while self._unwritten and self._unwritten[0].number <= last:
            self._unwritten.popleft()
        self._under_way = None
        done.set_result(None)


class LogFile:
    """A file of JSON lines. At half of `max_bytes` it is renamed to `NAME.1`, which is replaced.

    The file is for one gateway: two writers are not detected, and their numbers would mix.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._before = path.with_name(path.name + ".1")
        self._half = max_bytes // 2
        self._trouble = ""

    def read(self) -> list[LogEntry]:
        """Return the newest entries, oldest first; lines that are no entry are skipped."""
        entries: list[LogEntry] = []
        for path in (self._before, self._path):
            try:
                entries += _entries_of(_tail(path, self._half))
            except FileNotFoundError:
                continue
            except OSError as error:
                self._say(error)
        entries.sort(key=lambda entry: entry.number)
        return entries[-KEPT:]

    def append(self, entries: Iterable[LogEntry]) -> bool:
        """Append entries; return whether they were written. The log has the reason of a failure."""
        lines = "".join(f"{json_text(as_document(entry))}\n" for entry in entries).encode()
        try:
            self._rotate(len(lines))
            self._append(lines)
        except OSError as error:
            self._say(error)
            return False
        if self._trouble:
            log.info("%s is writable again", self._path)
            self._trouble = ""
        return True

    def _rotate(self, more: int) -> None:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return
        if size and size + more > self._half:
            self._path.replace(self._before)

    def _append(self, lines: bytes) -> None:
        """Append all of the lines or none: after a failed write the file is truncated again."""
        self._path.touch(mode=0o600)
        with self._path.open("r+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            # the previous writer was killed
            if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
                lines = b"\n" + lines
            try:
                written = 0
                while written < len(lines):
                    written += file.write(lines[written:]) or 0
            except OSError:
                with suppress(OSError):
                    file.truncate(end)
                raise

    def _say(self, error: OSError) -> None:
        """Log a write error, once for each kind however long it lasts."""
        trouble = error.strerror or str(error)
        if trouble != self._trouble:
            log.warning(
                "logs.installation_file %s: %s; the installation log is kept in memory",
                self._path,
                trouble,
            )
            self._trouble = trouble


def _tail(path: Path, limit: int) -> bytes:
    """Return the end of a file, bounded so that a wrong path cannot fill the memory."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - limit))
        return file.read(limit)


def _entries_of(data: bytes) -> list[LogEntry]:
    entries = []
    for line in data.split(b"\n"):
        try:
            entry = read_entry(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue
        if entry is not None:
            entries.append(entry)
    return entries


# ---- entries about the parent's own actions

_GATEWAY, _CONFIGURATION, _CERTIFICATES = "gateway", "configuration", "certificates"
_MAX_OPTIONS = 50  # options of a refused file
_MAX_CHANGES = 50  # names in each list of a reload
_MAX_SHOWN = 5  # of them, in its text


def gateway_started(file: str, workers: int) -> NewEntry:
    """Return the entry of the gateway's start.

    Args:
        file: Path of the configuration file.
        workers: Number of workers.
    """
    text = f"headgate {__version__} ({CODE}) with {workers} worker(s), pid {os.getpid()}"
    details = {"version": __version__, "native": CODE, "workers": workers, "file": file}
    return NewEntry(Kind.STARTED, _GATEWAY, text, details)


def gateway_draining(delay_s: float, bound_s: float) -> NewEntry:
    """Return the entry of the beginning of a drain.

    Args:
        delay_s: Time for which the gateway still serves, in seconds.
        bound_s: Time until its end, in seconds.
    """
    text = f"ends within {bound_s:g} s and serves requests for the first {delay_s:g} s"
    return NewEntry(Kind.DRAINING, _GATEWAY, text, {"delay_s": delay_s, "bound_s": bound_s})


def gateway_ended(is_clean: bool) -> NewEntry:
    """Return the entry of the gateway's end, after its last worker."""
    text = (
        "all workers drained" if is_clean else "some workers did not drain in time and were killed"
    )
    return NewEntry(Kind.ENDED, _GATEWAY, text, {"clean": is_clean})


def config_reloaded(file: str, settings: Settings, changes: ReloadChanges) -> NewEntry:
    """Return the entry of an applied reload; its lists are bounded, and its text has the counts."""
    topics, producers = len(settings.topics), len(settings.producers)
    text = f"{file}: {counted(topics, 'topic')}, {counted(producers, 'producer')}"
    details: dict[str, Detail] = {"file": file}
    parts = []
    for name, options in changes._asdict().items():
        details[name] = options[:_MAX_CHANGES]
        if options:
            more = len(options) - _MAX_SHOWN
            parts.append(
                f"{name} {', '.join(options[:_MAX_SHOWN])}{f' and {more} more' if more > 0 else ''}"
            )
    text += "; " + ("; ".join(parts) or "nothing changed")
    return NewEntry(Kind.RELOADED, _CONFIGURATION, text, details)


def reload_refused(file: str, why: str, options: Sequence[str]) -> NewEntry:
    """Return the entry of a refused reload.

    Args:
        file: Path of the configuration file.
        why: Reason of the refusal.
        options: Options that are wrong or need a restart.
    """
    details: dict[str, Detail] = {"file": file, "options": [*options[:_MAX_OPTIONS]]}
    return NewEntry(Kind.RELOAD_REFUSED, _CONFIGURATION, why, details)


def certificates_reloaded() -> NewEntry:
    """Return the entry of renewed certificates."""
    return NewEntry(Kind.CERTIFICATES_RELOADED, _CERTIFICATES, "new certificates are active")


def certificates_refused(error: OSError) -> NewEntry:
    """Return the entry of certificates that cannot be used."""
    return NewEntry(
        Kind.CERTIFICATES_REFUSED, _CERTIFICATES, f"the old certificates stay active: {error}"
    )


# ---- entries from consecutive polls of the workers

Value = TypeVar("Value")
SPOOL = "spool"
_MAX_TOPICS = 20  # topics that an entry names; their number is a field
_SUPPRESSION = {
    QUARANTINE: (Kind.QUARANTINE_BEGAN, "all events are published without comparison (quarantine)"),
    AWAY: (
        Kind.SUPPRESSION_AWAY,
        "all events are published without comparison: Redis does not answer",
    ),
    ON: (Kind.SUPPRESSION_ON, "suppression is active again"),
}
_REFUSED: tuple[Kind, str] = (
    Kind.SUPPRESSION_AWAY,
    'events are refused (redis_loss = "refuse"): Redis does not answer',
)
Words = tuple[Kind, str]
_OUTAGE: tuple[Words, Words] = (
    (Kind.OUTAGE_BEGAN, "{}: {}"),
    (Kind.OUTAGE_ENDED, "{} recovered after {}"),
)
_SPOOL_STOP: tuple[Words, Words] = (
    (Kind.SPOOL_STOPPED, "the {} refuses events: {}"),
    (Kind.SPOOL_RESUMED, "the {} accepts events again after {}"),
)


class Change(NamedTuple, Generic[Value]):
    """A change of a polled value.

    Attributes:
        before: The value before; None if it was not known.
        after: The new value.
        at_ms: Time of the first poll with the new value, in milliseconds since 1970.
        lasted_ms: Duration of the value before, in milliseconds.
    """

    before: Value | None
    after: Value
    at_ms: int
    lasted_ms: int


class Debounced(Generic[Value]):
    """A polled value that changes once two polls in a row agree; None until then.

    A single poll may fall into the moment in which a worker starts, connects or is briefly away.
    """

    def __init__(self) -> None:
        self.value: Value | None = None
        self._since_ms = 0
        self._candidate: Value | None = None
        self._seen_ms = 0

    def update(self, now_ms: int, value: Value) -> Change[Value] | None:
        """Take the value of a poll; return the change that it confirms, if any."""
        if value == self.value:
            self._candidate = None
            return None
        if value != self._candidate:
            self._candidate, self._seen_ms = value, now_ms
            return None
        # a clock may be set back
        lasted_ms = max(0, self._seen_ms - self._since_ms) if self.value is not None else 0
        change = Change(self.value, value, self._seen_ms, lasted_ms)
        self.value, self._since_ms, self._candidate = value, self._seen_ms, None
        return change


class Poll(NamedTuple):
    """The result of one poll of all workers.

    Attributes:
        dependencies: For each dependency whether it works, and the reason if not.
        servers: The process that answers for each Redis, if all workers have the same.
        suppression: The suppression state by topic.
        spooled: Events on disk; None unless every worker reports them.
        rebuilds: Kafka producers replaced so far, by (cluster, reason).
        refusing: Topics that refuse events while Redis is unavailable.
    """

    dependencies: Mapping[str, tuple[bool, str]]
    servers: Mapping[str, str]
    suppression: Mapping[str, str]
    spooled: int | None
    rebuilds: Mapping[tuple[str, ...], float]
    refusing: Collection[str] = ()


class Observer:
    """A comparison of consecutive polls. A value that no worker reports keeps its state."""

    def __init__(self) -> None:
        self._well: dict[str, Debounced[bool]] = {}
        self._servers: dict[str, Debounced[str]] = {}
        self._suppressed: dict[str, Debounced[str]] = {}
        self._is_spooling: Debounced[bool] = Debounced()
        self._rebuilds: dict[tuple[str, ...], float] = {}

    def see(self, now_ms: int, poll: Poll) -> list[NewEntry]:
        """Return the entries of a poll at `now_ms`, in milliseconds since 1970."""
        return [
            *self._dependencies(now_ms, poll.dependencies),
            *self._changed_servers(now_ms, poll.servers),
            *self._suppression(now_ms, poll.suppression, poll.refusing),
            *self._spool(now_ms, poll.spooled),
            *self._rebuilt(poll.rebuilds),
        ]

    def _dependencies(
        self, now_ms: int, seen: Mapping[str, tuple[bool, str]]
    ) -> Iterator[NewEntry]:
        for name, (is_well, why) in seen.items():
            change = self._well.setdefault(name, Debounced()).update(now_ms, is_well)
            if change is not None and (change.before is not None or not is_well):
                yield _came_or_went(name, change, why)

    def _changed_servers(self, now_ms: int, seen: Mapping[str, str]) -> Iterator[NewEntry]:
        for name, server in seen.items():
            change = self._servers.setdefault(name, Debounced()).update(now_ms, server)
            if change is not None and change.before is not None:
                text = f"{name}: {change.after} answers instead of {change.before}"
                details: dict[str, Detail] = {"before": change.before, "after": change.after}
                yield NewEntry(Kind.REDIS_CHANGED, name, text, details, change.at_ms)

    def _suppression(
        self, now_ms: int, seen: Mapping[str, str], refusing: Collection[str]
    ) -> Iterator[NewEntry]:
        for gone in self._suppressed.keys() - seen.keys():
            del self._suppressed[gone]
        together: dict[tuple[str, bool], list[tuple[str, Change[str]]]] = {}
        for topic, state in seen.items():
            change = self._suppressed.setdefault(topic, Debounced()).update(now_ms, state)
            if change is not None and (change.before is not None or state != ON):
                refuses = state == AWAY and topic in refusing
                together.setdefault((state, refuses), []).append((topic, change))
        for (state, refuses), changes in together.items():
            yield _suppression_changed(state, refuses, changes)

    def _spool(self, now_ms: int, spooled: int | None) -> Iterator[NewEntry]:
        if spooled is None:
            return
        change = self._is_spooling.update(now_ms, spooled > 0)
        if change is None or (change.before is None and not change.after):
            return
        if change.after:
            text, details = "events are spooled on disk", {"events": spooled}
            yield NewEntry(Kind.SPOOL_BEGAN, SPOOL, text, details, change.at_ms)
            return
        text = f"empty again after {span(change.lasted_ms)}"
        yield NewEntry(Kind.SPOOL_ENDED, SPOOL, text, _lasted(change), change.at_ms)

    def _rebuilt(self, seen: Mapping[tuple[str, ...], float]) -> Iterator[NewEntry]:
        for labels, total in seen.items():
            more = int(total - self._rebuilds.get(labels, 0))
            self._rebuilds[labels] = total
            if more > 0:
                cluster, reason = labels
                text = f"kafka {cluster}: {more} producer(s) replaced: {reason}"
                details: dict[str, Detail] = {"reason": reason, "count": more}
                yield NewEntry(Kind.PRODUCER_REBUILT, f"kafka {cluster}", text, details)


def span(ms: int) -> str:
    """Return a duration for people: `850 ms`, `12 s`, `3 min 5 s`, `2 h 14 min`."""
    if ms < 1000:
        return f"{ms} ms"
    minutes, seconds = divmod(round(ms / 1000), 60)
    if not minutes:
        return f"{seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def _lasted(change: Change[bool] | Change[str]) -> dict[str, Detail]:
    return {"seconds": round(change.lasted_ms / 1000, 3)}


def _came_or_went(name: str, change: Change[bool], why: str) -> NewEntry:
    (went, stopped), (came, began) = _SPOOL_STOP if name == SPOOL else _OUTAGE
    if change.after:
        text = began.format(name, span(change.lasted_ms))
        return NewEntry(came, name, text, _lasted(change), change.at_ms)
    return NewEntry(went, name, stopped.format(name, why), {}, change.at_ms)


def _suppression_changed(
    state: str, refuses: bool, changes: Sequence[tuple[str, Change[str]]]
) -> NewEntry:
    kind, sentence = _REFUSED if refuses else _SUPPRESSION[state]
    topics = sorted(topic for topic, _ in changes)
    named = topics[:_MAX_TOPICS]
    longest = max((change for _, change in changes), key=lambda change: change.lasted_ms)
    subject = topics[0] if len(topics) == 1 else f"{len(topics)} topics"
    text = f"{', '.join(named)}{' and others' if len(named) < len(topics) else ''}: {sentence}"
    details: dict[str, Detail] = {"topics": named, "count": len(topics)}
    if state == ON:
        text, details = f"{text} after {span(longest.lasted_ms)}", details | _lasted(longest)
    return NewEntry(kind, subject, text, details, min(change.at_ms for _, change in changes))


def poll_of(
    states: Collection[WorkerState],
    dependencies: Mapping[str, Mapping[str, object]],
    figures: Fleet,
    is_complete: bool,
    policies: PolicyTable,
) -> Poll:
    """Return the poll for the observer.

    Args:
        states: The states of the workers.
        dependencies: The dependencies as /ready shows them.
        figures: The metrics of all workers.
        is_complete: Whether every worker has answered.
        policies: The policies of all topics.
    """
    suppression = worst(state.suppression for state in states)
    spooled = sum(figures.gauge("headgate_spool_events").values())
    return Poll(
        {name: (bool(each["ok"]), str(each["detail"])) for name, each in dependencies.items()},
        _servers(states),
        {topic: worst_of.state for topic, worst_of in suppression.items()},
        int(spooled) if is_complete else None,
        figures.counter("headgate_producer_rebuilds_total"),
        policies.refusing(suppression),
    )


def _servers(states: Collection[WorkerState]) -> dict[str, str]:
    """Return the process that answers for each dependency, if all workers have the same."""
    by_name: dict[str, set[str]] = {}
    for state in states:
        for dependency in state.readiness.dependencies:
            if dependency.server:
                by_name.setdefault(dependency.name, set()).add(dependency.server)
    return {name: servers.pop() for name, servers in by_name.items() if len(servers) == 1}
