"""The OpenAPI document: every operation of both ports, with this configuration's limits."""

import re
from collections.abc import Sequence
from functools import lru_cache

import orjson

from headgate import __version__
from headgate.config.settings import HttpSettings
from headgate.edge.openapi.audits import AUDIT_SCHEMAS, AUDITS
from headgate.edge.openapi.compatible import COMPATIBLE
from headgate.edge.openapi.compatible_schemas import COMPATIBLE_SCHEMAS
from headgate.edge.openapi.installation import INSTALLATION, INSTALLATION_SCHEMAS
from headgate.edge.openapi.management import MANAGEMENT
from headgate.edge.openapi.native import COMMIT_BURST, PAGES, events_operation
from headgate.edge.openapi.operation import Json, Operation
from headgate.edge.openapi.replay_schemas import REPLAY_SCHEMAS
from headgate.edge.openapi.replays import SECOND_TIER
from headgate.edge.openapi.schemas import SCHEMAS

_PAGES = "Pages"
_TAGS = {
    "Events": "Post events. For services.",
    "Confluent REST": "Produce with Confluent's REST v2 and v3, for existing clients. Consuming is "
    "not supported.",
    _PAGES: "Health, problems and this document. No credentials are needed.",
    "Control plane": "Inspect and operate the gateway, on the management port. Reading needs the "
    "role `view`, changing needs the role `operate`.",
    "Second tier": "Replay from the backfill tier, and translate offsets between the tiers.",
}
_HEADERS: Json = {
    "X-Request-Id": {
        "description": "The request's id: the client's, or a generated one.",
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "Seconds to wait before the next attempt.",
        "schema": {"type": "integer", "minimum": 0},
    },
}
_SECURITY: Json = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of this gateway. With `auth.mode = none` no token is needed.",
    },
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "For clients that only support basic authentication: any user name, with "
        "the token as the password.",
    },
}


def operations(http: HttpSettings) -> Sequence[Operation]:
    """Every operation of both ports. HEAD goes with each GET and is not listed."""
    events = events_operation(http.batch_max_events, http.body_max_bytes)
    return (
        events,
        COMMIT_BURST,
        *COMPATIBLE,
        *PAGES,
        *MANAGEMENT,
        *AUDITS,
        *INSTALLATION,
        *SECOND_TIER,
    )


BOTH = frozenset({"data", "management", "both"})
DATA = frozenset({"data", "both"})
MANAGEMENT_PORT = frozenset({"management", "both"})


@lru_cache(maxsize=2)
def document(http: HttpSettings) -> bytes:
    """The document of both ports as JSON."""
    return orjson.dumps(_page(http, BOTH))


@lru_cache(maxsize=2)
def document_of(http: HttpSettings, ports: frozenset[str]) -> bytes:
    """The same of what one port serves: there each path is where the document came from."""
    if http.management_port == http.port:
        return document(http)
    page = _page(http, ports)
    for methods in page["paths"].values():
        for operation in methods.values():
            operation.pop("servers", None)
    used = {
        tag for methods in page["paths"].values() for one in methods.values() for tag in one["tags"]
    }
    shown = [tag for tag in page["tags"] if tag["name"] in used]
    page["tags"] = sorted(shown, key=lambda tag: tag["name"] == _PAGES)  # those come last
    page["components"]["schemas"] = _needed(page["paths"], page["components"]["schemas"])
    return orjson.dumps(page)


def _page(http: HttpSettings, ports: frozenset[str]) -> Json:
    paths: dict[str, Json] = {}
    for operation in operations(http):
        if operation.port in ports:
            paths.setdefault(operation.path, {})[operation.method.lower()] = _shown(operation, http)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headgate",
            "version": __version__,
            "summary": "An HTTP gateway in front of Apache Kafka",
            "description": "Services post events. Operators inspect producers and topics, and "
            "start replays. Errors are problem documents (RFC 9457); programs can rely on their "
            "`reason`.",
            "contact": {"name": "Gateway operators"},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The port that served this document."}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": {
                **SCHEMAS,
                **COMPATIBLE_SCHEMAS,
                **AUDIT_SCHEMAS,
                **INSTALLATION_SCHEMAS,
                **REPLAY_SCHEMAS,
            },
            "headers": _HEADERS,
            "securitySchemes": _SECURITY,
        },
    }


def _needed(paths: Json, schemas: dict[str, Json]) -> dict[str, Json]:
    """The schemas that the paths refer to, and those that these refer to."""
    needed: set[str] = set()
    todo = _named(paths)
    while todo:
        needed |= todo
        todo = {other for name in todo for other in _named(schemas[name])} - needed
    return {name: schema for name, schema in schemas.items() if name in needed}


def _named(part: Json) -> set[str]:
    return set(re.findall(r'"#/components/schemas/(\w+)"', orjson.dumps(part).decode()))


def _shown(one: Operation, http: HttpSettings) -> Json:
    shown: Json = {
        "tags": [one.tag],
        "summary": one.summary,
        "description": one.description or f"{one.summary}.",
        "operationId": _name(one),
        "responses": dict(sorted(one.answers.items())),
        "security": [{}] if one.is_open else [{}, {"token": []}, {"basic": []}],
        "x-headgate-port": one.port,
    }
    if one.parameters:
        shown["parameters"] = list(one.parameters)
    if one.body is not None:
        shown["requestBody"] = one.body
    if one.port == "management" and http.management_port != http.port:
        shown["servers"] = [_management(http.management_port)]
    return shown


def _management(port: int) -> Json:
    return {
        "url": "http://{host}:" + str(port),
        "description": "The management port.",
        "variables": {"host": {"default": "127.0.0.1"}},
    }


def _name(one: Operation) -> str:
    """An id for generated clients: method and path in one word."""
    words = one.path.replace("{", "").replace("}", "").replace(".", "_").strip("/").split("/")
    return "_".join([one.method.lower(), *words])
