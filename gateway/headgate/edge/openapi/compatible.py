"""The operations that speak Confluent's REST v2 and v3."""

from typing import Any

from headgate.core.formats import confluent_v2, confluent_v3
from headgate.core.formats.confluent import codes_of
from headgate.core.outcome import Failure, Reason
from headgate.edge.openapi.operation import (
    CREDENTIALS,
    Json,
    Operation,
    answer,
    by_status,
    failed_answer,
    path,
    problems,
    ref,
)

_V2, _V3 = confluent_v2.TYPE, confluent_v3.TYPE
_TOPIC = path("topic", "A topic of the configuration that exists in Kafka.", example="orders")
_CLUSTER = path("cluster_id", "Kafka's id of the cluster.", example="Tm9yd2VnaWFuIGJsdWU")
_PARTITION = path("partition", "The number of a partition.", {"type": "integer", "minimum": 0}, 0)
_ASKING = (
    *CREDENTIALS,
    Reason.FORBIDDEN,
    Reason.DRAINING,
    Reason.KAFKA_UNAVAILABLE,
    Reason.INTERNAL,
)
_PRODUCING = (
    *_ASKING,
    Reason.MALFORMED,
    Reason.REQUEST_TIMEOUT,
    Reason.UNKNOWN_TOPIC,
    Reason.UNKNOWN_PARTITION,
    Reason.TOO_LARGE,
    Reason.UNSUPPORTED_ENCODING,
    Reason.TOO_MANY_EVENTS,
    Reason.SCHEMA_VIOLATION,
    Reason.QUOTA_EXCEEDED,
    Reason.OVERLOADED,
    Reason.BROKER_REFUSED,
    Reason.UNKNOWN,
)
_IDENTITY = (
    Reason.IDEMPOTENCY_CONFLICT,
    Reason.IDEMPOTENCY_MISMATCH,
    Reason.REDIS_UNAVAILABLE,
)
# What only the server's own frame answers: no request has been understood yet.
_FRAMING = (Reason.HEADERS_TOO_LARGE,)

_JSON_RECORDS = {"records": [{"key": "17", "value": {"total": 35.5}}, {"value": {"total": 8}}]}
_BINARY_RECORDS = {"records": [{"key": "MTc=", "value": "iVBORw0KGgo="}]}
_TEXT_RECORDS = {"records": [{"key": "17", "value": "total: 35.5"}]}
_V3_RECORD = {
    "key": {"type": "STRING", "data": "17"},
    "value": {"type": "JSON", "data": {"total": 35.5}},
    "headers": [{"name": "author", "value": "QWRh"}],
}


def _errors(content_type: str, *reasons: Reason) -> dict[str, Json]:
    """Failures in Confluent's shape, by the status that it gives them."""
    content = {content_type: {"schema": ref("ConfluentError")}}
    statuses = {one: codes_of(Failure(one, ""))[0] for one in Reason}
    return {
        **problems(*_FRAMING),
        **{
            status: failed_answer(status, some, content)
            for status, some in by_status(reasons, statuses).items()
        },
    }


def _get(
    target: str, content_type: str, summary: str, schema: Json, *parameters: Json
) -> Operation:
    missing = (Reason.UNKNOWN_TOPIC, Reason.UNKNOWN_PARTITION)[: len(parameters)]
    reasons = [*_ASKING, *missing]
    answers = {
        "200": answer(summary, content_type, schema),
        **_errors(content_type, Reason.MALFORMED, *reasons),
    }
    return Operation("GET", target, "data", "Confluent REST", summary, answers, "", parameters)


def _produce_v2(target: str, summary: str, *parameters: Json) -> Operation:
    media: dict[str, tuple[str, Any]] = {
        "application/vnd.kafka.json.v2+json": ("V2JsonRequest", _JSON_RECORDS),
        "application/vnd.kafka.binary.v2+json": ("V2BinaryRequest", _BINARY_RECORDS),
        "application/vnd.kafka.text.v2+json": ("V2TextRequest", _TEXT_RECORDS),
    }
    return Operation(
        "POST",
        target,
        "data",
        "Confluent REST",
        summary,
        {
            "200": answer(
                "One entry per record, in the order of the request; failed records have an "
                "`error_code`",
                _V2,
                ref("V2Produced"),
            ),
            **_errors(_V2, *_PRODUCING, *_IDENTITY),
        },
        "Compatible with Confluent's REST Proxy v2. `Idempotency-Key` works as in /v1. `headers` "
        "and `timestamp` of a record and the text format are compatible with the Strimzi bridge. "
        "Schema formats (avro, protobuf, jsonschema) are refused with 415.",
        parameters,
        {
            "required": True,
            "content": {
                name: {"schema": ref(schema), "example": example}
                for name, (schema, example) in media.items()
            },
        },
    )


_PRODUCE_V3 = Operation(
    "POST",
    "/v3/clusters/{cluster_id}/topics/{topic}/records",
    "data",
    "Confluent REST",
    "Produce one record or a stream of records",
    {
        "200": answer(
            "The reports of the records, one after another, in the order of the records",
            _V3,
            ref("V3Report"),
        ),
        **_errors(_V3, *_PRODUCING),
    },
    "Compatible with Confluent's REST v3. The body is one JSON object or several consecutive "
    "objects. With `Transfer-Encoding: chunked` the connection is a stream: each record is "
    "published when it arrives, and its report is sent as soon as its outcome is known.",
    (_CLUSTER, _TOPIC),
    {
        "required": True,
        "content": {_V3: {"schema": ref("V3Record"), "example": _V3_RECORD}},
    },
)

COMPATIBLE = (
    _get("/topics", _V2, "Names of the topics", {"type": "array", "items": {"type": "string"}}),
    _get("/topics/{topic}", _V2, "One topic", ref("V2Topic"), _TOPIC),
    _produce_v2("/topics/{topic}", "Produce records", _TOPIC),
    _get(
        "/topics/{topic}/partitions",
        _V2,
        "The partitions of a topic",
        {"type": "array", "items": ref("V2Partition")},
        _TOPIC,
    ),
    _get(
        "/topics/{topic}/partitions/{partition}",
        _V2,
        "One partition of a topic",
        ref("V2Partition"),
        _TOPIC,
        _PARTITION,
    ),
    _produce_v2(
        "/topics/{topic}/partitions/{partition}",
        "Produce records to a partition",
        _TOPIC,
        _PARTITION,
    ),
    _get("/v3/clusters", _V3, "The clusters", ref("V3Clusters")),
    _get("/v3/clusters/{cluster_id}", _V3, "One cluster", ref("V3Cluster"), _CLUSTER),
    _PRODUCE_V3,
)
