"""The gateway in memory; the package shows how to use it."""

import base64
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import httpx

from headgate_client.core.ids import uuid7
from headgate_client.testing.requests import Record, RefusedError, content_of, records_of

# Each reason of docs/reference/reasons.md that a sender may get: its status, and whether the same
# event may succeed later.
REASONS: Mapping[str, tuple[int, bool]] = {
    "malformed": (400, False),
    "unauthenticated": (401, False),
    "forbidden": (403, False),
    "unknown_topic": (404, False),
    "request_timeout": (408, True),
    "idempotency_conflict": (409, True),
    "too_large": (413, False),
    "unsupported_encoding": (415, False),
    "idempotency_mismatch": (422, False),
    "missing_key": (422, False),
    "invalid_key": (422, False),
    "schema_violation": (422, False),
    "timestamp_out_of_range": (422, False),
    "too_many_events": (422, False),
    "quota_exceeded": (429, True),
    "too_many_attempts": (429, True),
    "headers_too_large": (431, False),
    "internal": (500, True),
    "broker_refused": (502, False),
    "overloaded": (503, True),
    "draining": (503, True),
    "kafka_unavailable": (503, True),
    "redis_unavailable": (503, True),
    "issuer_unavailable": (503, True),
    "blobs_unavailable": (503, True),
    "monitor_unavailable": (503, True),
    "clock_wrong": (503, True),
    "unknown": (504, True),
}


@dataclass(frozen=True, slots=True)
class Refuse:
    """The next request fails as a whole, for this reason."""

    reason: str
    retry_after_s: int = 0


@dataclass(frozen=True, slots=True)
class Lose:
    """The connection drops before the response. is_written: whether the events are written."""

    is_written: bool


@dataclass(frozen=True, slots=True)
class FailEvents:
    """Some events of the next request fail.

    Attributes:
        reason: Reason of the failure.
        which: Function of an event and its position in the request that selects those that fail.
        retry_after_s: Value of Retry-After.
        is_written: The events are written in spite of the failure; only for `unknown`.
        is_answered: False drops the connection, so that the client does not know which failed.
    """

    reason: str
    which: Callable[[Record, int], bool] = lambda record, position: True
    retry_after_s: int = 0
    is_written: bool = False
    is_answered: bool = True


_NO_FAULT = FailEvents("", lambda record, position: False)
Fault: TypeAlias = Refuse | Lose | FailEvents


