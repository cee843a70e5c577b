"""The data plane's table of contents: method and path to who answers."""

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import unquote

from aiohttp import web

from headgate.core.outcome import Failure, Reason
from headgate.core.reply import JSON, Reply
from headgate.edge.problems import index_page, problem_page, problem_response, response
from headgate.health import Readiness

_EVENTS = re.compile(r"/v1/topics/([^/]+)/events")
_PROBLEM = re.compile(r"/problems/([a-z_]+)")

Page = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
PostEvents = Callable[[web.BaseRequest, str], Awaitable[web.StreamResponse]]


class DataPlane(NamedTuple):
    """What the data plane needs.

    others: what is asked for every path not known here (the management pages when both ports are
    one), or None.
    """

    post_events: PostEvents
    readiness: Callable[[], Readiness]
    request_ids: Callable[[], str]
    others: Page | None = None

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        found = _EVENTS.fullmatch(path)
        if found is not None:
            if request.method == "POST":
                return await self.post_events(request, unquote(found.group(1)))
            return self._not_allowed(request, "POST")
        page = self._page(path)
        if page is None:
            if self.others is not None:
                return await self.others(request)
            failure = Failure(Reason.NOT_FOUND, f"no page at {path}")
            return problem_response(failure, self.request_ids())
        if request.method not in ("GET", "HEAD"):
            return self._not_allowed(request, "GET, HEAD")
        return page()

    def _page(self, path: str) -> Callable[[], web.Response] | None:
        if path == "/live":
            return lambda: response(Reply(200, JSON, (), b'{"status":"live"}'), "")
        if path == "/ready":
            return lambda: response(self.readiness().reply(), "")
        if path == "/problems":
            return index_page
        problem = _PROBLEM.fullmatch(path)
        if problem is not None and problem.group(1) in frozenset(Reason):
            reason = Reason(problem.group(1))
            return lambda: problem_page(reason)
        return None

    def _not_allowed(self, request: web.BaseRequest, allowed: str) -> web.Response:
        """405 with the methods that the path takes."""
        failure = Failure(
            Reason.METHOD_NOT_ALLOWED, f"{request.method} is not for this path; use {allowed}"
        )
        answer = problem_response(failure, self.request_ids())
        answer.headers["Allow"] = allowed
        return answer
