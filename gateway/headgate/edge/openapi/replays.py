"""The management port's operations on the second tier: replays, offsets, snapshots."""

from typing import Any

from headgate.core.outcome import Reason
from headgate.edge.openapi.operation import (
    ALWAYS,
    BODY,
    PRETTY,
    TOPIC,
    Json,
    Operation,
    answer,
    header,
    path,
    problems,
    query,
    ref,
)

_TAG = "Second tier"
_ASKED = (
    *ALWAYS,
    Reason.UNAUTHENTICATED,
    Reason.ISSUER_UNAVAILABLE,
    Reason.FORBIDDEN,
    Reason.KAFKA_UNAVAILABLE,
)
_ID = path("id", "A replay's id.", example="0192f0c1-7a3e-7c5a-9a52-2f4be1d3a001")
_REPLAY_EXAMPLE = {
    "name": "orders again after the incident",
    "topic": "orders",
    "from": {"relative": "-2h"},
    "filter": {"producers": ["checkout"]},
    "deliver": {"mode": "topic"},
}
_TRANSLATE_EXAMPLE = {"topic": "orders", "to": "backfill", "offsets": {"0": [5, 9]}}
_SNAPSHOT_EXAMPLE = {"name": "before-release-17", "topic": "orders"}
_SILENT = (
    "Backfill clusters that could not be asked: what is theirs is missing here. Where none answers "
    "at all, the request is refused."
)
_KEY = header(
    "Idempotency-Key",
    "Your id of the request: a repeat is answered with the replay that it made.",
    {"type": "string", "minLength": 1, "maxLength": 256},
)


def _operation(
    method: str,
    target: str,
    summary: str,
    answers: dict[str, Json],
    *reasons: Reason,
    role: str = "view",
    description: str = "",
    parameters: tuple[Json, ...] = (),
    body: Json | None = None,
) -> Operation:
    text = f"{description} Needs the role `{role}`.".strip()
    every = {**answers, **problems(*_ASKED, *reasons)}
    shown = (*parameters, PRETTY)
    return Operation(method, target, "management", _TAG, summary, every, text, shown, body)


def _ok(schema: str, text: str, status: str = "200") -> dict[str, Json]:
    return {status: answer(text, "application/json", ref(schema))}


def _listed(name: str, row: str) -> dict[str, Json]:
    rows = {"type": "array", "items": ref(row)}
    silent = {"type": "array", "items": ref("Unavailable"), "description": _SILENT}
    properties = {name: rows, "unavailable": silent}
    schema = {"type": "object", "required": [*properties], "properties": properties}
    return {"200": answer("All of them", "application/json", schema)}


def _body(schema: str, example: Any) -> Json:
    content = {"application/json": {"schema": ref(schema), "example": example}}
    return {"required": True, "content": content}


def _control(method: str, target: str, summary: str, description: str) -> Operation:
    reasons = (Reason.NOT_FOUND, Reason.REPLAY_FINISHED)
    return _operation(
        method,
        target,
        summary,
        _ok("Replay", "As it stands now"),
        *reasons,
        role="operate",
        description=description,
        parameters=(_ID,),
    )


_CREATE = _operation(
    "POST",
    "/v1/replays",
    "Ask for a replay from the backfill tier",
    {
        **_ok("Replay", "A dry run's plan, or the replay that this Idempotency-Key made before"),
        **_ok("Replay", "Registered", "201"),
    },
    Reason.UNKNOWN_TOPIC,
    Reason.NOT_COVERED,
    Reason.GROUP_ACTIVE,
    Reason.QUOTA_EXCEEDED,
    *BODY,
    Reason.IDEMPOTENCY_MISMATCH,
    role="operate",
    description="`seek` answers places on the backfill tier at once, `group` commits them for a "
    "group without members, `topic` has the runner copy the filtered range to a topic of its own. "
    "`from` and `to` are offsets of the ingest tier, times, snapshots or a group's offsets; `to` "
    "left out = now. What is not mirrored is refused with figures (`partitions`, and `mirrored_to`,"
    " a `to` that is covered), unless mode `topic` has `allow_cold`. With `dry_run` nothing is "
    "registered, and `view` is enough.",
    parameters=(_KEY,),
    body=_body("ReplayRequest", _REPLAY_EXAMPLE),
)
_EVENTS = _operation(
    "GET",
    "/v1/replays/{id}/events",
    "Watch a replay: server-sent events, one after each change",
    {"200": answer("Events named `replay`", "text/event-stream", {"type": "string"})},
    Reason.NOT_FOUND,
    Reason.OVERLOADED,
    description="The stream ends when the replay has ended.",
    parameters=(_ID,),
)
_TRANSLATE = _operation(
    "POST",
    "/v1/offsets/translate",
    "Translate offsets of one tier to those of the other",
    _ok("Translated", "In the order asked; `source` is the offset that was given"),
    Reason.UNKNOWN_TOPIC,
    Reason.NOT_COVERED,
    *BODY,
    description="`exact`: the very record. `next`: the offset is in a hole (a transaction's marker,"
    " compaction), reading goes on there. `out_of_range`: not mirrored, or no longer there; "
    "`deleted` where retention took it. To the ingest tier a `deleted` record keeps its offset. "
    "`topic_ids`: Kafka's, of the topics that the offsets are of; `unchecked` names the "
    "ingest tier where it did not answer, so that nobody knows whether it still has that topic.",
    body=_body("TranslateRequest", _TRANSLATE_EXAMPLE),
)
_SNAPSHOT = _operation(
    "POST",
    "/v1/snapshots",
    "Name the offsets of now, for `from` and `to` of a later replay",
    {
        **_ok("Snapshot", "It was there before, and is as it was"),
        **_ok("Snapshot", "Kept", "201"),
    },
    Reason.UNKNOWN_TOPIC,
    Reason.NOT_COVERED,
    Reason.QUOTA_EXCEEDED,
    *BODY,
    Reason.IDEMPOTENCY_MISMATCH,
    role="operate",
    description="Of a topic: where each partition ends. Of a group: what it has committed, of one "
    "topic or of all.",
    body=_body("SnapshotRequest", _SNAPSHOT_EXAMPLE),
)

SECOND_TIER = (
    _CREATE,
    _operation(
        "GET",
        "/v1/replays",
        "All replays, oldest first",
        _listed("replays", "Replay"),
        parameters=(
            query("topic", "Those of one topic.", {"type": "string"}),
            query("state", "Those in one state.", {"type": "string"}),
        ),
    ),
    _operation(
        "GET",
        "/v1/replays/{id}",
        "One replay: state, progress, and where its records are",
        _ok("Replay", "As it stands"),
        Reason.NOT_FOUND,
        parameters=(_ID,),
    ),
    _control("DELETE", "/v1/replays/{id}", "Cancel a replay", "For good; its topic is deleted."),
    _control("POST", "/v1/replays/{id}/pause", "Stop copying", "Until it is resumed."),
    _control("POST", "/v1/replays/{id}/resume", "Go on copying", ""),
    _EVENTS,
    _TRANSLATE,
    _operation(
        "GET",
        "/v1/coverage/{topic}",
        "What of a topic is mirrored: ranges, times and gaps by partition",
        _ok("Coverage", "By partition"),
        Reason.UNKNOWN_TOPIC,
        Reason.NOT_COVERED,
        parameters=(TOPIC,),
    ),
    _operation("GET", "/v1/snapshots", "All named offsets", _listed("snapshots", "Snapshot")),
    _SNAPSHOT,
)
