"""Pages of management ports: JSON, paged lists, metrics, and problem documents.

Gateway, monitor and coalescer each have a management port.
"""

import logging
import os
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson
from aiohttp import web
from aiohttp.typedefs import Middleware

from headgate.http.answer import problem_response
from headgate.http.request_log import REPORTED, RequestLog, received_bytes, request_ids
from headgate.metrics.exposition import (
    CONTENT_TYPE,
    OPENMETRICS_CONTENT_TYPE,
    render,
    render_openmetrics,
)
from headgate.metrics.snapshot import Snapshot
from headgate.model.outcome import SHOWN, Failure, Reason, Refused, malformed
from headgate.model.request import check_parameters, of_management_port, of_one_port, read_flag
from headgate.model.text import escaped

log = logging.getLogger("headgate.http")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def json_page(request: web.Request, page: object, status: int = 200) -> web.Response:
    """Return a JSON response."""
    pretty = orjson.OPT_INDENT_2 if is_pretty(request) else 0
    body = escaped(orjson.dumps(page, option=pretty).decode()).encode() + b"\n"
    return web.Response(body=body, status=status, content_type="application/json")


def is_pretty(request: web.Request) -> bool:
    """Return whether the request wants an indented page.

    Raises:
        Refused: The value is no flag (malformed).
    """
    return is_set(request, "pretty")


def is_set(request: web.Request, name: str) -> bool:
    """Return a flag of the query; `?NAME` alone means True.

    Raises:
        Refused: The value is no flag (malformed).
    """
    given = request.query.get(name)
    if not given:
        return given is not None
    return read_flag(name, given.encode("utf-8", "replace"))


# ---- lists: pages of `limit` rows that begin after the row named by `after`

LIMIT = 100  # default of a request's `limit`
MAX_LIMIT = 1000

Row = TypeVar("Row")


class Paging(NamedTuple):
    """The requested page. `after` is the `next` of the previous page; None: the first page."""

    limit: int
    after: str | None


def refuse_unknown(request: web.Request, *known: str) -> None:
    """Raise Refused (malformed) if the query has a parameter other than these and `pretty`."""
    check_parameters(request.query, (*known, "pretty"))


def paging(request: web.Request, *others: str) -> Paging:
    """Return the page that a request asks for.

    Args:
        request: The request.
        others: Parameters that its query may have beside those of every list.

    Raises:
        Refused: The limit is not valid, or a parameter is unknown (malformed).
    """
    refuse_unknown(request, "limit", "after", *others)
    given = request.query.get("limit", str(LIMIT))
    is_number = given.isascii() and given.isdecimal() and len(given) <= len(str(MAX_LIMIT))
    if not is_number or not 1 <= int(given) <= MAX_LIMIT:
        raise Refused(malformed(f"limit is a number from 1 to {MAX_LIMIT}"))
    return Paging(int(given), request.query.get("after"))


def page_of(
    rows: Sequence[Row],
    wanted: Paging,
    position: Callable[[Row], Any],
    read: Callable[[str], Any],
    text: Callable[[Any], str],
) -> tuple[list[Row], str | None]:
    """Return the rows of a page, and its `next`, which is None on the last page.

    Positions are no counts, so added or removed rows do not shift others to another page.

    Args:
        rows: All rows, sorted by position.
        wanted: The requested page.
        position: Returns a row's position.
        read: Turns a `next` into a position; returns None if it is not valid.
        text: Turns a position into a `next`.

    Raises:
        Refused: The request's `after` is not valid.
    """
    remaining = rows
    if wanted.after is not None:
        after = read(wanted.after)
        if after is None:
            raise Refused(malformed("after is `next` of the page before"))
        remaining = rows[bisect_right(rows, after, key=position) :]
    page = list(remaining[: wanted.limit])
    return page, text(position(page[-1])) if len(remaining) > len(page) else None


def names_of(names: Sequence[str], wanted: Paging) -> tuple[list[str], str | None]:
    """Return a page of names, and its `next`: the last name of the page."""
    return page_of(names, wanted, str, str, str)


