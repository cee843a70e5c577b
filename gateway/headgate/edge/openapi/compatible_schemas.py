"""The shapes of Confluent's REST v2 and v3, as far as they are spoken here."""

from headgate.edge.openapi.operation import BASE64, Json

_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": ["integer", "null"], "minimum": 0}
_PARTITION: Json = {"type": ["integer", "null"], "minimum": 0, "maximum": 2_147_483_647}
_BASE64: Json = {"type": ["string", "null"], **BASE64}
_ANY: Json = {"description": "Any JSON."}
_IGNORED: Json = {"description": "Accepted and ignored."}


def _strict(required: list[str], **properties: Json) -> Json:
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


def _request(key_and_value: Json) -> Json:
    """A v2 request whose keys and values have this schema."""
    header = _strict(["key", "value"], key={**_TEXT, "pattern": "^[ -~]{1,256}$"})
    header["properties"]["value"] = {"type": "string", **BASE64}
    record = _strict(
        [],
        key=key_and_value,
        value=key_and_value,
        partition=_PARTITION,
        timestamp={"type": ["integer", "null"], "minimum": 0, "maximum": 999_999_999_999_999},
        headers={"type": ["array", "null"], "items": header},
    )
    return _strict(
        ["records"],
        records={"type": "array", "minItems": 1, "items": record},
        key_schema=_IGNORED,
        key_schema_id=_IGNORED,
        value_schema=_IGNORED,
        value_schema_id=_IGNORED,
    )


def _datum() -> Json:
    def of(kind: str, data: Json) -> Json:
        return _strict(["type", "data"], type={"const": kind}, data=data)

    text: Json = {"type": ["string", "null"]}
    return {"oneOf": [of("BINARY", _BASE64), of("STRING", text), of("JSON", _ANY)]}


_SIZED: Json = {
    "type": "object",
    "required": ["type", "size"],
    "properties": {"type": {"enum": ["BINARY", "JSON", "STRING"]}, "size": {"type": "integer"}},
}
_REPLICA: Json = {
    "type": "object",
    "required": ["broker", "leader", "in_sync"],
    "properties": {
        "broker": {"type": "integer"},
        "leader": {"type": "boolean"},
        "in_sync": {"type": "boolean"},
    },
}

COMPATIBLE_SCHEMAS: dict[str, Json] = {
    "ConfluentError": {
        "type": "object",
        "required": ["error_code", "message"],
        "properties": {"error_code": {"type": "integer"}, "message": _TEXT},
    },
    "V2JsonRequest": _request(_ANY),
    "V2BinaryRequest": _request(_BASE64),
    "V2TextRequest": _request({"type": ["string", "null"]}),
    "V2Produced": _strict(
        ["offsets", "key_schema_id", "value_schema_id"],
        offsets={
            "type": "array",
            "items": _strict(
                ["partition", "offset", "error_code", "error"],
                partition=_NUMBER,
                offset={"type": ["integer", "null"], "minimum": -1},
                error_code={"type": ["integer", "null"]},
                error={"type": ["string", "null"]},
            ),
        },
        key_schema_id={"type": "null"},
        value_schema_id={"type": "null"},
    ),
    "V2Partition": {
        "type": "object",
        "required": ["partition", "leader", "replicas"],
        "properties": {
            "partition": {"type": "integer"},
            "leader": {"type": "integer"},
            "replicas": {"type": "array", "items": _REPLICA},
        },
    },
    "V2Topic": {
        "type": "object",
        "required": ["name", "configs", "partitions"],
        "properties": {
            "name": _TEXT,
            "configs": {"type": "object", "additionalProperties": _TEXT},
            "partitions": {"type": "array", "items": {"$ref": "#/components/schemas/V2Partition"}},
        },
    },
    "V3Cluster": {
        "type": "object",
        "required": ["kind", "metadata", "cluster_id"],
        "properties": {
            "kind": {"const": "KafkaCluster"},
            "metadata": {"type": "object"},
            "cluster_id": _TEXT,
        },
    },
    "V3Clusters": {
        "type": "object",
        "required": ["kind", "metadata", "data"],
        "properties": {
            "kind": {"const": "KafkaClusterList"},
            "metadata": {"type": "object"},
            "data": {"type": "array", "items": {"$ref": "#/components/schemas/V3Cluster"}},
        },
    },
    "V3Record": _strict(
        [],
        partition_id=_PARTITION,
        headers={
            "type": ["array", "null"],
            "items": _strict(
                ["name", "value"],
                name={**_TEXT, "pattern": "^[ -~]{1,256}$"},
                value={"type": "string", **BASE64},
            ),
        },
        key=_datum(),
        value=_datum(),
        timestamp={"type": "string", "format": "date-time"},
    ),
    "V3Report": {
        "type": "object",
        "required": ["error_code"],
        "properties": {
            "error_code": {"type": "integer"},
            "message": _TEXT,
            "cluster_id": _TEXT,
            "topic_name": _TEXT,
            "partition_id": {"type": "integer"},
            "offset": {"type": "integer"},
            "timestamp": {"type": ["string", "null"]},
            "key": _SIZED,
            "value": _SIZED,
        },
    },
}
