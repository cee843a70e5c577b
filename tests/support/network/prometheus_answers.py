"""A Prometheus that answers every question about figures over time with two series."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


class PrometheusAnswers:
    """forms: what it was asked.  answer: what it says instead, None: the two series."""

    def __init__(self) -> None:
        self.forms: list[dict[str, Any]] = []
        self.answer: Any = None

    async def query_range(self, request: web.Request) -> web.Response:
        form = dict(await request.post())
        self.forms.append(form)
        if self.answer is not None:
            return web.json_response(self.answer)
        start, step = float(str(form["start"])), float(str(form["step"]))
        result = [
            {"metric": {"outcome": name}, "values": [[start, "1.5"], [start + 2 * step, value]]}
            for name, value in (("published", "4"), ("rejected", "NaN"))
        ]
        return web.json_response({"status": "success", "data": {"result": result}})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Its address, for `console.prometheus_url`."""
        app = web.Application()
        app.router.add_post("/under/api/v1/query_range", self.query_range)
        async with TestServer(app) as server:
            yield str(server.make_url("/under/"))
