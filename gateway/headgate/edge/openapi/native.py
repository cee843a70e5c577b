"""The data plane's own operations."""

from typing import Any

from headgate.core.outcome import TRAITS, Reason
from headgate.edge.openapi.docs_pages import FILES
from headgate.edge.openapi.operation import (
    ALWAYS,
    CREDENTIALS,
    FLAG,
    REQUEST_ID_HEADER,
    TOPIC,
    Json,
    Operation,
    answer,
    failed_answer,
    header,
    path,
    problems,
    query,
    ref,
)

_PAGES = (Reason.NOT_FOUND, Reason.REQUEST_TIMEOUT)
# Reasons that posting events never has.
_ELSEWHERE = frozenset(
    {
        Reason.METHOD_NOT_ALLOWED,
        Reason.REPLAY_FINISHED,
        Reason.GROUP_ACTIVE,
        Reason.NOT_COVERED,
    }
)
# A generated client needs a type for the body. What else JSON has is taken, too.
_OBJECT: Json = ref("Event")
_PRODUCER_NAME: Json = {"type": "string", "minLength": 1, "maxLength": 100}
_COMMITTED = {"outcome": "committed", "burst": "import-17", "topics": ["deals"]}
_HTML: Json = {"type": "string", "description": "An HTML page."}
_EVENT_EXAMPLE = {"order_id": 17, "total": 35.5}
_CLOUDEVENT = {
    "specversion": "1.0",
    "type": "order.paid",
    "source": "/shop",
    "id": "e-1",
    "data": {"order_id": 17},
}
_ENVELOPE_EXAMPLE = {
    "events": [
        {"key": "17", "value": {"total": 35.5}, "id": "e-1", "headers": {"author": "Ada"}},
        {"key": "18", "value_base64": "iVBORw0KGgo="},
        {"key": "19", "tombstone": True},
    ]
}
_PUBLISHED = {
    "outcome": "published",
    "topic": "orders",
    "partition": 4,
    "offset": 1729,
    "key": "17",
    "event_id": "0192f0c1-7a3e-7c5a-9a52-2f4be1d3a001",
    "records": 1,
}

