"""Pages of any management port: JSON, lists page by page, metrics, and problem documents.

The gateway, the monitor and the coalescer have such a port each.
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

from headgate.core.ids import RequestIds
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import SHOWN, Refused, malformed
from headgate.core.request import of_management_port, of_one_port, read_flag
from headgate.core.terminal import escaped
from headgate.edge.problems import problem_response
from headgate.edge.request_log import REPORTED, RequestLog, received_bytes
from headgate.metrics.exposition import (
    CONTENT_TYPE,
    OPENMETRICS_CONTENT_TYPE,
    render,
    render_openmetrics,
)
from headgate.metrics.snapshot import Snapshot

log = logging.getLogger("headgate.edge.pages")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def json_page(request: web.Request, page: object, status: int = 200) -> web.Response:
    """An answer."""
    pretty = orjson.OPT_INDENT_2 if is_pretty(request) else 0
    body = escaped(orjson.dumps(page, option=pretty).decode()).encode() + b"\n"
    return web.Response(body=body, status=status, content_type="application/json")


def is_pretty(request: web.Request) -> bool:
    """Return True if the request wants an indented page. Raises Refused (malformed)."""
    return is_set(request, "pretty")


def is_set(request: web.Request, name: str) -> bool:
    """A flag of the query; `?NAME` alone says yes. Raises Refused (malformed)."""
    given = request.query.get(name)
    if not given:
        return given is not None
    return read_flag(name, given.encode("utf-8", "replace"))


# ---- lists: pages of `limit` rows, which begin after the row that `after` names

LIMIT = 100  # where the request asks for none
MAX_LIMIT = 1000

Row = TypeVar("Row")


class Paging(NamedTuple):
    """The requested page. after: `next` of the page before; None = the first page."""

    limit: int
    after: str | None


def paging(request: web.Request) -> Paging:
    """Raises Refused (malformed)."""
    given = request.query.get("limit", str(LIMIT))
    is_number = given.isascii() and given.isdecimal() and len(given) <= len(str(MAX_LIMIT))
    if not is_number or not 1 <= int(given) <= MAX_LIMIT:
        raise Refused(malformed(f"limit is a number from 1 to {MAX_LIMIT}"))
    return Paging(int(given), request.query.get("after"))


def page_of(
    rows: Sequence[Row],
    wanted: Paging,
    place: Callable[[Row], Any],
    read: Callable[[str], Any],
    text: Callable[[Any], str],
) -> tuple[list[Row], str | None]:
    """The rows of the page, and `next`, which is None on the last one. Raises Refused.

    rows: all, by place.  place: a row's; `text` and `read` make it into `next` and back (None =
    not one of ours). It is no count, so rows that come and go shift no others to another page.
    """
    left = rows
    if wanted.after is not None:
        after = read(wanted.after)
        if after is None:
            raise Refused(malformed("after is `next` of the page before"))
        left = rows[bisect_right(rows, after, key=place) :]
    page = list(left[: wanted.limit])
    return page, text(place(page[-1])) if len(left) > len(page) else None


def names_of(names: Sequence[str], wanted: Paging) -> tuple[list[str], str | None]:
    """The same of a list by name, where `next` is the last name of the page."""
    return page_of(names, wanted, str, str, str)


def listed(section: str, rows: Sequence[Any], following: str | None) -> dict[str, Any]:
    """The answer."""
    return {section: rows, "next": following}


# ---- /metrics: Prometheus' plain text, or OpenMetrics if the client prefers it


_OPENMETRICS, _PLAIN = "application/openmetrics-text", "text/plain"


def metrics_page(request: web.Request, snapshot: Snapshot) -> web.Response:
    """The figures, in the format that the request's Accept header asks for."""
    accept = ",".join(request.headers.getall("Accept", ()))
    now = time.time()
    if prefers_openmetrics(accept):
        body, content_type = render_openmetrics(snapshot, now), OPENMETRICS_CONTENT_TYPE
    else:
        body, content_type = render(snapshot, now), CONTENT_TYPE
    return web.Response(body=body, headers={"Content-Type": content_type, "Vary": "Accept"})


def prefers_openmetrics(accept: str) -> bool:
    """Whether it is named, and plain text is not preferred."""
    qualities = {_OPENMETRICS: 0.0, _PLAIN: 0.0}
    for one in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in one.split(";"))
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


def problems(request_log: RequestLog) -> Middleware:
    """The one place that turns errors of these pages into problem documents, and tells the log.

    In one-port mode a worker has a line of every request, and this process only of those that
    failed: here it is known why.
    """
    request_ids = RequestIds(os.urandom(6))

    @web.middleware
    async def answered(request: web.Request, handler: Handler) -> web.StreamResponse:
        began = time.monotonic()
        request_id = _given_id(request) or request_ids()
        known = request[REPORTED] = {"request_id": request_id}
        try:
            is_pretty(request)  # what is asked wrongly must not change anything first
            answer = await handler(request)
            if not answer.prepared:
                answer.headers["X-Request-Id"] = request_id
        except Exception as error:
            failure, headers = _failure(request, error)
            if failure is None:
                raise
            request_log.refused(failure, path=request.path, **known)
            answer = problem_response(failure, request_id)
            answer.headers.update(headers)
        if request_log.logs_every_request and request.remote:
            seconds, size = time.monotonic() - began, received_bytes(request)
            request_log.served(request.method, request.path, answer.status, size, seconds, **known)
        return answer

    return answered


def _failure(request: web.Request, error: Exception) -> tuple[Failure | None, dict[str, str]]:
    """What an error tells the client, and headers for it; None: it is an answer by itself."""
    if isinstance(error, Refused):
        return error.failure, {}
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        detail = f"{request.method[:SHOWN]} is not for this path; use {allowed}{_hint(request)}"
        return Failure(Reason.METHOD_NOT_ALLOWED, detail), {"Allow": allowed}
    if isinstance(error, web.HTTPException):
        if error.status != 404:
            return None, {}
        return Failure(Reason.NOT_FOUND, f"no page at {request.path[:SHOWN]}{_hint(request)}"), {}
    log.error("management page failed", exc_info=error, extra={"path": request.path[:SHOWN]})
    return Failure(Reason.INTERNAL, "an internal error"), {}


def _given_id(request: web.Request) -> str:
    """The client's X-Request-Id where it is fit to be sent back, else nothing."""
    given = request.headers.get("X-Request-Id", "")
    return given if 0 < len(given) <= 128 and given.isascii() and given.isprintable() else ""


def _hint(request: web.Request) -> str:
    """What the client probably meant. What comes from a worker came to the one port for both."""
    of_port = of_management_port if request.remote else of_one_port
    return of_port(request.method, request.path)
