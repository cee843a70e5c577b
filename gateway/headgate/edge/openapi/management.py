"""The management port's operations."""

from headgate.core.outcome import Reason
from headgate.edge.management.paging import LIMIT, MAX_LIMIT
from headgate.edge.openapi.operation import (
    ALWAYS,
    BODY,
    CREDENTIALS,
    PRETTY,
    TOPIC,
    Json,
    Operation,
    answer,
    path,
    problems,
    query,
    ref,
)

_ASKED = (*ALWAYS, *CREDENTIALS, Reason.FORBIDDEN)


def view(
    target: str,
    summary: str,
    schema: Json,
    *reasons: Reason,
    parameters: tuple[Json, ...] = (),
    description: str = "",
) -> Operation:
    """A page for the role `view`."""
    answers = {
        "200": answer(summary, "application/json", schema),
        **problems(*_ASKED, *reasons),
    }
    found = Operation("GET", target, "management", "Control plane", summary, answers)
    text = f"{description} Needs the role `view`.".strip()
    return found._replace(parameters=(*parameters, PRETTY), description=text)


def _listed(name: str, row: str) -> Json:
    rows = {"type": "array", "items": ref(row)}
    return {"type": "object", "required": [name], "properties": {name: rows}}


def paged(name: str, row: str) -> Json:
    """A list that comes in pages."""
    listed = _listed(name, row)
    return listed | {
        "required": [name, "next"],
        "properties": listed["properties"] | {"next": ref("Next")},
    }


PAGING = (
    query(
        "limit",
        "Maximum number of rows on a page.",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": LIMIT},
    ),
    query(
        "after",
        "`next` of the previous page. Without it, the first page is returned.",
        {"type": "string"},
    ),
)

_FORGET = Operation(
    "DELETE",
    "/v1/suppression/{topic}",
    "management",
    "Control plane",
    "Delete the suppression state of one key or of all keys",
    {
        "200": answer("Deleted", "application/json", ref("Forgotten")),
        **problems(
            *_ASKED,
            Reason.UNKNOWN_TOPIC,
            Reason.REDIS_UNAVAILABLE,
        ),
    },
    "The next event of the key is published even if it is unchanged. Without `key` and "
    "`key_base64` this applies to every key of the topic. Needs the role `operate`.",
    (
        TOPIC,
        query("key", "The key, as text.", {"type": "string"}),
        query("key_base64", "The key, in base64.", {"type": "string", "format": "byte"}),
    ),
)

_GROUP = path("group", "The id of a consumer group.", example="billing")
_OF_PARTITION = (
    query("topic", "Only groups that read this topic.", {"type": "string"}),
    query(
        "partition",
        "Only groups that read this partition of `topic`. Each group then contains the partition "
        "as `partition`.",
        {"type": "integer", "minimum": 0},
    ),
)
_ON_PAUSES = (*_ASKED, Reason.REDIS_UNAVAILABLE)


def _pause(method: str, summary: str, description: str, *reasons: Reason) -> Operation:
    return Operation(
        method,
        "/v1/pauses/{group}",
        "management",
        "Control plane",
        summary,
        {
            "200": answer("All current pauses of the group", "application/json", ref("Paused")),
            **problems(*_ON_PAUSES, *BODY, *reasons),
        },
        f"{description} Needs the role `operate`.",
        (_GROUP, PRETTY),
        {"required": True, "content": {"application/json": {"schema": ref("PauseIntent")}}},
    )


_PAUSE = _pause(
    "PUT",
    "Pause a group, a topic or a partition, and give a reason",
    "Consumers of `headgate.consumer` that keep their pauses in Redis follow within a second.",
)
_RESUME = _pause(
    "DELETE",
    "Remove one pause reason",
    "Consumers resume after the last reason is removed.",
    Reason.NOT_FOUND,
)

_METRICS = Operation(
    "GET",
    "/metrics",
    "management",
    "Pages",
    "Metrics of all workers, in the Prometheus text format or in OpenMetrics (see `Accept`)",
    {
        "200": answer("Metrics", "text/plain", {"type": "string"}),
        **problems(*ALWAYS),
    },
    is_open=True,
)

_SPOOLED = {
    "events": {"type": "number", "minimum": 0},
    "bytes": {"type": "number", "minimum": 0},
    "oldest_s": {"type": "number", "minimum": 0},
}
_OF_TOPIC = {
    "topic": {"type": "string"},
    **_SPOOLED,
    "drained_total": {"type": "number", "minimum": 0},
    "repeated_total": {"type": "number", "minimum": 0},
    "aside_total": {"type": "number", "minimum": 0},
}
_SPOOL: Json = {
    "type": "object",
    "required": ["state", *_SPOOLED, "topics"],
    "properties": {
        "state": {
            "type": ["object", "null"],
            "description": "Whether the spool accepts events now; null without a spool.",
            "properties": {"ok": {"type": "boolean"}, "detail": {"type": "string"}},
        },
        **_SPOOLED,
        "topics": {
            "type": "array",
            "items": {"type": "object", "required": [*_OF_TOPIC], "properties": _OF_TOPIC},
        },
    },
}

MANAGEMENT = (
    _METRICS,
    view(
        "/v1/producers",
        "All producers, by name",
        paged("producers", "Producer"),
        Reason.MALFORMED,
        parameters=PAGING,
    ),
    view(
        "/v1/producers/{name}",
        "One producer: rates, sizes, ratios, keys, recent rejects",
        ref("Producer"),
        Reason.NOT_FOUND,
        parameters=(path("name", "The name of a producer.", example="checkout"),),
    ),
    view(
        "/v1/topics",
        "All topics that match a policy, by name",
        paged("topics", "Topic"),
        Reason.MALFORMED,
        parameters=PAGING,
    ),
    view(
        "/v1/topics/{topic}",
        "One topic: active policy, sizes, keys, skew",
        ref("Topic"),
        Reason.UNKNOWN_TOPIC,
        Reason.NOT_FOUND,
        parameters=(TOPIC,),
    ),
    view("/v1/spool", "Spooled events that wait for Kafka, by topic", _SPOOL),
    _FORGET,
    view(
        "/v1/pauses/{group}",
        "All current pauses of a group",
        ref("Paused"),
        Reason.REDIS_UNAVAILABLE,
        parameters=(_GROUP,),
    ),
    view(
        "/v1/groups",
        "All consumer groups, worst first, as `headgate monitor` sees them",
        ref("Groups"),
        Reason.MALFORMED,
        Reason.NOT_FOUND,
        parameters=(*PAGING, *_OF_PARTITION),
    ),
    view(
        "/v1/groups/{group}",
        "One consumer group: partitions, owners, commits, regressions, pauses",
        ref("Group"),
        Reason.NOT_FOUND,
        parameters=(_GROUP,),
    ),
    _PAUSE,
    _RESUME,
    view(
        "/v1/changes",
        "The latest changes made through the management port",
        _listed("changes", "Change"),
    ),
)
