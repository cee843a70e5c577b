"""How an operation is declared, and the parts that many of them share.

Answers are declared by reason, so that statuses and texts are those of `core.outcome.TRAITS`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from headgate.core.outcome import TRAITS, Reason

Json = dict[str, Any]

PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
REQUEST_ID_HEADER = {"$ref": "#/components/headers/X-Request-Id"}
# What any path may answer, before anything looks at the request.
# where a token is asked for
CREDENTIALS = (
    Reason.UNAUTHENTICATED,
    Reason.TOO_MANY_ATTEMPTS,
    Reason.ISSUER_UNAVAILABLE,
)
ALWAYS = (Reason.MALFORMED, Reason.HEADERS_TOO_LARGE, Reason.INTERNAL)
BODY = (Reason.REQUEST_TIMEOUT, Reason.TOO_LARGE, Reason.OVERLOADED)  # where one is read
BASE64: Json = {
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    "examples": ["aGVhZGdhdGU="],
}
_WAITS = ("429", "503", "504")


class Operation(NamedTuple):
    """One method of one path.

    port: `data`, `management` or `both`.  body: an OpenAPI request body.  answers: by status.
    is_open: nobody is asked who they are.
    """

    method: str
    path: str
    port: str
    tag: str
    summary: str
    answers: Mapping[str, Json]
    description: str = ""
    parameters: tuple[Json, ...] = ()
    body: Json | None = None
    is_open: bool = False


def problems(*reasons: Reason) -> dict[str, Json]:
    """The answers for these reasons, by status, as problem documents."""
    return _by_status(reasons, PROBLEM)


def by_status(reasons: Iterable[Reason], statuses: Mapping[Reason, int]) -> dict[str, list[Reason]]:
    """The reasons of each status, which is that of TRAITS unless said otherwise."""
    found: dict[str, list[Reason]] = {}
    for reason in sorted(set(reasons), key=lambda one: (TRAITS[one].status, one)):
        found.setdefault(str(statuses.get(reason, TRAITS[reason].status)), []).append(reason)
    return found


def _by_status(reasons: Iterable[Reason], content: Json) -> dict[str, Json]:
    return {
        status: failed_answer(status, some, content)
        for status, some in by_status(reasons, {}).items()
    }


def failed_answer(status: str, reasons: Iterable[Reason], content: Json) -> Json:
    """One answer's declaration."""
    shown = " ".join(f"`{reason}`: {TRAITS[reason].title}." for reason in reasons)
    headers: Json = {"X-Request-Id": REQUEST_ID_HEADER}
    if status in _WAITS:
        headers["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    return {"description": shown, "headers": headers, "content": content}


def answer(description: str, content_type: str, schema: Json, example: Any = None) -> Json:
    """An answer that is not a failure."""
    media: Json = {"schema": schema}
    if example is not None:
        media["example"] = example
    return {"description": description, "content": {content_type: media}}


def ref(name: str) -> Json:
    """A schema of the components."""
    return {"$ref": f"#/components/schemas/{name}"}


def header(name: str, description: str, schema: Json) -> Json:
    """A request header."""
    return {"name": name, "in": "header", "description": description, "schema": schema}


def query(name: str, description: str, schema: Json) -> Json:
    """A parameter behind the question mark."""
    return {"name": name, "in": "query", "description": description, "schema": schema}


def path(
    name: str, description: str, schema: Json | None = None, example: str | int | None = None
) -> Json:
    """A part of the path."""
    shown: Json = {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema or {"type": "string", "minLength": 1},
    }
    if example is not None:
        shown["example"] = example
    return shown


TOPIC = path("topic", "A topic of the configuration that exists in Kafka.", example="orders")
FLAG: Json = {"type": "string", "enum": ["true", "false", "1", "0"]}
PRETTY = query(
    "pretty",
    "Return indented JSON; `?pretty` alone means `true`.",
    {"type": "string", "enum": ["", *FLAG["enum"]]},
)
