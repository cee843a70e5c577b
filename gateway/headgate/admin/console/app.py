"""The console's application: pages, forms, form tokens, errors as pages, and live streams."""

import asyncio
import base64
import hashlib
import hmac
import os
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

from headgate.admin.console.audits import AuditPages
from headgate.admin.console.figures import Plots, Recorded
from headgate.admin.console.groups import GroupPages
from headgate.admin.console.overview import InstallationConsole, OverviewPage
from headgate.admin.console.page import Act, Build, Commands, Done, Page
from headgate.admin.console.producers import ProducerPages
from headgate.admin.console.replays import ReplayConsole, Wizard
from headgate.admin.console.topics import TopicPages
from headgate.admin.control_plane import Admin
from headgate.admin.requests import EventStreams
from headgate.http.auth import Identity
from headgate.metrics.build import VERSION
from headgate.model.outcome import TRAITS, Failure, Reason, Refused
from headgate.replays.registry import Control

if TYPE_CHECKING:
    from headgate.admin.console.rendering import Rendering


HOME = "/console"
LIVE_S = 3.0  # interval of a live page's updates
MAX_STREAMS = 50
_SILENT = 5  # updates without a change until a sign of life for proxies and the page
_STILL = b"event: still\ndata: there\n\n"
_REALM = 'Basic realm="Headgate: any user name, and your token as password", charset="UTF-8"'
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATIC_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

Answer = Callable[[web.Request], Any]


