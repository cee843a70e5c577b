"""Brings spans to the collector, without ever holding up an event.

What waits is bounded: while the collector is away or slow, newer spans are dropped and counted. A
batch is encoded in a fraction of a millisecond, and sent by the event loop's own client.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple, Protocol

import aiohttp

from headgate.core.outage import Outage
from headgate.core.tracing.span import Span
from headgate.tracing import otlp

MAX_WAITING: Final = 4096  # spans, some kB each
BATCH: Final = 128
EVERY_S: Final = 1.0  # how long a span waits at most for others to go with
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_RETRYABLE: Final = frozenset((429, 502, 503, 504))  # by the specification; others are final
_CLOSE_S: Final = 2.0  # for the last spans, when the gateway ends
_SHOWN: Final = 200  # characters of what a collector says
_ANSWER_BYTES: Final = 4096

log = logging.getLogger("headgate.tracing")


class Answer(NamedTuple):
    """What the collector said."""

    status: int
    body: bytes


Post = Callable[[bytes], Awaitable[Answer]]  # raises OSError, TimeoutError: no answer


class SpanMeter(Protocol):
    """Who counts what becomes of spans."""

    def spans(self, result: str, count: int) -> None: ...


class Exporter:
    """resource: attributes of all spans.  post: sends a request.  clock: monotonic seconds."""

    def __init__(
        self,
        resource: Mapping[str, str | int],
        post: Post,
        meter: SpanMeter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resource = resource
        self._post = post
        self._meter = meter
        self._waiting: deque[Span] = deque()
        self._enough = asyncio.Event()
        self._outage = Outage(clock)
        self._pause_s = _FIRST_PAUSE_S

    def take(self, spans: Sequence[Span]) -> None:
        """Spans of a request that has ended. Never waits."""
        if len(self._waiting) + len(spans) > MAX_WAITING:
            self._meter.spans("dropped", len(spans))
            return
        self._waiting += spans
        if len(self._waiting) >= BATCH:
            self._enough.set()

    async def run(self) -> None:
        """Send what there is, for ever."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._enough.wait()
            self._enough.clear()
            while self._waiting:
                if not await self._send():
                    await asyncio.sleep(self._pause_s)
                    self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Send what is left, in bounded time; `run` must have ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                while self._waiting and await self._send():
                    pass
        if self._waiting:
            self._meter.spans("dropped", len(self._waiting))
            self._waiting.clear()

    async def _send(self) -> bool:
        """Send the oldest. False: they wait for the collector."""
        spans = list(islice(self._waiting, BATCH))
        try:
            answer = await self._post(otlp.request(self._resource, spans))
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            self._is_away(repr(error))
            return False
        if answer.status in _RETRYABLE:
            self._is_away(f"it answers {answer.status}")
            return False
        for _ in spans:
            self._waiting.popleft()
        if answer.status >= 300:
            self._meter.spans("refused", len(spans))
            said = answer.body[:_SHOWN].decode("utf-8", "replace")
            self._is_away(f"it refuses spans: {answer.status} {said}")
            return True
        refused = min(otlp.rejected(answer.body), len(spans))
        self._meter.spans("refused", refused)
        self._meter.spans("exported", len(spans) - refused)
        self._is_back()
        return True

    def _is_away(self, why: str) -> None:
        if self._outage.begins():
            log.warning("the collector of spans is away: %s", why)

    def _is_back(self) -> None:
        self._pause_s = _FIRST_PAUSE_S
        if (away_s := self._outage.ends()) is not None:
            log.info("the collector of spans is back", extra={"away_s": away_s})


class Collector:
    """A collector's HTTP endpoint. headers: of each request.  timeout_s: for each."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], timeout_s: float) -> None:
        self._url = endpoint.rstrip("/") + otlp.PATH
        self._headers = {"Content-Type": otlp.CONTENT_TYPE, **headers}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes) -> Answer:
        """Raises OSError, TimeoutError, aiohttp.ClientError where there is no answer."""
        if self._session is None:
            no_cookies = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(
                headers=self._headers, timeout=self._timeout, cookie_jar=no_cookies
            )
        async with self._session.post(self._url, data=body, allow_redirects=False) as answer:
            return Answer(answer.status, await answer.content.read(_ANSWER_BYTES))

    async def close(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()
