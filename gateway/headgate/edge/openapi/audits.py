"""The management port's operations on skew audits."""

from headgate.core.outcome import Reason
from headgate.core.skew_audits.changes import Change
from headgate.core.skew_audits.summary import MAX_EARLIER, MAX_ROWS
from headgate.edge.openapi.management import view
from headgate.edge.openapi.operation import Json, query, ref

_TEXT: Json = {"type": "string"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_COUNT_OR_NULL: Json = {"type": ["integer", "null"], "minimum": 0}


def _object(**properties: Json) -> Json:
    return {"type": "object", "required": [*properties], "properties": properties}


def _array(items: Json) -> Json:
    return {"type": "array", "items": items}


_BALANCE = _object(max_over_mean={"type": "number", "minimum": 1})
_FIGURE: Json = {"type": ["number", "null"]}
_CHANGED: Json = {"enum": ["new", "gone", "more", "less", "same"]}
_NAMED: Json = {"type": ["string", "null"]}

AUDIT_SCHEMAS: dict[str, Json] = {
    "Audit": {
        "type": "object",
        "required": ["topic", "generated_at", "diagnoses"],
        "properties": {
            "topic": _TEXT,
            "generated_at": _TEXT,
            "diagnoses": _array(_TEXT),
            "earlier": _array(ref("KeptAudit")),
        },
    },
    "KeptAudit": _object(
        topic=_TEXT,
        generated_at=_TEXT,
        window=_object(**{"from": _TEXT, "to": _TEXT}),
        records=_COUNT,
        bytes=_COUNT,
        partitions=_COUNT,
        distinct_keys=_COUNT_OR_NULL,
        max_useful_partitions=_COUNT_OR_NULL,
        by_records=_BALANCE,
        by_bytes=_BALANCE,
        diagnoses=_array(_TEXT),
        top_keys=_array(_object(key=_NAMED, records=_COUNT, bytes=_COUNT)),
        producers=_array(_object(producer=_NAMED, records=_COUNT, bytes=_COUNT)),
    ),
    "AuditComparison": _object(
        topic=_TEXT,
        before=_TEXT,
        after=_TEXT,
        change={"enum": [one.value for one in Change if one not in (Change.NEW, Change.GONE)]},
        diagnoses=_object(came=_array(_TEXT), went=_array(_TEXT), stayed=_array(_TEXT)),
        figures=_array(
            _object(name=_TEXT, before=_FIGURE, after=_FIGURE, difference=_FIGURE, ratio=_FIGURE)
        ),
        keys=_array(_object(key=_NAMED, change=_CHANGED, before=_FIGURE, after=_FIGURE)),
        producers=_array(_object(producer=_NAMED, change=_CHANGED, before=_FIGURE, after=_FIGURE)),
    ),
}
_TOPIC = {**query("topic", "The audited topic.", _TEXT), "required": True}

AUDITS = (
    view(
        "/v1/audits",
        "The skew audits of a topic that can be compared, newest first",
        _object(audits=_array(ref("KeptAudit"))),
        Reason.MALFORMED,
        Reason.NOT_FOUND,
        Reason.KAFKA_UNAVAILABLE,
        parameters=(_TOPIC,),
        description=f"Contains the latest audit and up to {MAX_EARLIER} earlier ones, each with "
        f"its {MAX_ROWS} heaviest keys and producers.",
    ),
    view(
        "/v1/audits/comparison",
        "The differences between two skew audits of a topic",
        ref("AuditComparison"),
        Reason.MALFORMED,
        Reason.NOT_FOUND,
        Reason.KAFKA_UNAVAILABLE,
        parameters=(
            _TOPIC,
            query(
                "before",
                "`generated_at` of the earlier audit. Default: the audit before `after`.",
                _TEXT,
            ),
            query("after", "`generated_at` of the later audit. Default: the latest audit.", _TEXT),
        ),
        description="Shares of keys and producers refer to the topic's bytes. A share is null if "
        "the key or producer is not among the heaviest. The largest changes come first.",
    ),
    view(
        "/v1/audits/latest",
        "The latest skew audit of each topic, as published by `headgate-spark audit`",
        {
            "type": "object",
            "required": ["topics"],
            "properties": {"topics": _array(ref("Audit"))},
        },
        Reason.NOT_FOUND,
        Reason.KAFKA_UNAVAILABLE,
        parameters=(query("topic", "Only the audit of this topic.", _TEXT),),
    ),
)
