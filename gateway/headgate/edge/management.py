"""The management port's routes, and its one place where errors become problem documents."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from headgate.core.event import Refused
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import RefusalError
from headgate.edge.admin import Admin, request_id_of
from headgate.edge.json_page import is_pretty
from headgate.edge.problems import index_page, problem_page, problem_response
from headgate.edge.refused import RefusedError

log = logging.getLogger(__name__)

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


def management_app(admin: Admin) -> web.Application:
    """The management port's application."""
    app = web.Application(middlewares=[problems])
    routes: list[tuple[str, str, Page]] = [
        ("GET", "/live", admin.live),
        ("GET", "/ready", admin.ready),
        ("GET", "/metrics", admin.metrics),
        ("GET", "/v1/producers", admin.producers),
        ("GET", "/v1/producers/{name}", admin.producer),
        ("GET", "/v1/topics", admin.topics),
        ("GET", "/v1/topics/{topic}", admin.topic),
        ("DELETE", "/v1/suppression/{topic}", admin.forget),
        ("GET", "/v1/pauses/{group}", admin.paused),
        ("PUT", "/v1/pauses/{group}", admin.pause),
        ("DELETE", "/v1/pauses/{group}", admin.resume),
        ("GET", "/v1/groups", admin.groups),
        ("GET", "/v1/groups/{group}", admin.groups),
        ("GET", "/v1/changes", admin.changes),
        ("GET", "/v1/audits/latest", admin.audits),
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
        ("GET", "/openapi.json", admin.openapi),
        ("GET", "/docs", admin.docs),
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
        raise RefusedError(Reason.NOT_FOUND, f"no reason is called {name!r}")
    return problem_page(Reason(name))


@web.middleware
async def problems(request: web.Request, handler: Page) -> web.StreamResponse:
    """The one place that turns errors of these pages into problem documents."""
    request_id = request_id_of(request)
    try:
        is_pretty(request)  # what is asked wrongly must not change anything first
        return await handler(request)
    except (Refused, RefusedError, RefusalError) as refused:
        return problem_response(refused.failure, request_id)
    except web.HTTPMethodNotAllowed as refused:
        allowed = ", ".join(sorted(refused.allowed_methods))
        detail = f"{request.method} is not for this path; use {allowed}"
        answer = problem_response(Failure(Reason.METHOD_NOT_ALLOWED, detail), request_id)
        answer.headers["Allow"] = allowed
        return answer
    except web.HTTPException as refused:
        if refused.status != 404:
            raise
        failure = Failure(Reason.NOT_FOUND, f"no page at {request.path}")
        return problem_response(failure, request_id)
    except Exception:
        log.exception("a management page failed", extra={"path": request.path})
        return problem_response(Failure(Reason.INTERNAL, "an internal error"), request_id)
