"""The management port's application: its routes."""

from aiohttp import web

from headgate.admin.console.app import console
from headgate.admin.console.figures import Plots
from headgate.admin.control_plane import Admin
from headgate.http.pages import Handler, problems
from headgate.http.problems import index_page, problem_page
from headgate.http.request_log import RequestLog
from headgate.model.outcome import Failure, Reason, Refused, brief


def management_app(
    admin: Admin, logs_every_request: bool = False, plots: Plots | None = None
) -> web.Application:
    """Return the management port's application.

    Args:
        admin: The pages.
        logs_every_request: Whether successful requests are logged too.
        plots: Source of the console's figures over time; None: this process.
    """
    request_log = RequestLog(logs_every_request=logs_every_request)

    def data_port() -> int:
        return admin.instance.settings.http.port

    app = web.Application(middlewares=[problems(request_log, data_port)])

    async def close(_app: web.Application) -> None:
        request_log.close()

    app.on_cleanup.append(close)
    routes: list[tuple[str, str, Handler]] = [
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
    """Leave `100 Continue` to the reader of the body (`http.body`)."""


async def _problem_index(_request: web.Request) -> web.Response:
    return index_page()


async def _problem(request: web.Request) -> web.Response:
    name = request.match_info["reason"]
    if name not in frozenset(Reason):
        raise Refused(Failure(Reason.NOT_FOUND, f"no reason is called {brief(name)}"))
    return problem_page(Reason(name))
