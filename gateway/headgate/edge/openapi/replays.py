"""The management port's operations on the second tier: replays, offsets, snapshots."""

from typing import Any

from headgate.core.outcome import Reason
from headgate.edge.openapi.operation import (
    ALWAYS,
    BODY,
    CREDENTIALS,
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
_ASKED = (*ALWAYS, *CREDENTIALS, Reason.FORBIDDEN, Reason.KAFKA_UNAVAILABLE)
_ID = path("id", "The id of a replay.", example="0192f0c1-7a3e-7c5a-9a52-2f4be1d3a001")
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
    "Backfill clusters that did not answer; their rows are missing. If no backfill cluster "
    "answers, the request is refused."
)
_KEY = header(
    "Idempotency-Key",
    "The client's id of the request. A repeated request returns the replay that the first one "
    "created.",
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
    return {"200": answer(f"All {name}", "application/json", schema)}


def _body(schema: str, example: Any) -> Json:
    content = {"application/json": {"schema": ref(schema), "example": example}}
    return {"required": True, "content": content}


def _control(method: str, target: str, summary: str, description: str) -> Operation:
    reasons = (Reason.NOT_FOUND, Reason.REPLAY_FINISHED)
    return _operation(
        method,
        target,
        summary,
        _ok("Replay", "The current state of the replay"),
        *reasons,
        role="operate",
        description=description,
        parameters=(_ID,),
    )


_CREATE = _operation(
    "POST",
    "/v1/replays",
    "Create a replay from the backfill tier",
    {
        **_ok("Replay", "The plan of a dry run, or the earlier replay with this `Idempotency-Key`"),
        **_ok("Replay", "Created", "201"),
    },
    Reason.UNKNOWN_TOPIC,
    Reason.NOT_COVERED,
    Reason.GROUP_ACTIVE,
    Reason.QUOTA_EXCEEDED,
    *BODY,
    Reason.IDEMPOTENCY_MISMATCH,
    role="operate",
    description="There are three modes of delivery. `seek` returns positions on the backfill tier "
    "at once. `group` commits these positions for a group without members. `topic` makes the "
    "runner copy the filtered range to a new topic. `from` and `to` are offsets of the ingest "
    "tier, times, snapshots or the committed offsets of a group. Without `to`, the range ends "
    "now. A range that is not fully mirrored is refused, unless mode `topic` has `allow_cold`. "
    "The problem contains `partitions` and `mirrored_to` (a `to` that is mirrored). With "
    "`dry_run` nothing is created, and the role `view` is enough.",
    parameters=(_KEY,),
    body=_body("ReplayRequest", _REPLAY_EXAMPLE),
)
_EVENTS = _operation(
    "GET",
    "/v1/replays/{id}/events",
    "Watch a replay: one server-sent event after each change",
    {"200": answer("Events named `replay`", "text/event-stream", {"type": "string"})},
    Reason.NOT_FOUND,
    Reason.OVERLOADED,
    description="The stream ends when the replay ends.",
    parameters=(_ID,),
)
_TRANSLATE = _operation(
    "POST",
    "/v1/offsets/translate",
    "Translate offsets from one tier to the other",
    _ok("Translated", "The offsets in the order of the request; `source` is the requested offset"),
    Reason.UNKNOWN_TOPIC,
    Reason.NOT_COVERED,
    *BODY,
    description="`exact`: the offset of the same record. `next`: the offset has no record (a "
    "transaction marker, or compaction); this is the offset of the next record. `out_of_range`: "
    "the record is not mirrored or no longer exists. `deleted`: retention removed the record. "
    "When offsets are translated to the ingest tier, a `deleted` record keeps its offset. "
    "`topic_ids` contains Kafka's ids of the topics that the offsets belong to. `unchecked` names "
    "the ingest tier if it did not answer; the topic may have been deleted there.",
    body=_body("TranslateRequest", _TRANSLATE_EXAMPLE),
)
_SNAPSHOT = _operation(
    "POST",
    "/v1/snapshots",
    "Save the current offsets under a name, for `from` and `to` of a later replay",
    {
        **_ok("Snapshot", "The snapshot exists already and did not change"),
        **_ok("Snapshot", "Created", "201"),
    },
    Reason.UNKNOWN_TOPIC,
    Reason.NOT_COVERED,
    Reason.QUOTA_EXCEEDED,
    *BODY,
    Reason.IDEMPOTENCY_MISMATCH,
    role="operate",
    description="The snapshot of a topic contains the end offset of each partition. The snapshot "
    "of a group contains its committed offsets, of one topic or of all topics.",
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
            query("topic", "Only replays of this topic.", {"type": "string"}),
            query("state", "Only replays in this state.", {"type": "string"}),
        ),
    ),
    _operation(
        "GET",
        "/v1/replays/{id}",
        "One replay: state, progress and location of its records",
        _ok("Replay", "The current state of the replay"),
        Reason.NOT_FOUND,
        parameters=(_ID,),
    ),
    _control(
        "DELETE",
        "/v1/replays/{id}",
        "Cancel a replay",
        "A cancelled replay cannot be resumed. Its topic is deleted.",
    ),
    _control(
        "POST",
        "/v1/replays/{id}/pause",
        "Pause a replay",
        "The runner stops copying until the replay is resumed.",
    ),
    _control("POST", "/v1/replays/{id}/resume", "Resume a replay", ""),
    _EVENTS,
    _TRANSLATE,
    _operation(
        "GET",
        "/v1/coverage/{topic}",
        "The mirrored part of a topic: ranges, times and gaps by partition",
        _ok("Coverage", "The mirrored ranges of each partition"),
        Reason.UNKNOWN_TOPIC,
        Reason.NOT_COVERED,
        parameters=(TOPIC,),
    ),
    _operation("GET", "/v1/snapshots", "All snapshots", _listed("snapshots", "Snapshot")),
    _SNAPSHOT,
)
