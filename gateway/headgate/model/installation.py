# Not compiled: no event passes it.
"""Entries of the installation log: kinds, meanings and the JSON form."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeGuard

Detail = str | int | float | list[str] | None
_MAX_MS = 253_402_300_799_999  # the end of the year 9999
_MAX_NUMBER = 2**53  # programs read numbers of JSON as doubles
MAX_TEXT = 1_000  # characters of a text: a refused file may have thousands of problems


class Level(StrEnum):
    """Severity for an operator."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Kind(StrEnum):
    """Kind of an entry. `GET /v1/log` shows the value and filters by it."""

    STARTED = "started"
    DRAINING = "draining"
    ENDED = "ended"
    RELOADED = "reloaded"
    RELOAD_REFUSED = "reload_refused"
    CERTIFICATES_RELOADED = "certificates_reloaded"
    CERTIFICATES_REFUSED = "certificates_refused"
    CHANGED = "changed"
    WORKER_DIED = "worker_died"
    WORKER_STARTED = "worker_started"
    WORKER_SILENT = "worker_silent"
    OUTAGE_BEGAN = "outage_began"
    OUTAGE_ENDED = "outage_ended"
    REDIS_CHANGED = "redis_changed"
    QUARANTINE_BEGAN = "quarantine_began"
    SUPPRESSION_AWAY = "suppression_away"
    SUPPRESSION_ON = "suppression_on"
    PRODUCER_REBUILT = "producer_rebuilt"
    SPOOL_BEGAN = "spool_began"
    SPOOL_ENDED = "spool_ended"
    SPOOL_STOPPED = "spool_stopped"
    SPOOL_RESUMED = "spool_resumed"
    REPLAY_CREATED = "replay_created"
    REPLAY_DONE = "replay_done"
    REPLAY_FAILED = "replay_failed"
    REPLAY_CANCELLED = "replay_cancelled"
    REPLAY_EXPIRED = "replay_expired"


class Meaning(NamedTuple):
    """Severity of a kind, and its explanation."""

    level: Level
    about: str


MEANINGS: Mapping[Kind, Meaning] = {
    Kind.STARTED: Meaning(
        Level.INFO, "The gateway started. Outages logged before this entry are over."
    ),
    Kind.DRAINING: Meaning(Level.INFO, "The gateway received a stop signal and drains."),
    Kind.ENDED: Meaning(
        Level.INFO, "The gateway ended; `clean` is true if all workers drained in time."
    ),
    Kind.RELOADED: Meaning(
        Level.INFO,
        "The topics and producers of the file are active; `added`, `removed` and `changed` name "
        "the difference.",
    ),
    Kind.RELOAD_REFUSED: Meaning(
        Level.ERROR,
        "The file was refused, and the old configuration stays; `options` names the cause.",
    ),
    Kind.CERTIFICATES_RELOADED: Meaning(Level.INFO, "New certificates are active."),
    Kind.CERTIFICATES_REFUSED: Meaning(
        Level.ERROR, "The new certificates cannot be used; the old ones stay active."
    ),
    Kind.CHANGED: Meaning(
        Level.INFO, "A person or a program changed something through the control plane; see `who`."
    ),
    Kind.WORKER_DIED: Meaning(Level.ERROR, "A worker exited unexpectedly and is restarted."),
    Kind.WORKER_STARTED: Meaning(
        Level.INFO, "The successor of a worker that exited is up, after `seconds`."
    ),
    Kind.WORKER_SILENT: Meaning(Level.ERROR, "A worker did not answer for a minute and is killed."),
    Kind.OUTAGE_BEGAN: Meaning(
        Level.WARNING, "Kafka, Redis, the blob store or the clock failed; see `subject`."
    ),
    Kind.OUTAGE_ENDED: Meaning(Level.INFO, "The outage ended after `seconds`."),
    Kind.REDIS_CHANGED: Meaning(
        Level.WARNING, "A different Redis process answers: a failover or a restart."
    ),
    Kind.QUARANTINE_BEGAN: Meaning(
        Level.WARNING,
        "These topics publish all events because the state in Redis may be incomplete.",
    ),
    Kind.SUPPRESSION_AWAY: Meaning(
        Level.WARNING, "These topics publish all events because Redis does not answer."
    ),
    Kind.SUPPRESSION_ON: Meaning(
        Level.INFO, "Suppression is active again on these topics, after `seconds`."
    ),
    Kind.PRODUCER_REBUILT: Meaning(
        Level.WARNING, "Kafka producers of a cluster failed permanently and were replaced."
    ),
    Kind.SPOOL_BEGAN: Meaning(Level.WARNING, "The gateway began to spool events on disk."),
    Kind.SPOOL_ENDED: Meaning(Level.INFO, "The spool is empty again, after `seconds`."),
    Kind.SPOOL_STOPPED: Meaning(
        Level.ERROR, "The spool refuses events: it is full, or its disk fails."
    ),
    Kind.SPOOL_RESUMED: Meaning(Level.INFO, "The spool accepts events again, after `seconds`."),
    Kind.REPLAY_CREATED: Meaning(Level.INFO, "A replay was created."),
    Kind.REPLAY_DONE: Meaning(
        Level.INFO, "A replay is done: its records can be read, or its group is positioned."
    ),
    Kind.REPLAY_FAILED: Meaning(Level.ERROR, "A replay failed; see `reason`."),
    Kind.REPLAY_CANCELLED: Meaning(Level.INFO, "A replay was cancelled."),
    Kind.REPLAY_EXPIRED: Meaning(Level.INFO, "A replay expired."),
}