_KEY = query(
    "key",
    "The key of the event, for clients that can only send Latin-1 headers. Replaces "
    "`Headgate-Key`; a body with one event only. `Headgate-Key*: UTF-8''...` (RFC 8187) is "
    "equivalent.",
    {"type": "string", "minLength": 1},
)
_HEADERS = (
    header(
        "Headgate-Key",
        "The key of the event, in UTF-8. For a body with one event only.",
        {"type": "string", "minLength": 1},
    ),
    header(
        "Headgate-Event-Id",
        "The client's id of the event. For a body with one event only.",
        {"type": "string", "minLength": 1, "maxLength": 256},
    ),
    header(
        "Headgate-Timestamp",
        "Timestamp of the event, in milliseconds since 1970. For a body with one event only.",
        {"type": "integer", "minimum": 0, "maximum": 999_999_999_999_999},
    ),
    header("Headgate-Tombstone", "`true`: publish a null value. The body must be empty.", FLAG),
    header(
        "Idempotency-Key",
        "The client's id of the request. A repeated request gets the first response and writes "
        "nothing.",
        {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[!#-~]+$"},
    ),
    header("Headgate-Force", "`true`: publish the event even if it is unchanged.", FLAG),
    header("Headgate-Batch", "`false`: publish a JSON array as one event.", FLAG),
    header(
        "Headgate-Burst",
        "The burst that the events belong to. On topics that coalesce, their keys are held until "
        "the burst ends.",
        {"type": "string", "minLength": 1, "maxLength": 128},
    ),
    header(
        "Headgate-Producer",
        "The producer's name, if authentication is off.",
        _PRODUCER_NAME,
    ),
    header(
        "Prefer",
        "`return=minimal`: return only the summary of a batch and its failed events.",
        {"type": "string", "examples": ["return=minimal"]},
    ),
    header(
        "Content-Encoding",
        "The compression of the body.",
        {"type": "string", "enum": ["gzip", "deflate", "zstd", "identity"]},
    ),
    header("traceparent", "W3C trace context, written to Kafka.", {"type": "string"}),
    header("tracestate", "Written to Kafka together with `traceparent`.", {"type": "string"}),
    header("X-Request-Id", "The client's id of the request.", {"type": "string", "maxLength": 128}),
)


def events_operation(batch_max_events: int, body_max_bytes: int) -> Operation:
    """Posting events. The two limits are the configuration's."""
    return Operation(
        "POST",
        "/v1/topics/{topic}/events",
        "data",
        "Events",
        "Post events",
        {**_good_answers(), **_failures()},
        "The content type determines how the body is split into events. A batch is not atomic: "
        "each event has its own outcome. `application/cloudevents-batch+json` (an array of "
        "CloudEvents) is accepted as well. Each header `Headgate-Header-NAME` becomes a record "
        f"header. One request takes at most {batch_max_events} events (`http.batch_max_events`) "
        f"and {body_max_bytes} bytes after decompression (`http.body_max_bytes`).",
        (TOPIC, _KEY, *_HEADERS),
        {"content": _content(), "required": False},
    )


def _content() -> Json:
    return {
        "application/json": {"schema": _OBJECT, "example": _EVENT_EXAMPLE},
        "application/x-ndjson": {
            "schema": {"type": "string", "description": "One JSON document per line."},
            "example": '{"order_id": 17}\n{"order_id": 18}\n',
        },
        "application/vnd.headgate.batch+json": {
            "schema": ref("Envelope"),
            "example": _ENVELOPE_EXAMPLE,
        },
        "application/cloudevents+json": {"schema": ref("CloudEvent"), "example": _CLOUDEVENT},
        "application/octet-stream": {
            "schema": {"type": "string", "format": "binary", "description": "Opaque bytes."}
        },
    }


def _good_answers() -> dict[str, Json]:
    outcome, batch = ref("Outcome"), ref("BatchAnswer")
    unchanged: Any = {**_PUBLISHED, "outcome": "unchanged", "event_id": None, "records": 0}
    texts = {
        "200": (
            "Unchanged, a duplicate, or a batch without failures",
            {"anyOf": [outcome, batch]},
            unchanged,
        ),
        "201": ("Published", outcome, _PUBLISHED),
        "202": ("Held or spooled: stored durably and published later", outcome, None),
        "207": ("A batch with some failed events", batch, None),
    }
    found = {}
    for status, (text, schema, example) in texts.items():
        found[status] = answer(text, "application/json", schema, example)
        found[status]["headers"] = {"X-Request-Id": REQUEST_ID_HEADER}
    return found


def _failures() -> dict[str, Json]:
    """Every reason; a batch of which no event ended well has the status of one of them, too."""
    content = {
        "application/problem+json": {"schema": ref("Problem")},
        "application/json": {"schema": ref("BatchAnswer")},
    }
    found: dict[str, list[Reason]] = {}
    for reason, traits in TRAITS.items():
        if reason not in _ELSEWHERE:
            found.setdefault(str(traits.status), []).append(reason)
    return {
        status: failed_answer(status, reasons, content) for status, reasons in sorted(found.items())
    }


COMMIT_BURST = Operation(
    "POST",
    "/v1/bursts/{id}/commit",
    "data",
    "Events",
    "End a burst and publish the latest event of each of its keys",
    {
        "200": {
            **answer(
                "The burst ended in these topics", "application/json", ref("Burst"), _COMMITTED
            ),
            "headers": {"X-Request-Id": REQUEST_ID_HEADER},
        },
        **problems(
            *ALWAYS,
            *CREDENTIALS,
            Reason.FORBIDDEN,
            Reason.UNKNOWN_TOPIC,
            Reason.REQUEST_TIMEOUT,
            Reason.QUOTA_EXCEEDED,
            Reason.BROKER_REFUSED,
            Reason.OVERLOADED,
            Reason.DRAINING,
            Reason.KAFKA_UNAVAILABLE,
            Reason.UNKNOWN,
        ),
    },
    "Commit a burst after the gateway has responded to all of its events. The gateway writes the "
    "end of the burst to each topic that coalesces and that the caller may post to. `topic` "
    "limits this to the topics that it names. A commit can be repeated after any response.",
    (
        path(
            "id",
            "The id sent in `Headgate-Burst`, in ASCII.",
            {"type": "string", "maxLength": 128},
        ),
        query(
            "topic",
            "End the burst in this topic only. Can be given several times.",
            {"type": "string"},
        ),
        header(
            "Headgate-Producer", "The producer's name, if authentication is off.", _PRODUCER_NAME
        ),
    ),
)


def _page(target: str, summary: str, content_type: str, schema: Json, port: str) -> Operation:
    answers = {"200": answer(summary, content_type, schema), **problems(*ALWAYS, *_PAGES)}
    return Operation("GET", target, port, "Pages", summary, answers, is_open=True)


def _ready() -> Operation:
    found = _page("/ready", "Readiness", "application/json", ref("Readiness"), "both")
    not_ready = answer("Not ready, or draining", "application/json", ref("Readiness"))
    return found._replace(answers={**found.answers, "503": not_ready})


PAGES = (
    _page("/live", "Liveness", "application/json", ref("Liveness"), "both"),
    _ready(),
    _page("/problems", "All reasons for failed events", "text/html", _HTML, "both"),
    _page(
        "/problems/{reason}", "One reason for failed events", "text/html", _HTML, "both"
    )._replace(
        parameters=(path("reason", "The `reason` of a problem.", {"enum": [*TRAITS]}, "too_large"),)
    ),
    _page("/openapi.json", "This document", "application/json", {"type": "object"}, "both"),
    _page("/docs", "Interactive reference of this port", "text/html", _HTML, "both"),
    _page("/docs/{file}", "A file of the interactive reference", "*/*", {}, "both")._replace(
        parameters=(path("file", "The file's name.", {"enum": [*FILES]}, "openapi.json"),),
    ),
)