class FakeGateway:
    """Takes events as a gateway does, and keeps them. Threads may share it.

    Args:
        key_of: Function of topic and value that returns the key of an event without one. None
            fails the event with `missing_key`.
        dedupe: Write each event id once (`dedupe_ttl_s`).
    """

    url = "http://headgate.test"

    def __init__(
        self,
        *,
        key_of: Callable[[str, object], str | None] = lambda topic, value: "",
        dedupe: bool = False,
    ) -> None:
        self.transport = httpx.MockTransport(self._handle)
        self.requests: list[httpx.Request] = []
        self._key_of, self._dedupe = key_of, dedupe
        self._faults: deque[Fault] = deque()
        self._log: dict[str, list[Record]] = {}
        self._remembered: dict[str, tuple[bytes, list[dict[str, object]]]] = {}
        self._ids: dict[tuple[str, str | None], int] = {}
        self._lock = threading.Lock()

    def next(self, *faults: Fault) -> None:
        """Fail the next requests, each by one of these faults."""
        with self._lock:
            self._faults.extend(faults)

    def forget(self) -> None:
        """Forget the Idempotency-Keys, as if Redis lost its data: repeats are written again."""
        with self._lock:
            self._remembered.clear()

    def records(self, topic: str) -> list[Record]:
        """Return the records of a topic in their order; all are in partition 0."""
        with self._lock:
            return list(self._log.get(topic, ()))

    def _handle(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self.requests.append(request)
            fault = self._faults.popleft() if self._faults else None
            try:
                return self._answer(request, fault)
            except RefusedError as refused:
                return _problem(refused.reason, str(refused), refused.retry_after_s)

    def _answer(self, request: httpx.Request, fault: Fault | None) -> httpx.Response:
        if isinstance(fault, Refuse):
            raise RefusedError(fault.reason, "as the test wants it", fault.retry_after_s)
        if isinstance(fault, Lose) and not fault.is_written:
            raise httpx.ReadError("the connection dropped", request=request)
        topic = request.url.path.split("/")[3]
        content = content_of(request)
        records = list(records_of(topic, request, content))
        before = self._remembered_of(request, content, len(records))
        faults = fault if isinstance(fault, FailEvents) else _NO_FAULT
        outcomes, ends = [], []
        for position, (record, seen) in enumerate(zip(records, before, strict=True)):
            fails = not seen and faults.which(record, position)  # what is remembered fails no more
            ends.append({} if fails and not faults.is_written else self._end(record, seen))
            outcomes.append(_failed(record, faults.reason) if fails else ends[-1])
        if "Idempotency-Key" in request.headers:
            good = [{} if "reason" in end else end for end in ends]
            self._remembered[request.headers["Idempotency-Key"]] = (content, good)
        if isinstance(fault, Lose) or not faults.is_answered:
            raise httpx.ReadError("the connection dropped", request=request)
        is_batch = "batch" in request.headers.get("Content-Type", "")
        return _response(outcomes, is_batch=is_batch, wait_s=faults.retry_after_s)

    def _remembered_of(
        self, request: httpx.Request, content: bytes, count: int
    ) -> list[dict[str, object]]:
        """Return the good outcomes of an earlier request with the same key; empty for others."""
        none: list[dict[str, object]] = [{} for _ in range(count)]
        content_before, outcomes = self._remembered.get(
            request.headers.get("Idempotency-Key", ""), (content, none)
        )
        if content_before != content:
            raise RefusedError("idempotency_mismatch", "the key is of another request")
        return outcomes

    def _end(self, record: Record, seen: dict[str, object]) -> dict[str, object]:
        """Write an event, unless that was done. seen: its outcome under this Idempotency-Key."""
        if seen:
            return {**seen, "outcome": "duplicate", "records": 0}
        if record.key is None:
            key = self._key_of(record.topic, record.value)
            if key is None:
                return _failed(record, "missing_key")
            record = replace(record, key=key or None)
        name = (record.topic, record.event_id)
        if self._dedupe and name in self._ids:
            return _written(record, "duplicate", self._ids[name], 0)
        log = self._log.setdefault(record.topic, [])
        log.append(record)
        if record.event_id is not None:
            self._ids[name] = len(log) - 1
        return _written(record, "published", len(log) - 1, 1)


def _written(record: Record, name: str, offset: int, records: int) -> dict[str, object]:
    event_id = record.event_id or uuid7()
    return {
        "outcome": name,
        "topic": record.topic,
        "partition": 0,
        "offset": offset,
        **_about(record),
        "event_id": event_id,
        "records": records,
    }


def _failed(record: Record, reason: str) -> dict[str, object]:
    status, retryable = REASONS[reason]
    name = "unknown" if reason == "unknown" else "rejected"
    return {
        "outcome": name,
        "reason": reason,
        "status": status,
        "retryable": retryable,
        "detail": "as the test wants it",
        **_about(record),
        "event_id": record.event_id,
    }


def _about(record: Record) -> dict[str, object]:
    if isinstance(record.key, bytes):
        return {"key_base64": base64.b64encode(record.key).decode()}
    return {} if record.key is None else {"key": record.key}


def _response(outcomes: list[dict[str, object]], *, is_batch: bool, wait_s: int) -> httpx.Response:
    headers = {"Retry-After": str(wait_s)} if wait_s else {}
    failed = [outcome for outcome in outcomes if "reason" in outcome]
    if not is_batch:
        (outcome,) = outcomes
        status = outcome.get("status", 201 if outcome["outcome"] == "published" else 200)
    elif not failed:
        status = 200
    else:
        status = (
            207
            if len(failed) < len(outcomes)
            else max(str(outcome["status"]) for outcome in failed)
        )
    document = {"outcomes": outcomes} if is_batch else outcomes[0]
    return httpx.Response(int(str(status)), json=document, headers=headers)


def _problem(reason: str, detail: str, retry_after_s: int) -> httpx.Response:
    status, retryable = REASONS[reason]
    document = {
        "type": f"/problems/{reason}",
        "status": status,
        "detail": detail,
        "reason": reason,
        "retryable": retryable,
    }
    headers = {"Retry-After": str(retry_after_s)} if retry_after_s else {}
    return httpx.Response(status, json=document, headers=headers)