class LogEntry(NamedTuple):
    """An entry of the log.

    Attributes:
        number: The entry's number; each entry has the next one.
        at_ms: Time since 1970, in milliseconds.
        kind: The kind.
        subject: The dependency, topic, replay or other object that the entry concerns.
        text: A sentence for people.
        details: Figures and names, for programs.
    """

    number: int
    at_ms: int
    kind: Kind
    subject: str
    text: str
    details: Mapping[str, Detail]

    @property
    def level(self) -> Level:
        """Return the severity of the entry's kind."""
        return MEANINGS[self.kind].level


class NewEntry(NamedTuple):
    """An entry before it has a number; `at_ms` None means now."""

    kind: Kind
    subject: str
    text: str
    details: Mapping[str, Detail] = {}
    at_ms: int | None = None


def entry_of(number: int, now_ms: int, happening: NewEntry) -> LogEntry:
    """Return a log entry with this number, and shorten a text that is too long."""
    at_ms = now_ms if happening.at_ms is None else happening.at_ms
    text = happening.text if len(happening.text) <= MAX_TEXT else f"{happening.text[:MAX_TEXT]}..."
    return LogEntry(number, at_ms, happening.kind, happening.subject, text, happening.details)


def as_document(entry: LogEntry) -> dict[str, object]:
    """Return the entry as a JSON object for the log file; responses add members to it."""
    return {
        "number": entry.number,
        "at_ms": entry.at_ms,
        "kind": str(entry.kind),
        "subject": entry.subject,
        "text": entry.text,
        "details": dict(entry.details),
    }


def read_entry(document: object) -> LogEntry | None:
    """Read an entry that `as_document` wrote; None for other data or a later release's kind."""
    if not isinstance(document, dict):
        return None
    number, at_ms, kind, subject, text, details = map(document.get, LogEntry._fields)
    if not (_is_within(number, _MAX_NUMBER) and _is_within(at_ms, _MAX_MS) and kind in list(Kind)):
        return None
    if not (isinstance(subject, str) and isinstance(text, str) and isinstance(details, dict)):
        return None
    return LogEntry(number, at_ms, Kind(str(kind)), subject, text, details)


def _is_within(value: object, limit: int) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= limit
