"""The shapes of what is sent and answered (JSON Schema 2020-12)."""

from headgate.core.outcome import Name, Reason
from headgate.core.suppression.states import OFF, STATES
from headgate.edge.openapi.operation import BASE64, Json

_TEXT: Json = {"type": "string"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_NUMBER: Json = {"type": "number", "minimum": 0}
_BASE64: Json = {"type": "string", "contentEncoding": "base64", **BASE64}
_COUNTS: Json = {"type": "object", "additionalProperties": _COUNT}
_TEXTS: Json = {"type": "object", "additionalProperties": _TEXT}

_REASON_TEXT: Json = {"type": "string", "minLength": 1, "maxLength": 200}
_SCOPE: Json = {
    "oneOf": [
        {"const": "all"},
        {
            "type": "object",
            "required": ["topic"],
            "properties": {
                "topic": {"type": "string", "minLength": 1},
                "partition": {"type": "integer", "minimum": 0},
            },
            "additionalProperties": False,
        },
    ]
}


def _object(required: list[str], **properties: Json) -> Json:
    return {"type": "object", "required": required, "properties": properties}


def _or_null(kind: str) -> Json:
    return {"type": [kind, "null"]}


_WEIGHT = _object(["path", "bytes"], path=_TEXT, bytes=_COUNT)
_VIOLATION = _object(["path", "schema_path", "detail"], path=_TEXT, schema_path=_TEXT, detail=_TEXT)
_FIGURES: dict[str, Json] = {
    "size_bytes": _COUNT,
    "limit_bytes": _COUNT,
    "limit": {"description": "The name or the value of the limit."},
    "largest_paths": {"type": "array", "items": _WEIGHT},
    "violations": {"type": "array", "items": _VIOLATION, "maxItems": 20},
    "key": _TEXT,
    "key_base64": _BASE64,
    "event_id": _or_null("string"),
}

_SUPPRESSION: Json = {
    **_object(
        ["state", "until_s"],
        state={"enum": [*STATES, OFF]},
        until_s={**_or_null("number"), "minimum": 0},
    ),
    **_or_null("object"),
    "description": "The state of suppression: `quarantine` (suppression starts in `until_s` "
    "seconds), `away` (Redis does not answer), `off` (disabled by policy). It is the worst state "
    "of all workers; null if this gateway does not compare these events.",
}

_EVENT = {
    **_object(
        [],
        key={**_or_null("string"), "minLength": 1},
        key_base64={"type": ["string", "null"], "minLength": 1, **BASE64},
        value={"description": "Any JSON. Its exact text is published."},
        value_base64=_BASE64,
        tombstone={"type": "boolean"},
        id={**_or_null("string"), "minLength": 1, "maxLength": 256},
        headers={**_TEXTS, "propertyNames": {"pattern": "^[!-~]{1,256}$"}},
        timestamp_ms={"type": ["integer", "null"], "minimum": 0, "maximum": 999_999_999_999_999},
    ),
    "additionalProperties": False,
    "description": "Has exactly one of `value`, `value_base64` and `tombstone`, and at most one of "
    "`key` and `key_base64`.",
}

SCHEMAS: dict[str, Json] = {
    "Problem": _object(
        ["type", "title", "status", "detail", "instance", "reason", "retryable"],
        type=_TEXT,
        title=_TEXT,
        status={"type": "integer"},
        detail=_TEXT,
        instance=_TEXT,
        reason={"enum": [*map(str, Reason)]},
        retryable={"type": "boolean"},
        **_FIGURES,
    ),
    "Outcome": _object(
        ["outcome", "topic"],  # no more of one that is held, or was
        outcome={"enum": [name.value for name in Name if name not in ("rejected", "unknown")]},
        topic=_TEXT,
        partition={"type": "integer", "minimum": 0},
        offset={"type": "integer", "minimum": -1},
        key=_TEXT,
        key_base64=_BASE64,
        event_id=_or_null("string"),
        records=_COUNT,
        oversize={"enum": ["compress", "notify", "claim-check", "split", "chunk"]},
    ),
    "FailedOutcome": _object(
        ["outcome", "reason", "status", "detail", "retryable"],
        outcome={"enum": ["rejected", "unknown"]},
        reason={"enum": [*map(str, Reason)]},
        status={"type": "integer"},
        detail=_TEXT,
        retryable={"type": "boolean"},
        index=_COUNT,
        **_FIGURES,
    ),
    "BatchAnswer": _object(
        ["summary", "outcomes"],
        summary=_COUNTS,
        outcomes={
            "type": "array",
            "items": {
                "anyOf": [
                    {"$ref": "#/components/schemas/Outcome"},
                    {"$ref": "#/components/schemas/FailedOutcome"},
                ]
            },
        },
    ),
    "Burst": _object(
        ["outcome", "burst", "topics"],
        outcome={"const": "committed"},
        burst=_TEXT,
        topics={"type": "array", "items": _TEXT},
    ),
    "Event": {
        "type": "object",
        "additionalProperties": True,
        "description": "The value of one event. Its exact text is published. Usually an object. An "
        "array is a batch with one event per element (with `Headgate-Batch: false` it is one "
        "event). Any other JSON is one event.",
    },
    "Envelope": {
        **_object(["events"], events={"type": "array", "items": _EVENT}),
        "additionalProperties": False,
    },
    "CloudEvent": _object(
        ["specversion", "type", "source", "id"],
        specversion={"const": "1.0"},
        type={**_TEXT, "minLength": 1},
        source={**_TEXT, "minLength": 1},
        id={**_TEXT, "minLength": 1},
        subject=_TEXT,
        time={"type": "string", "format": "date-time"},
        datacontenttype=_TEXT,
        data={"description": "Any JSON."},
        data_base64=_BASE64,
    ),
    "Liveness": _object(["status"], status={"const": "live"}),
    "Readiness": _object(
        ["status", "dependencies"],
        status={"enum": ["ready", "degraded", "not ready", "draining"]},
        dependencies={
            "type": "object",
            "additionalProperties": _object(["ok"], ok={"type": "boolean"}, detail=_TEXT),
        },
    ),
    "Producer": _object(
        ["producer", "events_per_s", "bytes_per_s", "last_seen", "ratios", "topics"],
        producer=_TEXT,
        events_per_s=_NUMBER,
        bytes_per_s=_NUMBER,
        last_seen=_or_null("string"),
        received_total=_COUNTS,
        events_total=_COUNTS,
        bytes_saved_total=_COUNT,
        ratios={"type": "object"},
        topics={
            "type": "array",
            "items": _object(
                ["topic", "events_total", "suppression"],
                topic=_TEXT,
                received_total=_COUNTS,
                events_total=_COUNTS,
                suppression=_SUPPRESSION,
            ),
        },
    ),
    "Topic": _object(
        [
            *("topic", "policy", "partitions", "kafka", "events_per_s", "bytes_per_s"),
            *("producers", "suppression"),
        ],
        topic=_TEXT,
        policy={"type": "object"},
        partitions=_COUNT,
        kafka={"type": "object"},
        events_per_s=_NUMBER,
        bytes_per_s=_NUMBER,
        producers={"type": "array", "items": _TEXT},
        suppression=_SUPPRESSION,
        held={
            **_object(
                ["keys", "bytes", "oldest_s", "lag"],
                keys=_or_null("integer"),
                bytes=_or_null("integer"),
                oldest_s=_or_null("number"),
                lag=_or_null("integer"),
            ),
            **_or_null("object"),
        },
    ),
    "Forgotten": _object(
        ["forgotten"], forgotten=_object(["topic", "key"], topic=_TEXT, key=_or_null("string"))
    ),
    "Next": {
        "type": ["string", "null"],
        "description": "The value of `after` for the next page; null on the last page.",
    },
    "Groups": _object(
        ["groups", "next", "regressions", "clusters", "cannot_be_seen"],
        next={"$ref": "#/components/schemas/Next"},
        groups={"type": "array", "items": {"$ref": "#/components/schemas/GroupState"}},
        regressions={"type": "array", "items": {"$ref": "#/components/schemas/Regression"}},
        clusters={
            "type": "array",
            "items": _object(
                ["cluster", "ok", "every_commit_is_seen"],
                cluster=_TEXT,
                ok={"type": "boolean"},
                every_commit_is_seen={"type": "boolean"},
            ),
        },
        cannot_be_seen={"type": "array", "items": _TEXT},
    ),
    "GroupState": _object(
        ["group", "cluster", "state", "lag", "heat", "stuck_commit", "probation", "hints"],
        group=_TEXT,
        cluster=_TEXT,
        state={"enum": ["OK", "WARN", "STALL", "STOP", "REWIND"]},
        lag=_COUNT,
        heat={"enum": ["hot", "cooling", "cold", "unknown"]},
        stuck_commit={"type": "boolean"},
        position_age_s=_NUMBER,
        loss_in_s=_or_null("number"),
        unread_topics={"type": "array", "items": _TEXT},
        probation=_object(["admitted"], admitted={"type": "boolean"}),
        hints={"type": "array", "items": _TEXT},
    ),
    "Group": _object(
        ["group", "on"],
        group=_TEXT,
        on={
            "type": "array",
            "items": {
                "allOf": [
                    {"$ref": "#/components/schemas/GroupState"},
                    _object(
                        ["owners", "partitions", "recent_regressions", "pauses"],
                        owners={"type": "array", "items": {"type": "object"}},
                        partitions={"type": "array", "items": {"type": "object"}},
                        recent_regressions={
                            "type": "array",
                            "items": {"$ref": "#/components/schemas/Regression"},
                        },
                        pauses={"type": ["array", "null"], "items": {"type": "object"}},
                    ),
                ]
            },
        },
    ),
    "Regression": _object(
        ["group", "topic", "partition", "from", "to", "at", "committer", "recovered_at"],
        group=_TEXT,
        topic=_TEXT,
        partition=_COUNT,
        **{"from": _COUNT},
        to=_COUNT,
        at=_TEXT,
        committer=_or_null("object"),
        recovered_at=_or_null("string"),
    ),
    "PauseIntent": _object(["scope", "reason"], scope=_SCOPE, reason=_REASON_TEXT)
    | {"additionalProperties": False},
    "Paused": _object(
        ["group", "intents"],
        group=_TEXT,
        intents={
            "type": "array",
            "items": _object(
                ["scope", "reason", "by", "at"], scope=_SCOPE, reason=_TEXT, by=_TEXT, at=_TEXT
            ),
        },
    ),
    "Change": _object(
        ["at", "who", "remote", "what"], at=_TEXT, who=_TEXT, remote=_or_null("string"), what=_TEXT
    ),
}
