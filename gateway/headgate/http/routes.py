"""Routes of the data plane: handlers by method and path.

The OpenAPI document contains the same routes (`http/openapi`): a test compares the two.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

from aiohttp import web

from headgate.coalescer.bursts import Bursts
from headgate.formats.confluent import V2_TYPE, V3_TYPE
from headgate.http.answer import (
    Documents,
    docs_file,
    docs_page,
    index_page,
    problem_page,
    problem_response,
    response,
    response_to,
)
from headgate.http.auth import CORS_HEADERS, Cors, Identity
from headgate.http.confluent.records import RecordStreams
from headgate.http.events import PATH_SHOWN, Call, EventsFront
from headgate.http.request_log import TRACE
from headgate.ingest.admission import DRAINING
from headgate.metrics.health import Readiness
from headgate.model.outcome import SHOWN, Failure, Reason, Refused
from headgate.model.reply import JSON, Reply, json_text, problem
from headgate.model.request import of_data_port, read_burst, read_query

Page = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
PathPage = Callable[..., Awaitable[web.StreamResponse]]  # the request, and the parts of its path
PathWork = Callable[..., Awaitable[Reply | web.StreamResponse]]  # the parts, and the request

_PART = re.compile(r"\\\{\w+\\\}")


class Path(NamedTuple):
    """One path. `methods` maps methods to handlers; HEAD is handled like GET."""

    template: str
    pattern: re.Pattern[str]
    methods: Mapping[str, PathPage]

    @property
    def allowed(self) -> str:
        """Return the allowed methods, for the Allow header."""
        return ", ".join(
            shown
            for method in self.methods
            for shown in ((method, "HEAD") if method == "GET" else (method,))
        )


def path(template: str, **methods: PathPage) -> Path:
    """Return a path; `{name}` in the template stands for one part, which is decoded."""
    return Path(template, re.compile(_PART.sub("([^/]+)", re.escape(template))), methods)


class DataPlane:
    """Dispatcher of the data plane's requests.

    Args:
        events: Front for posting events.
        bursts: Front for committing bursts.
        confluent: Endpoints of Confluent's REST API.
        readiness: Returns the readiness of the gateway.
        request_ids: Generates request ids.
        documents: OpenAPI documents.
        cors: Cross-origin settings.
        others: Handler for all other paths (the management pages in one-port mode), or None. It
            may raise Refused.
    """

    def __init__(
        self,
        events: EventsFront,
        bursts: "BurstsFront",
        confluent: RecordStreams,
        readiness: Callable[[], Readiness],
        request_ids: Callable[[], str],
        documents: Documents,
        cors: Cors,
        others: Page | None = None,
    ) -> None:
        self._readiness = readiness
        self._request_ids = request_ids
        self._documents = documents
        self._cors = cors
        self._others = others
        self._confluent = confluent
        self._request_log = events.request_log
        self._traces = events.traces
        service = confluent.service
        self.paths: Sequence[Path] = (
            path("/v1/topics/{topic}/events", POST=events.post),
            path("/v1/bursts/{id}/commit", POST=bursts.commit),
            self._confluents("/topics", GET=service.all_topics),
            self._confluents("/topics/{topic}", GET=service.topic, POST=service.produce),
            self._confluents("/topics/{topic}/partitions", GET=service.partitions),
            self._confluents(
                "/topics/{topic}/partitions/{partition}",
                GET=service.partition,
                POST=service.produce_to,
            ),
            self._confluents("/v3/clusters", GET=service.clusters),
            self._confluents("/v3/clusters/{cluster_id}", GET=service.cluster),
            self._confluents(
                "/v3/clusters/{cluster_id}/topics/{topic}/records", POST=confluent.post
            ),
            path("/live", GET=self._live),
            path("/ready", GET=self._ready),
            path("/problems", GET=self._problems),
            path("/problems/{reason}", GET=self._problem),
            path("/openapi.json", GET=self._document),
            path("/docs", GET=self._docs),
            path("/docs/{file}", GET=self._docs_file),
        )

    def _confluents(self, template: str, **methods: PathWork) -> Path:
        """Return one of Confluent's paths; its endpoints get the parts of the path first."""
        content_type = V3_TYPE if template.startswith("/v3") else V2_TYPE

        def page(work: PathWork) -> PathPage:
            async def respond(request: web.BaseRequest, *parts: str) -> web.StreamResponse:
                call = partial(work, *parts)
                return await self._confluent.service.answer(request, template, content_type, call)

            return respond

        return path(template, **{method: page(work) for method, work in methods.items()})

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the response to any request. Only POST is traced; others are mostly probes."""
        traces, trace = self._traces, None
        if traces is not None and request.method == "POST":
            trace = traces.begin({name.lower(): value for name, value in request.raw_headers})
        if traces is None or trace is None:
            return await self._across_origins(request)
        request[TRACE], trace.path = trace, request.rel_url.raw_path[:PATH_SHOWN]
        status = 0
        try:
            answer = await self._across_origins(request)
            status = answer.status
        except Exception:
            status = 500
            raise
        finally:
            traces.end(trace, status)
        return answer

    async def _across_origins(self, request: web.BaseRequest) -> web.StreamResponse:
        if not self._cors.is_on or "Origin" not in request.headers:
            return await self._answer(request)
        headers = request[CORS_HEADERS] = self._cors.headers(request.headers)
        answer = await self._answer(request)
        if not answer.prepared:  # a stream has already sent these headers
            answer.headers.update(headers)
        return answer

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = request.rel_url.raw_path
        for route in self.paths:
            match = route.pattern.fullmatch(raw)
            if match is not None:
                method = "GET" if request.method == "HEAD" else request.method
                page = route.methods.get(method)
                if page is None:
                    return self._not_allowed(request, route.allowed)
                return await page(request, *map(unquote, match.groups()))
        return self._confluent.service.not_offered(request) or await self._unknown(request)

    def _not_allowed(self, request: web.BaseRequest, allowed: str) -> web.Response:
        """Return a 405 with the allowed methods; with CORS on, answer OPTIONS."""
        if request.method == "OPTIONS" and self._cors.is_on:
            headers = {"Allow": allowed, **self._cors.preflight(request.headers, allowed)}
            return web.Response(status=204, headers=headers)
        detail = f"{request.method[:SHOWN]} is not for this path; use {allowed}"
        failure = Failure(Reason.METHOD_NOT_ALLOWED, detail)
        answer = self._confluent.service.failed(request, failure) or self._refuse(request, failure)
        answer.headers["Allow"] = allowed
        return answer

    def _refuse(self, request: web.BaseRequest, failure: Failure) -> web.Response:
        request_id = self._request_ids()
        trace, path = request.get(TRACE), request.rel_url.raw_path
        self._request_log.refused(failure, request_id, trace, path=path, remote=request.remote)
        return problem_response(failure, request_id)

    async def _unknown(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._others is not None:
            try:
                return await self._others(request)
            except Refused as refused:
                return self._refuse(request, refused.failure)
        path = request.rel_url.raw_path
        if path == "/" and request.method in ("GET", "HEAD"):
            return web.Response(status=302, headers={"Location": "/docs"})
        detail = f"no page at {path[:SHOWN]}{of_data_port(request.method, path)}"
        failure = Failure(Reason.NOT_FOUND, detail)
        return self._refuse(request, failure)

    # ---- pages

    async def _live(self, _request: web.BaseRequest) -> web.Response:
        return response(Reply(200, JSON, (), b'{"status":"live"}'), "")

    async def _ready(self, _request: web.BaseRequest) -> web.Response:
        return response(self._readiness().reply(), "")

    async def _problems(self, _request: web.BaseRequest) -> web.Response:
        return index_page()

    async def _problem(self, request: web.BaseRequest, reason: str) -> web.StreamResponse:
        if reason not in frozenset(Reason):
            return await self._unknown(request)
        return problem_page(Reason(reason))

    async def _document(self, _request: web.BaseRequest) -> web.Response:
        return response(Reply(200, JSON, (), self._documents.both()), "")

    async def _docs(self, _request: web.BaseRequest) -> web.StreamResponse:
        return docs_page()

    async def _docs_file(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        try:
            return docs_file(name, self._documents.own)
        except Refused as refused:
            return self._refuse(request, refused.failure)


# ---- POST /v1/bursts/{id}/commit, a front of its own


COMMIT_ROUTE = "/v1/bursts/{id}/commit"


class BurstsFront:
    """Front for committing bursts; it authenticates callers like `EventsFront`."""

    def __init__(self, events: EventsFront, bursts: Bursts) -> None:
        self._events = events
        self._bursts = bursts
        self._loop = asyncio.get_running_loop()

    async def commit(self, request: web.BaseRequest, burst: str) -> web.StreamResponse:
        """Respond once Kafka has acknowledged the burst's end; `?topic=` limits the topics."""
        events = self._events
        call, trace = events.call_of(request), request.get(TRACE)
        try:
            caller = self._caller(call)
            named = read_query(request.rel_url.raw_query_string, "topic")
            marker = read_burst(burst.encode("utf-8", "surrogateescape"))
            assert marker is not None
            topics = await self._bursts.commit(marker, caller.name, caller.may_post, named)
            page = {"outcome": "committed", "burst": burst, "topics": topics}
            reply = Reply(200, JSON, (), json_text(page).encode())
        except Refused as refused:
            reply = problem(refused.failure, call.request_id)
            fields = {
                "producer": call.producer,
                "path": request.rel_url.raw_path,
                "remote": request.remote,
            }
            events.request_log.refused(refused.failure, call.request_id, trace, **fields)
        seconds = self._loop.time() - call.arrived
        events.count(COMMIT_ROUTE, reply.status, seconds, call.request_id, trace)
        return response_to(request, reply, call.request_id)

    def _caller(self, call: Call) -> Identity:
        if self._events.budget.is_closed:
            raise Refused(DRAINING)
        return self._events.identify(call)
