"""The gateway in memory; the package shows how to use it."""

import base64
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import httpx

from headgate_client.core.ids import uuid7
from headgate_client.errors import InvalidOptionError
from headgate_client.settings import (
    CheckedOptions,
    check_bool,
    check_count,
    check_function,
    did_you_mean,
    explain_arguments,
)
from headgate_client.testing.requests import (
    Record,
    RefusedError,
    check_request,
    content_of,
    fault_of,
    records_of,
)
from headgate_client.wire import FAKE_URL

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

KeyOf: TypeAlias = Callable[[str, Any], str | int | bool | None]
_KEY_MAX_BYTES = 4096  # http.key_max_bytes
_STATUSES = {"published": 201, "held": 202, "spooled": 202}  # of one event; others have 200
_LARGEST = 5  # paths of an event that is too large


@dataclass(frozen=True, slots=True)
class Refuse(CheckedOptions):
    """The next request fails as a whole, for this reason."""

    reason: str
    retry_after_s: int = 0

    def __post_init__(self) -> None:
        """Refuse a reason that no gateway has."""
        _check_reason(self.reason)


@dataclass(frozen=True, slots=True)
class Lose(CheckedOptions):
    """The connection drops before the response.

    Attributes:
        is_written: Whether the events are written.
    """

    is_written: bool

    def __post_init__(self) -> None:
        """Refuse another type."""
        check_bool("is_written", self.is_written)


Which: TypeAlias = Callable[[Record, int], bool]
WithoutRecord: TypeAlias = Literal["unchanged", "held", "spooled"]


@dataclass(frozen=True, slots=True)
class FailEvents(CheckedOptions):
    """Some events of the next request fail.

    Attributes:
        reason: Reason of the failure.
        which: Function of an event and its position in the request that selects those that fail.
        retry_after_s: Value of Retry-After.
        is_written: The events are written in spite of the failure; only for `unknown`.
        is_answered: False drops the connection, so that the client does not know which failed.
    """

    reason: str
    which: Which = lambda record, position: True
    retry_after_s: int = 0
    is_written: bool = False
    is_answered: bool = True

    def __post_init__(self) -> None:
        """Refuse a reason that no gateway has."""
        _check_reason(self.reason)
        if self.is_written and self.reason != "unknown":
            raise InvalidOptionError("is_written: only events that fail as 'unknown' are written")


@dataclass(frozen=True, slots=True)
class Succeed(CheckedOptions):
    """Some events of the next request succeed without a new record.

    Attributes:
        outcome: `unchanged`, with the place of the newest record of the key (offset 0 without one);
            or `held` or `spooled`, without a place.
        which: Function of an event and its position in the request that selects these events.
    """

    outcome: WithoutRecord
    which: Which = lambda record, position: True

    def __post_init__(self) -> None:
        """Refuse an outcome that needs no help, or does not exist."""
        if self.outcome not in (names := get_args(WithoutRecord)):
            hint = did_you_mean(str(self.outcome), names)
            allowed = ", ".join(map(repr, names))
            raise InvalidOptionError(f"outcome: use one of {allowed}, not {self.outcome!r}.{hint}")


Fault: TypeAlias = Refuse | Lose | FailEvents | Succeed


def _check_reason(reason: object) -> None:
    if reason not in REASONS:
        hint = did_you_mean(str(reason), REASONS)
        raise InvalidOptionError(
            f"reason: no gateway has the reason {reason!r}.{hint} "
            f"The reasons are {', '.join(REASONS)}."
        )


