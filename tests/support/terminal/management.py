"""The real management pages on a port of their own, over figures that a test sets."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from aiohttp import web

from headgate.admin.app import management_app
from headgate.admin.instance import Monitored
from headgate.config.settings import ProducerSettings, Settings
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason
from headgate.monitor.views import CANNOT_BE_SEEN
from support.gateway.admin_world import TOPICS, FakeInstance, admin_of
from support.process.stack import free_port

HOST = "127.0.0.1"


class MonitoredInstance(FakeInstance):
    """Also groups: what a monitor would say of them."""

    groups: list[dict[str, Any]]

    async def monitored(self, path: str, authorization: str | None) -> Monitored | Failure:
        name = path.removeprefix("/v1/groups").partition("?")[0].strip("/")
        if name and name not in [each["group"] for each in self.groups]:
            problem = {"status": 404, "reason": "not_found", "detail": "no such group"}
            return self.failure or Monitored(404, "application/problem+json", orjson.dumps(problem))
        page = {
            "groups": self.groups, "next": None, "regressions": [], "clusters": [],
            "cannot_be_seen": CANNOT_BE_SEEN,
        }  # fmt: skip
        if name:
            page = {"group": name, "on": [one for one in self.groups if one["group"] == name]}
        return self.failure or Monitored(200, "application/json", orjson.dumps(page))


class Management:
    """The management port of a gateway. As a context; may be closed and opened again."""

    def __init__(self, *producers: str, settings: Settings | None = None) -> None:
        self.port = free_port()
        named = {name: ProducerSettings() for name in producers}
        chosen = settings or Settings(producers=named, topics=TOPICS)
        self.instance = MonitoredInstance(chosen)
        self.instance.groups = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> Management:
        self._thread.start()
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self) -> None:
        self._run(self._open())

    def close(self) -> None:
        if self._runner is not None:
            self._run(self._runner.cleanup())
            self._runner = None

    def until_asked(self, deadline_s: float = 60.0) -> None:
        """Wait until somebody has asked for figures."""
        end = time.monotonic() + deadline_s
        while not self.instance.refreshed:
            assert time.monotonic() < end, "nobody asks"
            time.sleep(0.01)

    def post(
        self,
        producer: str,
        topic: str,
        count: int,
        name: OutcomeName = OutcomeName.PUBLISHED,
        size: int = 100,
    ) -> None:
        """So many events have come, and ended so."""
        failure = Failure(Reason.TOO_LARGE, "too large") if name is OutcomeName.REJECTED else None
        outcomes = [Outcome(name, 0, 0, b"k", failure=failure)] * count
        self._call(lambda: self.instance.meter.account(producer, topic, outcomes, [size] * count))

    async def _open(self) -> None:
        self._runner = web.AppRunner(management_app(admin_of(self.instance)))
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self.port).start()

    def _call(self, do: Callable[[], None]) -> None:
        async def call() -> None:
            do()

        self._run(call())

    def _run(self, awaitable: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(60)


def group(name: str, state: str = "OK", lag: int = 0, **more: Any) -> dict[str, Any]:
    """A row of the monitor's page."""
    return {
        "group": name, "cluster": "main", "state": state, "lag": lag, "stuck_commit": False,
        "heat": "hot", "members": 3, "idle_members": 0, "regressions": 0, "loss_in_s": None,
        "unread_topics": [],
        "probation": {"admitted": True}, **more,
    }  # fmt: skip
