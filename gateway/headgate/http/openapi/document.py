"""The OpenAPI document: `openapi.json`, filled with the reasons and limits of this gateway.

`${NAME}` in the file stands for a value of the code (see `_values`) or for one of the file's own
`x-parts`. In a list, a part that is a list stands for its items. An operation declares its failures
by reason, in `x-reasons`; their statuses and texts are those of `TRAITS`. With `x-failures-as` they
have the shape and the statuses of Confluent's dialect.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from headgate import __version__
from headgate.audits.results import MAX_EARLIER, MAX_ROWS, TopicChange
from headgate.config.settings import NAMED, SECTIONS, HttpSettings
from headgate.formats.confluent import codes_of
from headgate.http.answer import FILES
from headgate.http.pages import LIMIT, MAX_LIMIT
from headgate.model.installation import MEANINGS, Kind, Level
from headgate.model.outcome import TRAITS, Failure, Reason
from headgate.model.reply import SUCCESS_STATUS
from headgate.model.suppression_states import OFF, STATES
from headgate.replays.registry import Control, ReplayState
from headgate.replays.segments import Result

Json = dict[str, Any]

BOTH = frozenset({"data", "management", "both"})
DATA = frozenset({"data", "both"})
MANAGEMENT_PORT = frozenset({"management", "both"})

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_PROBLEM: Json = {"schema": {"$ref": "#/components/schemas/Problem"}}
_CONFLUENT_ERROR: Json = {"schema": {"$ref": "#/components/schemas/ConfluentError"}}
_BATCH_ANSWER: Json = {"schema": {"$ref": "#/components/schemas/BatchAnswer"}}
_CREDENTIALS: list[Json] = [{}, {"token": []}, {"basic": []}]
_NEVER_OF_EVENTS = frozenset(
    {
        Reason.METHOD_NOT_ALLOWED,
        # of other paths
        Reason.NOT_FOUND,
        Reason.MONITOR_UNAVAILABLE,
        Reason.REPLAY_FINISHED,
        Reason.GROUP_ACTIVE,
        Reason.NOT_COVERED,
        # of Confluent's paths, whose clients choose partitions and need offsets
        Reason.UNKNOWN_PARTITION,
        Reason.NEEDS_NATIVE_API,
    }
)
_WITH_RETRY_AFTER = ("409", "429", "503", "504")
_QUOTA_HEADERS = ("RateLimit", "RateLimit-Policy")


class Operation(NamedTuple):
    """One method of one path.

    Attributes:
        port: `data`, `management` or `both`.
        parameters: As in the document.
    """

    method: str
    path: str
    port: str
    parameters: list[Json]


def operations(http: HttpSettings) -> list[Operation]:
    """List the operations of both ports. HEAD goes with each GET and is not listed."""
    return [
        Operation(
            method.upper(), path, operation["x-headgate-port"], operation.get("parameters", [])
        )
        for path, methods in _document(http, BOTH)["paths"].items()
        for method, operation in methods.items()
    ]


@lru_cache(maxsize=2)
def document(http: HttpSettings) -> bytes:
    """Return the document of both ports as JSON."""
    return orjson.dumps(_document(http, BOTH))


@lru_cache(maxsize=2)
def document_of(http: HttpSettings, ports: frozenset[str]) -> bytes:
    """Return the document of one port; all its paths belong to the server that sends it."""
    if http.management_port == http.port:
        return document(http)
    page = _document(http, ports)
    operations = [operation for methods in page["paths"].values() for operation in methods.values()]
    for operation in operations:
        operation.pop("servers", None)
    used = {tag for operation in operations for tag in operation["tags"]}
    tags = [tag for tag in page["tags"] if tag["name"] in used]
    page["tags"] = sorted(tags, key=lambda tag: tag["name"] == "Pages")  # "Pages" is last
    components = page["components"]
    components["schemas"] = _needed(page["paths"], components["schemas"])
    named = set(
        re.findall(r'"#/components/headers/([\w-]+)"', orjson.dumps(page["paths"]).decode())
    )
    components["headers"] = {n: one for n, one in components["headers"].items() if n in named}
    return orjson.dumps(page)


def _document(http: HttpSettings, ports: frozenset[str]) -> Json:
    source = orjson.loads(Path(__file__).with_name("openapi.json").read_bytes())
    values = _values(http)
    for name, part in source.pop("x-parts").items():
        values[name] = _filled(part, values)
    page: Json = _filled(source, values)
    page["paths"] = {
        path: operations
        for path, methods in page["paths"].items()
        if (
            operations := {
                method: _operation(method, path, raw, http)
                for method, raw in methods.items()
                if raw["x-headgate-port"] in ports
            }
        )
    }
    return page


def _values(http: HttpSettings) -> dict[str, Any]:
    """Return the values of the code, by placeholder."""
    return {
        "version": __version__,
        "batch_max_events": http.batch_max_events,
        "body_max_bytes": http.body_max_bytes,
        "limit_default": LIMIT,
        "max_limit": MAX_LIMIT,
        "max_earlier_audits": MAX_EARLIER,
        "max_audit_rows": MAX_ROWS,
        "docs_files": [*FILES],
        "sections": ", ".join([*SECTIONS, *NAMED]),
        "reasons": [*Reason],
        "outcomes": [*SUCCESS_STATUS],
        "suppression_states": [*STATES, OFF],
        "log_kinds": [*Kind],
        "log_levels": [*Level],
        "log_kinds_in_words": "\n".join(
            f"- `{kind}`: {meaning.about}" for kind, meaning in MEANINGS.items()
        ),
        "replay_states": [*ReplayState],
        "replay_controls": [*Control],
        "offset_results": [*Result],
        "audit_changes": [
            change for change in TopicChange if change not in (TopicChange.NEW, TopicChange.GONE)
        ],
    }


def _filled(part: Any, values: Mapping[str, Any]) -> Any:
    """Return a part of the file with every placeholder replaced."""
    if isinstance(part, dict):
        return {name: _filled(value, values) for name, value in part.items()}
    if isinstance(part, list):
        items: list[Any] = []
        for item in part:
            value = _filled(item, values)
            items += value if isinstance(item, str) and isinstance(value, list) else [value]
        return items
    if not isinstance(part, str):
        return part
    if placeholder := _PLACEHOLDER.fullmatch(part):
        return values[placeholder[1]]
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), part)


def _operation(method: str, path: str, raw: Json, http: HttpSettings) -> Json:
    """Return an operation with the common fields and its failures."""
    words = re.sub("[{}]", "", path).replace(".", "_").strip("/").split("/")
    failures = _failures(raw["x-reasons"], raw.get("x-failures-as"))
    operation: Json = {
        "tags": raw["tags"],
        "summary": raw["summary"],
        "description": raw.get("description", f"{raw['summary']}."),
        "operationId": "_".join([method, *words]),
        "responses": dict(sorted({**failures, **raw["responses"]}.items())),
        "security": raw.get("security", _CREDENTIALS),
    }
    for name in ("x-headgate-port", "parameters", "requestBody"):
        if name in raw:
            operation[name] = raw[name]
    if raw["x-headgate-port"] == "management" and http.management_port != http.port:
        operation["servers"] = [
            {
                "url": "http://{host}:" + str(http.management_port),
                "description": "The management port.",
                "variables": {"host": {"default": "127.0.0.1"}},
            }
        ]
    return operation


def _failures(names: list[str] | str, dialect: str | None) -> dict[str, Json]:
    """Return the responses to failed requests, by status.

    Args:
        names: The reasons; "events" for all reasons of posting events.
        dialect: The content type of Confluent's errors, or None.
    """
    problem = {"application/problem+json": _PROBLEM}
    if names == "events":
        # A batch of which no event succeeded has the status of one of them.
        content = {**problem, "application/json": _BATCH_ANSWER}
        reasons = [reason for reason in TRAITS if reason not in _NEVER_OF_EVENTS]
        return _by_status(reasons, content, _own_status, _QUOTA_HEADERS)
    reasons = sorted(map(Reason, names), key=lambda reason: (TRAITS[reason].status, reason))
    if dialect is None:
        return _by_status(reasons, problem, _own_status)
    # The server responds to these itself, before it knows the path.
    headers = _by_status([Reason.HEADERS_TOO_LARGE], problem, _own_status)
    return headers | _by_status(reasons, {dialect: _CONFLUENT_ERROR}, _confluent_status)


def _own_status(reason: Reason) -> int:
    return TRAITS[reason].status


def _confluent_status(reason: Reason) -> int:
    return codes_of(Failure(reason, ""))[0]


def _by_status(
    reasons: Iterable[Reason],
    content: Json,
    status_of: Callable[[Reason], int],
    more_headers: tuple[str, ...] = (),
) -> dict[str, Json]:
    """Return the responses to failures, by status.

    Args:
        reasons: The reasons.
        content: The bodies, by content type.
        status_of: Returns the status of a reason.
        more_headers: Headers besides those about the request, retries and credentials.
    """
    by_status: dict[str, list[Reason]] = {}
    for reason in reasons:
        by_status.setdefault(str(status_of(reason)), []).append(reason)
    responses: dict[str, Json] = {}
    for status, failures in by_status.items():
        headers = ["X-Request-Id", *more_headers]
        if status in _WITH_RETRY_AFTER and any(TRAITS[each].retryable for each in failures):
            headers.append("Retry-After")
        if status == "401":
            headers.append("WWW-Authenticate")
        responses[status] = {
            "description": " ".join(f"`{each}`: {TRAITS[each].title}." for each in failures),
            "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
            "content": content,
        }
    return responses


def _needed(paths: Json, schemas: dict[str, Json]) -> dict[str, Json]:
    """Return the schemas to which the paths refer, directly or indirectly."""
    needed: set[str] = set()
    added = _named(paths)
    while added:
        needed |= added
        added = {other for name in added for other in _named(schemas[name])} - needed
    return {name: schema for name, schema in schemas.items() if name in needed}


def _named(part: Json) -> set[str]:
    return set(re.findall(r'"#/components/schemas/(\w+)"', orjson.dumps(part).decode()))
