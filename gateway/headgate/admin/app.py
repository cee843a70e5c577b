"""The management port's application: its routes."""

from aiohttp import web

from headgate.admin.console.app import Console
from headgate.admin.console.figures import Plots
from headgate.admin.control_plane import Admin
from headgate.config.settings import HttpSettings
from headgate.http.answer import docs_file, docs_page, index_page, problem_page
from headgate.http.pages import Handler, problems
from headgate.http.request_log import RequestLog
from headgate.model.outcome import Failure, Reason, Refused, brief
from headgate.replays.registry import Control


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
    app = web.Application(
        middlewares=[problems(request_log, lambda: admin.instance.settings.http.port)]
    )

    async def close(_app: web.Application) -> None:
        request_log.close()

    app.on_cleanup.append(close)
    app.cleanup_ctx.append(admin.status.watch)
    documents = DocumentPages(admin.instance.settings.http)
    viewed: dict[str, Handler] = {
        "/v1/status": admin.status.respond,
        "/v1/producers": admin.producers,
        "/v1/producers/{name}": admin.producer,
        "/v1/topics": admin.topics,
        "/v1/topics/{topic}": admin.topic,
        "/v1/spool": admin.spool,
        "/v1/pauses/{group}": admin.pauses.show,
        "/v1/groups": admin.groups,
        "/v1/groups/{group}": admin.groups,
        "/v1/changes": admin.changes,
        "/v1/log": admin.installation.entries,
        "/v1/config": admin.installation.options,
        "/v1/config/findings": admin.installation.findings,
        "/v1/audits": admin.audits.list,
        "/v1/audits/comparison": admin.audits.comparison,
        "/v1/audits/latest": admin.audits.latest,
        "/v1/replays": admin.replays.list,
        "/v1/replays/{id}": admin.replays.show,
        "/v1/replays/{id}/events": admin.replays.events,
        "/v1/coverage/{topic}": admin.offsets.coverage,
        "/v1/snapshots": admin.offsets.snapshots,
    }
    routes: list[tuple[str, str, Handler]] = [
        ("GET", "/live", admin.live),
        ("GET", "/ready", admin.ready),
        ("GET", "/metrics", admin.metrics),
        ("GET", "/problems", documents.problems),
        ("GET", "/problems/{reason}", documents.problem),
        ("GET", "/openapi.json", documents.openapi),
        ("GET", "/docs", documents.docs),
        ("GET", "/docs/{file}", documents.docs_part),
        *(("GET", path, admin.access.for_viewers(page)) for path, page in viewed.items()),
        ("POST", "/v1/offsets/translate", admin.access.for_viewers(admin.offsets.translate)),
        # these check the role themselves
        ("DELETE", "/v1/suppression/{topic}", admin.forget),
        ("PUT", "/v1/pauses/{group}", admin.pauses.pause),
        ("DELETE", "/v1/pauses/{group}", admin.pauses.resume),
        ("POST", "/v1/replays", admin.replays.create),
        ("DELETE", "/v1/replays/{id}", admin.replays.changer(Control.CANCEL)),
        ("POST", "/v1/replays/{id}/pause", admin.replays.changer(Control.PAUSE)),
        ("POST", "/v1/replays/{id}/resume", admin.replays.changer(Control.RUN)),
        ("POST", "/v1/snapshots", admin.offsets.take_snapshot),
        *Console(admin, plots).routes(),
    ]
    for method, path, page in routes:
        app.router.add_route(method, path, page, expect_handler=_nothing_yet)
        if method == "GET":
            app.router.add_route("HEAD", path, page)
    return app


async def _nothing_yet(_request: web.Request) -> None:
    """Leave `100 Continue` to the reader of the body (`http.body`)."""


class DocumentPages:
    """Pages about the API: its OpenAPI document, its interactive reference, and its problems.

    The module of the OpenAPI document is loaded at the first request: it takes a MiB.
    """

    def __init__(self, http: HttpSettings) -> None:
        self._http = http

    async def openapi(self, _request: web.Request) -> web.Response:
        """Respond with the OpenAPI document of both ports."""
        from headgate.http.openapi.document import document

        return web.Response(body=document(self._http), content_type="application/json")

    async def docs(self, _request: web.Request) -> web.StreamResponse:
        """Respond with the interactive reference of this port."""
        return docs_page()

    async def docs_part(self, request: web.Request) -> web.StreamResponse:
        """Respond with a file of the interactive reference."""
        return docs_file(request.match_info["file"], self._own_document)

    def _own_document(self) -> bytes:
        from headgate.http.openapi.document import MANAGEMENT_PORT, document_of

        return document_of(self._http, MANAGEMENT_PORT)

    async def problems(self, _request: web.Request) -> web.Response:
        """Respond with the page of all reasons."""
        return index_page()

    async def problem(self, request: web.Request) -> web.Response:
        """Respond with the page of one reason."""
        name = request.match_info["reason"]
        if name not in frozenset(Reason):
            raise Refused(Failure(Reason.NOT_FOUND, f"no reason is called {brief(name)}"))
        return problem_page(Reason(name))
