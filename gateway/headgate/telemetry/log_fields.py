"""Every field that a line of the log may have, once: its type, its unit, and what it says.

docs/operate/logs.md shows this table. A test reads every log call of the tree and fails where one
has a field that is not here.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class LogField(NamedTuple):
    """kind: JSON's name of its type.  text: what it says, with the unit of a number."""

    kind: str
    text: str


STRING, INTEGER, NUMBER, OBJECT, ARRAY = "string", "integer", "number", "object", "array"

LOG_FIELDS: Final[Mapping[str, LogField]] = {
    # Of every line.
    "time": LogField(STRING, "When, in UTC with milliseconds (RFC 3339)."),
    "level": LogField(STRING, "DEBUG, INFO, WARNING, ERROR or CRITICAL."),
    "logger": LogField(STRING, "Which part says it; stays from release to release."),
    "text": LogField(STRING, "What happened, for people: words may change."),
    "error": LogField(STRING, "A traceback, of several lines."),
    "repeated": LogField(INTEGER, "How often this was said since the line before it."),
    # Of requests.
    "request_id": LogField(STRING, "The request's X-Request-Id, which its client got, too."),
    "trace_id": LogField(STRING, "Of the request's trace, if it is sampled: 32 hex digits."),
    "producer": LogField(STRING, "Who sent it, or changed something; empty = not known."),
    "topic": LogField(STRING, "The topic that it is about."),
    "path": LogField(STRING, "The path of the request, or of a folder that was removed."),
    "method": LogField(STRING, "The request's method."),
    "status": LogField(INTEGER, "HTTP status of the answer."),
    "reason": LogField(
        STRING, "Why it failed (reference/reasons.md); of a change, why a group was paused."
    ),
    "reasons": LogField(OBJECT, "Of a batch: how many events failed for which reason."),
    "events": LogField(INTEGER, "Of a batch: how many events it had."),
    "bytes": LogField(INTEGER, "Bytes of the request's body, as sent."),
    "ms": LogField(NUMBER, "Milliseconds from the request's head to its answer."),
    "left_out": LogField(INTEGER, "How many such lines were not written in the last minute."),
    # Of processes.
    "pid": LogField(INTEGER, "Process id."),
    "worker": LogField(INTEGER, "The worker's number, from 0."),
    "workers": LogField(INTEGER, "How many workers there are to be."),
    "exit_code": LogField(INTEGER, "How a worker ended; negative: by this signal."),
    "version": LogField(STRING, "Headgate's version."),
    "native": LogField(STRING, "c, or python where the native code is missing."),
    "hot_path": LogField(STRING, "mypyc, or python where it is not compiled."),
    "python": LogField(STRING, "Python's version."),
    "data": LogField(STRING, "Address and port of the data plane."),
    "management": LogField(STRING, "Address and port of the management pages."),
    "port": LogField(INTEGER, "The monitor's port."),
    "file": LogField(STRING, "The configuration file."),
    "config_sha256": LogField(STRING, "SHA-256 of the configuration file in force, as sha256sum."),
    "options": LogField(ARRAY, "Options that a reload cannot change."),
    "delay_s": LogField(NUMBER, "Seconds for which a stopping gateway still serves."),
    "bound_s": LogField(NUMBER, "Seconds within which it ends."),
    "open": LogField(INTEGER, "Questions that the helper process had not answered."),
    # Of what the gateway needs.
    "away_s": LogField(NUMBER, "Seconds for which something was away that is back."),
    "cluster": LogField(STRING, "The Kafka cluster, by its name in the configuration."),
    "url": LogField(STRING, "Where an issuer's keys are fetched."),
    "trusted_for_s": LogField(INTEGER, "Seconds for which the known keys still hold."),
    # Of callers and changes.
    "remote": LogField(STRING, "The address of who asks."),
    "wrong": LogField(INTEGER, "Wrong credentials within the window."),
    "refused": LogField(INTEGER, "Credentials that were not looked at."),
    "addresses": LogField(INTEGER, "From how many addresses they came."),
    "key": LogField(STRING, "Of a change: the key whose state was forgotten."),
    "group": LogField(STRING, "Of a change: the consumer group."),
    "scope": LogField(STRING, "Of a change: what of the group is paused."),
    "replay": LogField(STRING, "Of a change: the replay's id."),
    "called": LogField(STRING, "Of a change: the replay's name."),
    "snapshot": LogField(STRING, "Of a change: the snapshot's name."),
    "owner": LogField(STRING, "Who committed last when commits went back."),
    "owner_before": LogField(STRING, "Who had committed before."),
}
