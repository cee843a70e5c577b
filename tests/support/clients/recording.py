"""What a client has sent and was answered, seen from below it: a transport that keeps a record."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx

GOOD = ("published", "duplicate", "unchanged")


class Seen(NamedTuple):
    """One event in one request. end: outcome or reason; `no answer` if there was none."""

    event_id: str
    end: str
    is_bypassed: bool


class Record:
    """The attempts of every event, by its id. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, list[Seen]] = {}
        self.failed = 0  # how many times an event did not end well in a request

    def add(self, seen: Iterator[Seen]) -> None:
        with self._lock:
            for one in seen:
                self.failed += one.end not in GOOD
                self._seen.setdefault(one.event_id, []).append(one)

    def attempts(self, event_id: str) -> list[Seen]:
        with self._lock:
            return list(self._seen.get(event_id, ()))


class RecordingTransport(httpx.BaseTransport):
    """For `Client`."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._under = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            response = self._under.handle_request(request)
            response.read()
        except httpx.ConnectError:
            raise
        except httpx.HTTPError:
            self._record.add(_unanswered(request))
            raise
        self._record.add(_answered(request, response))
        return response

    def close(self) -> None:
        self._under.close()


class AsyncRecordingTransport(httpx.AsyncBaseTransport):
    """For `AsyncClient`."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._under = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            response = await self._under.handle_async_request(request)
            await response.aread()
        except httpx.ConnectError:
            raise
        except httpx.HTTPError:
            self._record.add(_unanswered(request))
            raise
        self._record.add(_answered(request, response))
        return response

    async def aclose(self) -> None:
        await self._under.aclose()


def _unanswered(request: httpx.Request) -> Iterator[Seen]:
    for event_id in _ids(request):
        yield Seen(event_id, "no answer", False)


def _answered(request: httpx.Request, response: httpx.Response) -> Iterator[Seen]:
    document: dict[str, Any] = response.json()
    is_bypassed = "idempotency-bypassed" in response.headers
    ids = _ids(request)
    outcomes = document.get("outcomes", [document] * len(ids))
    for event_id, outcome in zip(ids, outcomes, strict=True):
        yield Seen(event_id, outcome.get("reason") or outcome["outcome"], is_bypassed)


def _ids(request: httpx.Request) -> list[str]:
    return [event["id"] for event in json.loads(request.content)["events"]]