class FakeGateway:
    """Takes events as a gateway does, and keeps them. Threads may share it.

    Args:
        key_of: The topics' key rule: a function of topic and JSON value that returns the key of an
            event without one. As in a gateway, a key is a str, an int or a bool (`12` and `"12"`
            are the same key). None or "" fails the event with `missing_key`, another type with
            `invalid_key`. Bytes and tombstones need a key. Without the function, only tombstones
            do.
        dedupe: Write each event id once (`dedupe_ttl_s`). An id with other content fails with
            `idempotency_mismatch`.
        max_bytes: Size limit of a value, in bytes. A larger event fails with `too_large`, and with
            the figures of a gateway. None has no limit.
    """

    url = FAKE_URL

    @explain_arguments("key_of=...")
    def __init__(
        self,
        *,
        key_of: KeyOf | None = None,
        dedupe: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        if max_bytes is not None:
            check_count("max_bytes", max_bytes)
        check_bool("dedupe", dedupe)
        if key_of is not None:
            check_function("key_of", key_of, " of topic and value")
        self.transport = httpx.MockTransport(self._handle)
        self.requests: list[httpx.Request] = []
        self._key_of, self._dedupe, self._max_bytes = key_of, dedupe, max_bytes
        self._faults: deque[Fault] = deque()
        self._log: dict[str, list[Record]] = {}
        self._remembered: dict[str, tuple[bytes, list[dict[str, object]]]] = {}
        self._ids: dict[tuple[str, ...], tuple[int, tuple[object, ...]]] = {}
        self._lock = threading.Lock()

    def next(self, *faults: Fault) -> None:
        """Fail the next requests, each by one of these faults."""
        for fault in faults:
            if not isinstance(fault, get_args(Fault)):
                raise InvalidOptionError(
                    "next: use Refuse, Lose, FailEvents or Succeed objects, "
                    f"not {type(fault).__name__}"
                )
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
        check_request(request.headers)
        topic = request.url.path.split("/")[3]
        content = content_of(request)
        records = list(records_of(topic, request, content))
        before = self._remembered_of(request, content, len(records))
        selecting = fault if isinstance(fault, (FailEvents, Succeed)) else None
        outcomes, ends = [], []
        for position, (record, seen) in enumerate(zip(records, before, strict=True)):
            if seen or selecting is None or not selecting.which(record, position):
                end = outcome = self._end(record, seen)  # what is remembered fails no more
            elif isinstance(selecting, Succeed):
                end = outcome = self._without_record(record, selecting.outcome)
            else:
                end = self._end(record, {}) if selecting.is_written else {}
                outcome = self._failed(record, selecting.reason)
            ends.append(end)
            outcomes.append(outcome)
        if "Idempotency-Key" in request.headers:
            good = [{} if "reason" in end else end for end in ends]
            self._remembered[request.headers["Idempotency-Key"]] = (content, good)
        failing = fault if isinstance(fault, FailEvents) else None
        if isinstance(fault, Lose) or (failing is not None and not failing.is_answered):
            raise httpx.ReadError("the connection dropped", request=request)
        is_batch = "batch" in request.headers.get("Content-Type", "")
        wait_s = 0 if failing is None else failing.retry_after_s
        return _response(outcomes, is_batch=is_batch, wait_s=wait_s)

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
        record, refusal = self._keyed(record)
        if refusal is not None:
            return self._failed(record, *refusal)
        if self._max_bytes is not None and len(_text_of(record.value)) > self._max_bytes:
            return self._failed(record, "too_large")
        name = (record.topic, *record.scope, record.event_id or "")
        content = (record.key, _text_of(record.value), record.is_tombstone, record.content_type)
        if self._dedupe and record.event_id is not None and name in self._ids:
            offset, first = self._ids[name]
            if first != content:
                detail = "this event id came before with other content"
                return self._failed(record, "idempotency_mismatch", detail)
            return _written(record, "duplicate", offset, 0)
        log = self._log.setdefault(record.topic, [])
        log.append(record)
        if record.event_id is not None:
            self._ids[name] = (len(log) - 1, content)
        return _written(record, "published", len(log) - 1, 1)

    def _without_record(self, record: Record, outcome: WithoutRecord) -> dict[str, object]:
        """Return a success without a new record."""
        record, refusal = self._keyed(record)
        if refusal is not None:
            return self._failed(record, *refusal)
        if outcome == "unchanged":
            log = self._log.get(record.topic, ())
            same = (offset for offset, other in enumerate(log) if other.key == record.key)
            end = _written(record, outcome, max(same, default=0), 0)
            return {**end, "event_id": record.event_id}  # no record, so no new id
        return _waiting(record, outcome)

    def _keyed(self, record: Record) -> tuple[Record, tuple[str, str] | None]:
        """Return the record with its key; or the reason and detail of its refusal."""
        key: object = record.key
        fault = fault_of(record)
        if fault is not None:
            return record, ("malformed", fault)
        if key is None and record.is_tombstone:
            return record, ("missing_key", "a tombstone has no value with a key")
        if key is None and self._key_of is None:
            return record, None
        if key is None and isinstance(record.value, bytes):
            return record, ("missing_key", "the value is bytes, so the key rule does not apply")
        if key is None:
            key = self._rule(record)
        if key is None or key == "":
            detail = f"the event has no key, and key_of returned {key!r}"
            return record, ("missing_key", detail)
        if isinstance(key, int):  # True is an int
            key = str(key).lower()
        if not isinstance(key, (str, bytes)):
            detail = (
                f"key_of returned the {type(key).__name__} {key!r}; a key is a str, int or bool"
            )
            return record, ("invalid_key", detail)
        if len(key.encode() if isinstance(key, str) else key) > _KEY_MAX_BYTES:
            detail = f"the key is longer than http.key_max_bytes = {_KEY_MAX_BYTES}"
            return record, ("invalid_key", detail)
        return replace(record, key=key), None

    def _rule(self, record: Record) -> object:
        assert self._key_of is not None
        try:
            return self._key_of(record.topic, record.value)
        except Exception as error:
            raise RuntimeError(
                f"key_of: the function raised {error!r} for the value {record.value!r}; "
                "return None if there is no key"
            ) from error

    def _failed(
        self, record: Record, reason: str, detail: str = "as the test wants it"
    ) -> dict[str, object]:
        status, retryable = REASONS[reason]
        figures: dict[str, object] = {}
        if reason == "invalid_key" and "key_max_bytes" in detail:
            figures = {"limit_bytes": _KEY_MAX_BYTES}
        if reason == "too_large":
            size = len(_text_of(record.value))
            limit = self._max_bytes if self._max_bytes is not None else max(size - 1, 0)
            detail = f"{size} bytes are more than the limit of {limit} bytes (max_bytes)"
            figures = {
                "size_bytes": size,
                "limit_bytes": limit,
                "limit": "max_bytes",
                "largest_paths": _largest_paths(record.value),
            }
        return {
            "outcome": "unknown" if reason == "unknown" else "rejected",
            "reason": reason,
            "status": status,
            "retryable": retryable,
            "detail": detail,
            **figures,
            **_about(record),
            "event_id": record.event_id,
        }


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


def _waiting(record: Record, name: WithoutRecord) -> dict[str, object]:
    """Return the outcome of an event that is published later."""
    event_id = record.event_id or uuid7()
    return {
        "outcome": name,
        "topic": record.topic,
        **_about(record),
        "event_id": event_id,
        "records": 0,
    }


def _text_of(value: object) -> bytes:
    """Return the bytes of a value, as compact as the client writes them."""
    if isinstance(value, bytes):
        return value
    if value is None:
        return b""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _largest_paths(value: object) -> list[dict[str, object]]:
    """Return the largest members of an object: JSON Pointer and size."""
    members = value.items() if isinstance(value, dict) else ()
    sizes = [
        (len(_text_of(member)), "/" + name.replace("~", "~0").replace("/", "~1"))
        for name, member in members
    ]
    return [{"path": path, "bytes": size} for size, path in sorted(sizes, reverse=True)[:_LARGEST]]


def _about(record: Record) -> dict[str, object]:
    if isinstance(record.key, bytes):
        return {"key_base64": base64.b64encode(record.key).decode()}
    return {} if record.key is None else {"key": record.key}


def _response(outcomes: list[dict[str, object]], *, is_batch: bool, wait_s: int) -> httpx.Response:
    headers = {"Retry-After": str(wait_s)} if wait_s else {}
    failed = [outcome for outcome in outcomes if "reason" in outcome]
    if not is_batch:
        (outcome,) = outcomes
        status = outcome.get("status", _STATUSES.get(str(outcome["outcome"]), 200))
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
