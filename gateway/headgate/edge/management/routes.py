"""The management port's routes, and its one place where errors become problem documents."""

import logging
import os
import time
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

from headgate.core.http.path_hints import of_management_port, of_one_port
from headgate.core.ids import RequestIds
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import SHOWN, Refused, brief
from headgate.edge.console.pages import console
from headgate.edge.console.plots import Plots
from headgate.edge.management.control_plane import Admin
from headgate.edge.management.json_page import is_pretty
from headgate.edge.problems import index_page, problem_page, problem_response
from headgate.edge.request_log import REPORTED, RequestLog, received_bytes

log = logging.getLogger("headgate.edge.management")

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


def management_app(
    admin: Admin, logs_every_request: bool = False, plots: Plots | None = None
) -> web.Application:
    """The management port's application.

    logs_every_request: or only of those that failed.  plots: see `console`.
    """
    request_log = RequestLog(logs_every_request=logs_every_request)
    app = web.Application(middlewares=[problems(request_log)])

    async def close(_app: web.Application) -> None:
        request_log.close()

    app.on_cleanup.append(close)
    routes: list[tuple[str, str, Page]] = [
        ("GET", "/live", admin.live),
        ("GET", "/ready", admin.ready),
        ("GET", "/metrics", admin.metrics),
        ("GET", "/v1/producers", admin.producers),
        ("GET", "/v1/producers/{name}", admin.producer),
        ("GET", "/v1/topics", admin.topics),
        ("GET", "/v1/topics/{topic}", admin.topic),
        ("GET", "/v1/spool", admin.spool),
        ("DELETE", "/v1/suppression/{topic}", admin.forget),
        ("GET", "/v1/pauses/{group}", admin.paused),
        ("PUT", "/v1/pauses/{group}", admin.pause),
        ("DELETE", "/v1/pauses/{group}", admin.resume),
        ("GET", "/v1/groups", admin.groups),
        ("GET", "/v1/groups/{group}", admin.groups),
        ("GET", "/v1/changes", admin.changes),
        ("GET", "/v1/log", admin.installation.entries),
        ("GET", "/v1/config", admin.installation.options),
        ("GET", "/v1/config/findings", admin.installation.findings),
        ("GET", "/v1/audits", admin.audits.list),
        ("GET", "/v1/audits/comparison", admin.audits.comparison),
        ("GET", "/v1/audits/latest", admin.audits.latest),
        ("POST", "/v1/replays", admin.replays.create),
        ("GET", "/v1/replays", admin.replays.list),
        ("GET", "/v1/replays/{id}", admin.replays.show),
        ("DELETE", "/v1/replays/{id}", admin.replays.cancel),
        ("POST", "/v1/replays/{id}/pause", admin.replays.pause),
        ("POST", "/v1/replays/{id}/resume", admin.replays.resume),
        ("GET", "/v1/replays/{id}/events", admin.replays.events),
        ("POST", "/v1/offsets/translate", admin.offsets.translate),
        ("GET", "/v1/coverage/{topic}", admin.offsets.coverage),
        ("GET", "/v1/snapshots", admin.offsets.snapshots),
        ("POST", "/v1/snapshots", admin.offsets.take_snapshot),
        ("GET", "/problems", _problem_index),
        ("GET", "/problems/{reason}", _problem),
        ("GET", "/openapi.json", admin.documents.openapi),
        ("GET", "/docs", admin.documents.page),
        ("GET", "/docs/{file}", admin.documents.file),
        *console(admin, plots).routes(),
    ]
    for method, path, page in routes:
        app.router.add_route(method, path, page, expect_handler=_nothing_yet)
        if method == "GET":
            app.router.add_route("HEAD", path, page)
    return app


async def _nothing_yet(_request: web.Request) -> None:
    """Who expects to be asked for the body is asked by what reads it (`edge.body`)."""


async def _problem_index(_request: web.Request) -> web.Response:
    return index_page()


async def _problem(request: web.Request) -> web.Response:
    name = request.match_info["reason"]
    if name not in frozenset(Reason):
        raise Refused(Failure(Reason.NOT_FOUND, f"no reason is called {brief(name)}"))
    return problem_page(Reason(name))


def problems(request_log: RequestLog) -> Middleware:
    """The one place that turns errors of these pages into problem documents, and tells the log.

    In one-port mode a worker has a line of every request, and this process only of those that
    failed: here it is known why.
    """
    request_ids = RequestIds(os.urandom(6))

    @web.middleware
    async def answered(request: web.Request, handler: Page) -> web.StreamResponse:
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
