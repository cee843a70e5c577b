"""The shapes of replays, translations, coverage and snapshots."""

from headgate.core.replays.replay import Control, ReplayState
from headgate.core.replays.segments import Result
from headgate.edge.openapi.operation import Json

_TEXT: Json = {"type": "string"}
_NAME: Json = {"type": "string", "minLength": 1, "maxLength": 200}
_TOPIC: Json = {"type": "string", "pattern": r"^[A-Za-z0-9_.\-]{1,249}$"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_OFFSET: Json = {"type": "integer", "minimum": 0, "maximum": 2**62}
_TEXT_OR_NULL: Json = {"type": ["string", "null"]}
_NUMBER_OR_NULL: Json = {"type": ["number", "null"]}
_NUMBERED: Json = {"pattern": "^(0|[1-9][0-9]{0,4})$"}


def _object(needed: list[str], /, **properties: Json) -> Json:
    return {"type": "object", "required": needed, "properties": properties}


def _exactly(needed: list[str], /, **properties: Json) -> Json:
    return {**_object(needed, **properties), "additionalProperties": False}


def _by_partition(what: Json) -> Json:
    return {"type": "object", "propertyNames": _NUMBERED, "additionalProperties": what}


def _texts() -> Json:
    return {"type": "array", "items": {"type": "string", "minLength": 1}}


_OFFSETS: Json = {**_by_partition(_OFFSET), "minProperties": 1}
_TIME: Json = {
    "description": "ms since 1970, or ISO 8601 with a zone.",
    "oneOf": [
        {"type": "integer", "minimum": 0, "maximum": 10**15},
        {"type": "string", "format": "date-time"},
    ],
}
_BOUND: Json = {
    "oneOf": [
        _exactly(["offsets"], offsets=_OFFSETS),
        _exactly(["timestamp"], timestamp=_TIME),
        _exactly(
            ["relative"], relative={"type": "string", "pattern": r"^(now|-[0-9]{1,9}(ms|s|m|h|d))$"}
        ),
        _exactly(["snapshot"], snapshot=_NAME),
        _exactly(["group"], group=_NAME),
    ]
}
_FILTER: Json = _exactly(
    [],
    keys=_texts(),
    keys_base64=_texts(),
    producers=_texts(),
    headers={"type": "object", "additionalProperties": {"oneOf": [_TEXT, _texts()]}},
    equals={"type": "object", "description": "Required values, by JSON Pointer."},
)
_RATE: Json = _exactly(
    [],
    records_per_s={"type": "integer", "minimum": 1},
    bytes_per_s={"type": "integer", "minimum": 1},
)
_DELIVER: Json = _exactly(
    ["mode"],
    mode={"enum": ["seek", "topic", "group"]},
    group=_NAME,
    ttl_s={"type": "integer", "minimum": 1},
)
_PLACES: Json = _by_partition(_object(["start", "end"], start=_COUNT, end=_COUNT))
_REQUIRED: Json = _object(["isolation.level"], **{"isolation.level": {"const": "read_committed"}})
_PLANNED: Json = _object(
    ["records", "bytes", "cold_offsets", "lost_offsets", "seconds", "covered", "partitions"],
    records=_COUNT,
    bytes=_NUMBER_OR_NULL,
    cold_offsets=_COUNT,
    lost_offsets=_COUNT,
    seconds=_NUMBER_OR_NULL,
    covered={"type": "boolean"},
    topic_ids={"type": ["object", "null"], "additionalProperties": _TEXT},
    partitions={"type": "object"},
)
_IDS: Json = {"type": "object", "additionalProperties": _TEXT}  # Kafka's, by tier or topic
_RANGE: Json = _object(["start", "end"], start=_COUNT, end=_COUNT)

REPLAY_SCHEMAS: dict[str, Json] = {
    "ReplayRequest": {
        **_exactly(
            ["name", "topic", "from", "deliver"],
            name=_NAME,
            topic=_TOPIC,
            partitions={"type": ["array", "null"], "items": _COUNT, "minItems": 1},
            to=_BOUND,
            filter=_FILTER,
            deliver=_DELIVER,
            rate=_RATE,
            dry_run={"type": "boolean"},
            allow_cold={"type": "boolean"},
            **{"from": _BOUND},
        ),
        "description": "`filter`, `rate` and `allow_cold` are allowed in mode `topic` only.",
    },
    "Replay": _object(
        ["name", "topic", "from", "deliver", "planned", "required"],
        id=_TEXT,
        state={"enum": [*map(str, ReplayState)]},
        control={"enum": [*map(str, Control)]},
        reason=_TEXT_OR_NULL,
        name=_TEXT,
        topic=_TEXT,
        deliver={"type": "object"},
        by=_TEXT,
        created_at=_TEXT_OR_NULL,
        changed_at=_TEXT_OR_NULL,
        expires_at=_TEXT_OR_NULL,
        planned=_PLANNED,
        done=_object(
            ["read", "records", "bytes", "event_time"],
            read=_COUNT,
            records=_COUNT,
            bytes=_COUNT,
            event_time=_TEXT_OR_NULL,
        ),
        result={
            "type": ["object", "null"],
            "required": ["bootstrap_servers", "topic", "offsets"],
            "properties": {"bootstrap_servers": _TEXT, "topic": _TEXT, "offsets": _PLACES},
        },
        required=_REQUIRED,
        dry_run={"type": "boolean"},
        **{"from": {"description": "The start that was requested."}},
    ),
    "Unavailable": _object(["cluster", "why"], cluster=_TEXT, why=_TEXT),
    "TranslateRequest": _exactly(
        ["topic", "to", "offsets"],
        topic=_TOPIC,
        to={"enum": ["backfill", "ingest"]},
        offsets=_by_partition({"type": "array", "items": _OFFSET}),
    ),
    "Translated": _object(
        ["topic", "to", "topic_ids", "unchecked", "offsets"],
        topic=_TEXT,
        to={"enum": ["backfill", "ingest"]},
        topic_ids=_IDS,
        unchecked={"type": "array", "items": {"const": "ingest"}},
        offsets=_by_partition(
            {
                "type": "array",
                "items": _object(
                    ["source", "offset", "result"],
                    source=_OFFSET,
                    offset={"type": ["integer", "null"]},
                    result={"enum": [*map(str, Result)]},
                    deleted={"type": "boolean"},
                ),
            }
        ),
    ),
    "Coverage": _object(
        ["topic", "backfill", "topic_ids", "why", "partitions"],
        topic=_TEXT,
        backfill=_TEXT,
        topic_ids=_IDS,
        why=_TEXT_OR_NULL,
        partitions=_by_partition(
            _object(
                ["source", "target", "times", "gaps", "not_mirrored", "segments", "layout"],
                source=_RANGE,
                target=_RANGE,
                times={"type": ["object", "null"]},
                gaps={"type": "array", "items": {"type": "object"}},
                not_mirrored=_object(["before", "behind"], before=_COUNT, behind=_COUNT),
                segments=_COUNT,
                layout=_COUNT,
                topic_ids={**_IDS, "type": ["object", "null"]},
            )
        ),
    ),
    "SnapshotRequest": {
        **_exactly(["name"], name=_NAME, topic=_TOPIC, group=_NAME),
        "anyOf": [{"required": ["topic"]}, {"required": ["group"]}],
    },
    "Snapshot": _object(
        ["name", "topic", "group", "topics", "by", "at"],
        name=_TEXT,
        topic=_TEXT_OR_NULL,
        group=_TEXT_OR_NULL,
        topics={"type": "object", "additionalProperties": _by_partition(_OFFSET)},
        topic_ids=_IDS,
        by=_TEXT,
        at=_TEXT_OR_NULL,
    ),
}