def listed(section: str, rows: Sequence[Any], following: str | None) -> dict[str, Any]:
    """Return the JSON document of a page of rows."""
    return {section: rows, "next": following}


# ---- /metrics: Prometheus' plain text, or OpenMetrics if the client prefers it


_OPENMETRICS, _PLAIN = "application/openmetrics-text", "text/plain"


def metrics_page(request: web.Request, snapshot: Snapshot) -> web.Response:
    """Return the metrics in the format of the request's Accept header."""
    accept = ",".join(request.headers.getall("Accept", ()))
    now = time.time()
    if prefers_openmetrics(accept):
        body, content_type = render_openmetrics(snapshot, now), OPENMETRICS_CONTENT_TYPE
    else:
        body, content_type = render(snapshot, now), CONTENT_TYPE
    return web.Response(body=body, headers={"Content-Type": content_type, "Vary": "Accept"})


def prefers_openmetrics(accept: str) -> bool:
    """Return whether an Accept header names OpenMetrics and does not prefer plain text."""
    qualities = {_OPENMETRICS: 0.0, _PLAIN: 0.0}
    for media_type in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in media_type.split(";"))
        if kind in qualities:
            qualities[kind] = max(qualities[kind], _quality(parameters))
    return qualities[_OPENMETRICS] > 0 and qualities[_OPENMETRICS] >= qualities[_PLAIN]


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def problems(
    request_log: RequestLog, data_port: Callable[[], int | None] = lambda: None
) -> Middleware:
    """Return middleware that turns errors of pages into problem documents and logs them.

    In one-port mode, a worker logs each request. This process then logs only failed requests,
    with their cause.

    Args:
        request_log: Takes the log lines.
        data_port: Returns the number of the data port for hints; None: they have no number.
    """
    new_id = request_ids(os.urandom(6))

    @web.middleware
    async def answered(request: web.Request, handler: Handler) -> web.StreamResponse:
        began = time.monotonic()
        request_id = _given_id(request) or new_id()
        fields = request[REPORTED] = {"request_id": request_id, "remote": request.remote or ""}
        try:
            is_pretty(request)  # an invalid request must be refused before it changes anything
            answer = await handler(request)
            if not answer.prepared:
                answer.headers["X-Request-Id"] = request_id
        except Exception as error:
            failure, headers = _failure(request, error, data_port())
            if failure is None:
                raise
            request_log.refused(failure, trace=None, path=request.path, **fields)
            answer = problem_response(failure, request_id)
            answer.headers.update(headers)
        if request_log.logs_every_request and request.remote:
            seconds, size = time.monotonic() - began, received_bytes(request)
            request_log.served(
                request.method, request.path, answer.status, size, seconds, trace=None, **fields
            )
        return answer

    return answered


def _failure(
    request: web.Request, error: Exception, data_port: int | None
) -> tuple[Failure | None, dict[str, str]]:
    """Return the failure and headers for an error; None if the error is itself a response."""
    if isinstance(error, Refused):
        return error.failure, {}
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed, hint = ", ".join(sorted(error.allowed_methods)), _hint(request, data_port)
        detail = f"{request.method[:SHOWN]} is not for this path; use {allowed}{hint}"
        return Failure(Reason.METHOD_NOT_ALLOWED, detail), {"Allow": allowed}
    if isinstance(error, web.HTTPException):
        if error.status != 404:
            return None, {}
        detail = f"no page at {request.path[:SHOWN]}{_hint(request, data_port)}"
        return Failure(Reason.NOT_FOUND, detail), {}
    log.error("management page failed", exc_info=error, extra={"path": request.path[:SHOWN]})
    return Failure(Reason.INTERNAL, "an internal error"), {}


def _given_id(request: web.Request) -> str:
    """Return the client's X-Request-Id if it can be sent back, else an empty string."""
    given = request.headers.get("X-Request-Id", "")
    return given if 0 < len(given) <= 128 and given.isascii() and given.isprintable() else ""


def _hint(request: web.Request, data_port: int | None) -> str:
    """Return a hint about the intended page. Requests from a worker came to the single port."""
    if request.remote:
        return of_management_port(request.method, request.path, data_port)
    return of_one_port(request.method, request.path)
