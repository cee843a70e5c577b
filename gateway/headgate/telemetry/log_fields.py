"""Every field of the log: its type, its unit and its meaning.

docs/operate/logs.md shows this table. A test reads every log call and fails if a field is not here.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class LogField(NamedTuple):
    """kind: JSON's name of its type.  text: what it says, with the unit of a number."""

    kind: str
    text: str


STRING, INTEGER, NUMBER, OBJECT, ARRAY = "string", "integer", "number", "object", "array"

LOG_FIELDS: Final[Mapping[str, LogField]] = {
    # Every line.
    "time": LogField(STRING, "Time in UTC with milliseconds (RFC 3339)."),
    "level": LogField(STRING, "DEBUG, INFO, WARNING, ERROR or CRITICAL."),
    "logger": LogField(STRING, "Name of the part that logs; stable between releases."),
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
    "port": LogField(INTEGER, "The monitor's port."),
    "file": LogField(STRING, "The configuration file."),
    "config_sha256": LogField(
        STRING, "SHA-256 of the active configuration file, as sha256sum prints it."
    ),
    "options": LogField(ARRAY, "Changed options that need a restart."),
    "delay_s": LogField(NUMBER, "Seconds during which a stopping gateway still serves."),
    "bound_s": LogField(NUMBER, "Longest time until the process ends, in seconds."),
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
    "group": LogField(STRING, "Consumer group of a change."),
    "scope": LogField(STRING, "Paused part of the consumer group."),
    "replay": LogField(STRING, "Id of a changed replay."),
    "called": LogField(STRING, "Name of a changed replay."),
    "snapshot": LogField(STRING, "Name of a snapshot."),
    "owner": LogField(STRING, "Member that committed a lower offset."),
    "owner_before": LogField(STRING, "Member that committed the higher offset before."),
}
