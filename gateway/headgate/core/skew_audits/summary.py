"""What is kept of an audit when a newer one takes its place, and what is compared.

A kept audit is the published document with fewer names, so that both are read alike.
"""

from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from typing import NamedTuple

Json = Mapping[str, object]

MAX_EARLIER = 10  # of a topic: some 5 kB each, in the newest one's record
MAX_ROWS = 20  # keys and producers of a kept audit


class Load(NamedTuple):
    """What one key or producer has. share: of the topic's bytes."""

    name: str
    records: int
    bytes: int
    share: float


class AuditSummary(NamedTuple):
    """An audit as it is compared. uneven_*: the fullest partition over the mean.

    generated_at, starts_at, ends_at: RFC 3339.  useful: partitions, at most; None: no limit, or
    not known.  keys: the heaviest.
    """

    topic: str
    generated_at: str
    starts_at: str
    ends_at: str
    records: int
    bytes: int
    partitions: int
    distinct_keys: int | None
    useful: int | None
    uneven_records: float
    uneven_bytes: float
    diagnoses: tuple[str, ...]
    keys: tuple[Load, ...]
    producers: tuple[Load, ...]

    @property
    def uneven(self) -> float:
        """By what is more uneven."""
        return max(self.uneven_bytes, self.uneven_records)

    @property
    def seconds(self) -> float:
        """Of the window; 0 if its times cannot be read."""
        try:
            begin, end = map(datetime.fromisoformat, (self.starts_at, self.ends_at))
            return max(0.0, (end - begin).total_seconds())
        except (ValueError, TypeError):
            return 0.0


def summary_of(document: Json) -> AuditSummary | None:
    """None: another release has written it, and in another way."""
    try:
        window = _object(document["window"])
        total = _count(document["bytes"])
        diagnoses = document["diagnoses"]
        return AuditSummary(
            str(document["topic"]),
            str(document.get("generated_at") or ""),
            str(window.get("from") or ""),
            str(window["to"]),
            _count(document["records"]),
            total,
            _count(document["partitions"]),
            _count_or_none(document.get("distinct_keys")),
            _count_or_none(document["max_useful_partitions"]),
            _number(_object(document["by_records"])["max_over_mean"]),
            _number(_object(document["by_bytes"])["max_over_mean"]),
            tuple(map(str, diagnoses if isinstance(diagnoses, list) else ())),
            _loads(document.get("top_keys"), "key", total),
            _loads(document.get("producers"), "producer", total),
        )
    except (KeyError, TypeError):
        return None


def _object(value: object) -> Json:
    if not isinstance(value, Mapping):
        raise TypeError(value)
    return value


def _number(value: object) -> float:
    # Python's own reader of JSON takes Infinity and NaN for numbers
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError(value)
    return float(value)


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError(value)


def _count_or_none(value: object) -> int | None:
    return None if value is None else _count(value)


def _loads(rows: object, name: str, total: int) -> tuple[Load, ...]:
    """The heaviest first. A key that is not UTF-8 may be shown as another: the heavier counts."""
    read = [_load(_object(row), name, total) for row in (rows if isinstance(rows, list) else ())]
    read.sort(key=lambda one: -one.bytes)
    return tuple({one.name: one for one in reversed(read[:MAX_ROWS])}.values())[::-1]


def _load(row: Json, name: str, total: int) -> Load:
    size = _count(row["bytes"])
    who = row[name]
    share = size / total if total else 0.0
    return Load("" if who is None else str(who), _count(row["records"]), size, share)


def kept(one: AuditSummary) -> dict[str, object]:
    """As a document, which `summary_of` reads again."""
    return {
        "topic": one.topic,
        "generated_at": one.generated_at,
        "window": {"from": one.starts_at, "to": one.ends_at},
        "records": one.records,
        "bytes": one.bytes,
        "partitions": one.partitions,
        "distinct_keys": one.distinct_keys,
        "max_useful_partitions": one.useful,
        "by_records": {"max_over_mean": one.uneven_records},
        "by_bytes": {"max_over_mean": one.uneven_bytes},
        "diagnoses": list(one.diagnoses),
        "top_keys": [_row("key", load.name, load) for load in one.keys],
        "producers": [_row("producer", load.name or None, load) for load in one.producers],
    }


def _row(of: str, name: str | None, load: Load) -> dict[str, object]:
    return {of: name, "records": load.records, "bytes": load.bytes}


def with_earlier(document: Json, published: Json | None) -> dict[str, object]:
    """The document as it is published, with what is kept of those that it comes after.

    published: what it takes the place of.
    """
    earlier = [] if published is None else summaries(published)
    return {**document, "earlier": [kept(one) for one in earlier[:MAX_EARLIER]]}


def summaries(document: Json) -> list[AuditSummary]:
    """Its own, and those of the earlier ones, newest first; without what cannot be read."""
    earlier = document.get("earlier")
    every = [document, *(earlier if isinstance(earlier, list) else ())]
    read = [summary_of(one) for one in every if isinstance(one, Mapping)]
    return [one for one in read if one is not None]