class Console:
    """The console.

    Args:
        admin: Pages of the control plane.
        plots: Source of figures over time; None: the history of this process.
    """

    def __init__(self, admin: Admin, plots: Plots | None = None) -> None:
        self._admin = admin
        self._plots = plots or Recorded(admin.instance.history)
        self._secret = os.urandom(32)
        detail = f"{MAX_STREAMS} live pages are open already"
        self._streams = EventStreams(
            MAX_STREAMS, Failure(Reason.OVERLOADED, detail, retry_after_s=30)
        )

    def routes(self) -> list[tuple[str, str, Answer]]:
        """Return methods, paths and handlers."""
        admin, plots = self._admin, self._plots
        producers = ProducerPages(admin, plots)
        monitor = admin.monitor
        topics, groups = TopicPages(admin, plots, monitor), GroupPages(admin, monitor)
        replays, wizard = ReplayConsole(admin), Wizard(admin, plots)
        audits, installation = AuditPages(admin), InstallationConsole(admin.installation)
        pages: dict[str, Build] = {
            "": OverviewPage(admin, plots).build,
            "/producers": producers.list,
            "/producers/{name}": producers.show,
            "/topics": topics.list,
            "/topics/{topic}": topics.show,
            "/topics/{topic}/partitions/{partition}": topics.partition,
            "/groups": groups.list,
            "/groups/{group}": groups.show,
            "/replays": replays.list,
            "/replays/new": wizard.show,
            "/replays/{id}": replays.show,
            "/audits": audits.list,
            "/audits/{topic}": audits.show,
            "/audits/{topic}/compare": audits.compare,
            "/configuration": installation.configuration,
            "/log": installation.log,
        }
        actions: dict[str, Act] = {
            "/topics/{topic}/forget": topics.forget,
            "/groups/{group}/pause": groups.pause,
            "/groups/{group}/resume": groups.resume,
            "/replays/new": wizard.send,
            "/replays/{id}/pause": replays.change(Control.PAUSE),
            "/replays/{id}/resume": replays.change(Control.RUN),
            "/replays/{id}/cancel": replays.change(Control.CANCEL),
        }
        return [
            ("GET", "/", self._home),
            ("GET", HOME + "/", self._home),
            ("GET", HOME + "/static/{name}", self._file),
            *(("GET", HOME + path, partial(self._answer, build)) for path, build in pages.items()),
            *(("POST", HOME + path, partial(self._act, act)) for path, act in actions.items()),
        ]

    async def _home(self, _request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": HOME, **_HEADERS})

    async def _file(self, request: web.Request) -> web.Response:
        """Respond with a script or style, to all callers: these files are public."""
        static_file = self._files.get(request.match_info["name"])
        if static_file is None:
            raise web.HTTPNotFound
        content_type, body = static_file
        headers = {**_HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return web.Response(body=body, content_type=content_type, charset="utf-8", headers=headers)

    async def _answer(self, build: Build, request: web.Request) -> web.StreamResponse:
        try:
            caller = self._admin.access.identify(request, "view")
            page = await build(request, caller)
            if page.is_live and "live" in request.query:
                report = partial(self._report, build=build, request=request)
                return await self._streams.respond(request, _HEADERS, report)
        except Refused as refused:
            return self._refused(request, refused.failure)
        return self._html(request, caller, page)

    async def _act(self, act: Act, request: web.Request) -> web.Response:
        """Handle a form. The action itself checks the roles beyond access to the console."""
        try:
            caller = self._admin.access.identify(request, "view", "operate")
            form = await self._admin.access.form(request)
            self._check_token(caller, form.get("csrf", ""))
            page = await act(request, form)
        except Refused as refused:
            return self._refused(request, refused.failure)
        if isinstance(page, Done):  # a reload of the page must not send the form again
            return web.Response(status=303, headers={"Location": page.shown_at, **_HEADERS})
        return self._html(request, caller, page)

    async def _report(self, answer: web.StreamResponse, build: Build, request: web.Request) -> None:
        """Write the live part of a page as server-sent events, after each change."""
        sent, silent = b"", 0
        while True:
            try:
                caller = self._admin.access.identify(request, "view")
            except Refused as refused:  # more attempts would count as wrong credentials
                await answer.write(_event("refused", refused.failure.detail))
                return
            event = await self._look(build, request, caller)
            if event != sent or silent >= _SILENT:
                await answer.write(_STILL if event == sent else event)
                sent, silent = event, 0
            await asyncio.sleep(LIVE_S)
            silent += 1

    async def _look(self, build: Build, request: web.Request, caller: Identity) -> bytes:
        """Return a server-sent event: the live part, or the failure."""
        try:
            page = await build(request, caller)
        except Refused as refused:  # the page's subject may be gone, and may come back
            return _event("refused", refused.failure.detail)
        return _event("live", self._rendering.live(page, self._shell(request, caller)))

    # ---- HTML

    def _html(self, request: web.Request, caller: Identity | None, page: Page) -> web.Response:
        text = self._rendering.page(page, self._shell(request, caller, is_live=page.is_live))
        return web.Response(
            text=text, status=page.status, content_type="text/html", headers=_HEADERS
        )

    def _refused(self, request: web.Request, failure: Failure) -> web.Response:
        traits = TRAITS[failure.reason]
        values = {"failure": failure, "traits": traits}
        page = Page("refused.html", traits.title, values, traits.status)
        answer = self._html(request, None, page)
        if failure.reason is Reason.UNAUTHENTICATED:
            answer.headers["WWW-Authenticate"] = _REALM
        if failure.retry_after_s:
            answer.headers["Retry-After"] = str(failure.retry_after_s)
        return answer

    def _shell(
        self, request: web.Request, caller: Identity | None, *, is_live: bool = False
    ) -> dict[str, Any]:
        query = [(name, value) for name, value in request.query.items() if name != "live"]
        live = request.rel_url.with_query([*query, ("live", "1")]) if is_live else None
        return {
            "caller": caller,
            "csrf": self._token(caller) if caller else "",
            "may_operate": caller is not None and "operate" in caller.roles,
            "path": request.path,
            "live_url": None if live is None else str(live),
            "commands": Commands.from_request(request),
            "version": VERSION,
        }

    # The check of browsers' headers (`auth.Origins`) already refuses forms of other pages. The
    # tokens still work if a proxy drops those headers. A token belongs to the caller and to this
    # process: after a restart, the page must be loaded again.

    def _token(self, caller: Identity) -> str:
        """Return the token for the caller's forms."""
        identity = "\0".join((caller.name, *sorted(caller.roles)))
        digest = hmac.digest(self._secret, identity.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def _check_token(self, caller: Identity, given: str) -> None:
        """Refuse a form without the caller's token."""
        if not hmac.compare_digest(given.encode(), self._token(caller).encode()):
            detail = "this form is not of a page that was made for you: load the page again"
            raise Refused(Failure(Reason.FORBIDDEN, detail))

    @cached_property
    def _rendering(self) -> "Rendering":
        """Return the renderer: it takes 4 MiB, and most parents never need it."""
        from headgate.admin.console.rendering import Rendering

        return Rendering()

    @cached_property
    def _files(self) -> dict[str, tuple[str, bytes]]:
        """Return the type and the content of each static file, by name."""
        from headgate.admin.console.rendering import address, static_files

        return {
            address(path).rpartition("/")[2]: (_STATIC_TYPES[path.suffix], path.read_bytes())
            for path in static_files()
        }


def _event(name: str, text: str) -> bytes:
    """Format a server-sent event."""
    lines = text.replace("\r", "").replace("\n", "\ndata: ")
    return f"event: {name}\ndata: {lines}\n\n".encode()
