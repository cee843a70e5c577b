"""Export of spans to an OpenTelemetry collector, without delaying events.

The queue of spans is bounded: while the collector is unavailable or slow, newer spans are dropped
and counted. The event loop encodes a batch in a fraction of a millisecond, and sends it.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

import aiohttp
import orjson

from headgate import __version__
from headgate.errors_in_words import connection_error
from headgate.model.times import Outage
from headgate.tracing.spans import Span, SpanKind

log = logging.getLogger("headgate.tracing")

# ---- OTLP/HTTP in its JSON form (opentelemetry.io/docs/specs/otlp)

PATH: Final = "/v1/traces"
CONTENT_TYPE: Final = "application/json"

_ERROR: Final = {"code": 2}
_SAMPLED: Final = 0x01
_REMOTE: Final = 0x300  # the parent came with a request or a record
_LOCAL: Final = 0x100
_CONTINUING: Final = (SpanKind.SERVER, SpanKind.CONSUMER)

Json = dict[str, Any]


def request(resource: Mapping[str, str | int], spans: Iterable[Span]) -> bytes:
    """Return an encoded ExportTraceServiceRequest.

    Args:
        resource: Attributes of the gateway that made the spans.
        spans: Spans to export.
    """
    scope = {"name": "headgate", "version": __version__}
    scoped = {"scope": scope, "spans": [_span(span) for span in spans]}
    resource_spans = {"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scoped]}
    return orjson.dumps({"resourceSpans": [resource_spans]})


def rejected(answer: bytes, sent: int) -> int:
    """Return the number of spans that the collector rejected, between 0 and the number sent.

    Args:
        answer: Body of the collector's response.
        sent: Number of spans in the request.
    """
    try:
        refused = int(orjson.loads(answer)["partialSuccess"].get("rejectedSpans", 0))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return 0  # most responses do not contain it, or are empty
    return max(0, min(refused, sent))


def _span(span: Span) -> Json:
    is_remote = span.kind in _CONTINUING
    fields: Json = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": int(span.kind),
        "flags": _SAMPLED | (_REMOTE if is_remote and span.parent_id else _LOCAL),
        "startTimeUnixNano": str(span.began_ns),
        "endTimeUnixNano": str(span.ended_ns),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id:
        fields["parentSpanId"] = span.parent_id
    if span.state:
        fields["traceState"] = span.state
    if span.error:
        fields["status"] = {**_ERROR, "message": span.error}
    if span.moments:
        fields["events"] = [
            {"name": moment.name, "timeUnixNano": str(moment.at_ns)} for moment in span.moments
        ]
    return fields


def _attributes(given: Mapping[str, str | int]) -> list[Json]:
    # Protobuf's JSON encodes 64-bit integers as strings, so that JavaScript can read them.
    return [
        {
            "key": key,
            "value": {"stringValue": value} if type(value) is str else {"intValue": str(value)},
        }
        for key, value in given.items()
    ]


MAX_WAITING: Final = 4096  # spans, some kB each
BATCH: Final = 128
EVERY_S: Final = 1.0  # longest time that a span waits for its batch to fill
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_LONGEST_ASKED_S: Final = 300.0  # longest Retry-After of a collector that is respected
_RETRYABLE: Final = frozenset((429, 502, 503, 504))  # by the specification; others are final
_CLOSE_S: Final = 2.0  # for the last spans, when the gateway ends
_CLOSE_CONNECTIONS_S: Final = 1.0
_SHOWN: Final = 200  # characters of a collector's response in the log
_ANSWER_BYTES: Final = 4096


class Answer(NamedTuple):
    """Response of the collector. `retry_after_s` is its Retry-After, in seconds."""

    status: int
    body: bytes
    retry_after_s: float = 0.0


Post = Callable[[bytes], Awaitable[Answer]]  # raises OSError, TimeoutError: no answer


class Exporter:
    """The queue of finished spans, and the task that sends them.

    Args:
        resource: Attributes of all spans.
        post: Sends a request to the collector.
        count_spans: Counts spans by result: exported, refused or dropped.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        resource: Mapping[str, str | int],
        post: Post,
        count_spans: Callable[[str, int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resource = resource
        self._post = post
        self._count_spans = count_spans
        self._waiting: deque[Span] = deque()
        self._enough = asyncio.Event()
        self._outage = Outage(clock)
        self._pause_s = _FIRST_PAUSE_S

    def take(self, spans: Sequence[Span]) -> None:
        """Queue the spans of a request that has ended. Never waits."""
        if len(self._waiting) + len(spans) > MAX_WAITING:
            self._count_spans("dropped", len(spans))
            return
        self._waiting += spans
        if len(self._waiting) >= BATCH:
            self._enough.set()

    async def run(self) -> None:
        """Send queued spans until cancelled."""
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
        """Send the remaining spans, in bounded time; `run` must have ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                while self._waiting and await self._send():
                    pass
        if self._waiting:
            self._count_spans("dropped", len(self._waiting))
            self._waiting.clear()

    async def _send(self) -> bool:
        """Send the oldest spans. Return False if they must wait for the collector."""
        spans = list(islice(self._waiting, BATCH))
        try:
            body = request(self._resource, spans)
        except TypeError as error:  # a retry would fail too, and would block all later spans
            self._done(spans, "dropped")
            log.error("spans cannot be encoded: %s", error)  # noqa: TRY400
            return True
        try:
            answer = await self._post(body)
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            self._note_outage(connection_error(error))
            return False
        if answer.status in _RETRYABLE:
            self._note_outage(f"it answers {answer.status}")
            self._pause_s = max(self._pause_s, min(answer.retry_after_s, _LONGEST_ASKED_S))
            return False
        if answer.status >= 300:
            self._done(spans, "refused")
            said = answer.body[:_SHOWN].decode("utf-8", "replace")
            self._note_outage(f"it refuses spans: {answer.status} {said}")
            return True
        refused = rejected(answer.body, len(spans))
        self._done(spans[:refused], "refused")
        self._done(spans[refused:], "exported")
        self._note_recovery()
        return True

    def _done(self, spans: Sequence[Span], result: str) -> None:
        """Remove as many of the oldest spans from the queue, and count them."""
        for _ in spans:
            self._waiting.popleft()
        self._count_spans(result, len(spans))

    def _note_outage(self, why: str) -> None:
        if self._outage.begins():
            log.warning("span collector is not available: %s", why)

    def _note_recovery(self) -> None:
        self._pause_s = _FIRST_PAUSE_S
        if (away_s := self._outage.ends()) is not None:
            log.info("span collector answers again", extra={"away_s": away_s})


class Collector:
    """HTTP endpoint of a collector.

    Args:
        endpoint: Base URL of the collector.
        headers: Headers of each request.
        timeout_s: Timeout of each request, in seconds.
    """

    def __init__(self, endpoint: str, headers: Mapping[str, str], timeout_s: float) -> None:
        self._url = endpoint.rstrip("/") + PATH
        self._headers = {"Content-Type": CONTENT_TYPE, **headers}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes) -> Answer:
        """Send a request to the collector.

        Raises:
            OSError: There was no response.
            TimeoutError: There was no response in time.
            aiohttp.ClientError: There was no valid response.
        """
        if self._session is None:
            no_cookies = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(
                headers=self._headers, timeout=self._timeout, cookie_jar=no_cookies
            )
        async with self._session.post(self._url, data=body, allow_redirects=False) as answer:
            body = await _beginning(answer.content)
            return Answer(answer.status, body, _seconds(answer.headers.get("Retry-After")))

    async def close(self) -> None:
        """Close the connections, in bounded time."""
        if self._session is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_CONNECTIONS_S):
                    await self._session.close()


async def _beginning(content: aiohttp.StreamReader) -> bytes:
    """Return the beginning of a response; endless responses are cut off."""
    beginning = b""
    while len(beginning) < _ANSWER_BYTES and (
        more := await content.read(_ANSWER_BYTES - len(beginning))
    ):
        beginning += more
    return beginning


def _seconds(retry_after: str | None) -> float:
    """Return the seconds of a Retry-After header; 0 without a number.

    Collectors send seconds. If one sends a date, which HTTP also allows, the growing pauses apply.
    """
    is_number = retry_after is not None and retry_after.isascii() and retry_after.isdigit()
    return float(retry_after[:9]) if is_number and retry_after is not None else 0.0
