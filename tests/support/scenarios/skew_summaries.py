"""Skew audits as they are published and kept: made up, for tests of what differs between two."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as some

from headgate.audits.results import MAX_ROWS, AuditSummary, NamedLoad

_COUNTS = some.integers(0, 10**12)
_TIMES = some.datetimes().map(lambda at: at.isoformat(timespec="milliseconds") + "Z")
_UNEVEN = some.floats(1, 1000)
_NAMES = ("chatty", "popular", "clumped", "large", "bursty")
_DIAGNOSES = some.lists(some.sampled_from(_NAMES), unique=True).map(tuple)


@some.composite
def _loads(draw: some.DrawFn, total: int) -> tuple[NamedLoad, ...]:
    names = draw(some.lists(some.text(max_size=3), unique=True, max_size=MAX_ROWS))
    sizes = sorted((draw(some.integers(0, total)) for _ in names), reverse=True)
    return tuple(
        NamedLoad(name, draw(_COUNTS), size, size / total if total else 0.0)
        for name, size in zip(names, sizes, strict=True)
    )


@some.composite
def _summaries(draw: some.DrawFn) -> AuditSummary:
    total = draw(_COUNTS)
    return AuditSummary(
        draw(some.sampled_from(("orders", "deals"))), draw(_TIMES), draw(_TIMES), draw(_TIMES),
        draw(_COUNTS), total, draw(some.integers(1, 1000)), draw(some.none() | _COUNTS),
        draw(some.none() | some.integers(1, 1000)), draw(_UNEVEN), draw(_UNEVEN),
        draw(_DIAGNOSES), draw(_loads(total)), draw(_loads(total)),
    )  # fmt: skip


SUMMARIES = _summaries()


def published(number: int, keys: int = 3) -> dict[str, Any]:
    """A document with what every release has published. number: of its records."""
    return {
        "topic": "orders",
        "generated_at": f"2026-01-31T12:{number:02}:00.000Z",
        "window": {"from": "2026-01-31T11:00:00Z", "to": f"2026-01-31T12:{number:02}:00Z"},
        "records": number,
        "bytes": 1000 * number,
        "partitions": 12,
        "distinct_keys": keys,
        "max_useful_partitions": None,
        "by_records": {"max_over_mean": 1.5, "gini": 0.1},
        "by_bytes": {"max_over_mean": 2.5, "gini": 0.2},
        "diagnoses": ["popular"],
        "findings": [{"diagnosis": "popular", "key": "key-0", "text": "It is."}],
        "top_keys": [
            {"key": f"key-{key}" * 20, "records": 1, "bytes": 10 * (keys - key), "run_p95": 1}
            for key in range(keys)
        ],
        "producers": [{"producer": None, "records": number, "bytes": 1000 * number}],
    }
