"""Published results of skew audits: what is kept of earlier ones, changes and comparisons.

A kept audit is the published document with fewer names, so that both are read alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import NamedTuple

Json = Mapping[str, object]

SKEW_TOPIC = "headgate.skew"  # compacted: one record a topic
MAX_EARLIER = 10  # of a topic: some 5 kB each, in the newest one's record
MAX_ROWS = 20  # keys and producers of a kept audit


class Load(NamedTuple):
    """Load of one key or producer. share: of the topic's bytes."""

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
        """Return the larger of the two unevennesses."""
        return max(self.uneven_bytes, self.uneven_records)

    @property
    def seconds(self) -> float:
        """Return the length of the window; 0 if its times cannot be read."""
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
    """Return the summary as a document, which `summary_of` reads again."""
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


# What became of topics since an earlier audit, in a word; and which two audits are compared.


# Of the fullest partition over the mean: less than that is another hour's traffic.
NOTABLE = 1.1
MAX_TIMES = 30  # of earlier audits to choose from

Audits = Sequence[AuditSummary]  # of a topic, newest first


class Change(StrEnum):
    """Change of a topic. NEW: there is no earlier audit.  GONE: it was not audited since."""

    WORSE = "worse"
    NEW = "new"
    GONE = "gone"
    BETTER = "better"
    SAME = "same"


def change(before: AuditSummary, after: AuditSummary) -> Change:
    """Diagnoses count; how uneven the partitions are, where those say nothing."""
    came = set(after.diagnoses) - set(before.diagnoses)
    went = set(before.diagnoses) - set(after.diagnoses)
    if came and not went:
        return Change.WORSE
    if went and not came:
        return Change.BETTER
    if after.uneven > NOTABLE * before.uneven:
        return Change.WORSE
    return Change.BETTER if before.uneven > NOTABLE * after.uneven else Change.SAME


def changes(audits: Mapping[str, Audits], since: str | None = None) -> dict[str, Change]:
    """Return the change of each topic. since: when the earlier audit was made, or a time after it;
    None: each topic's one before the newest."""
    return {topic: _change_of(found, since) for topic, found in audits.items() if found}


def _change_of(audits: Audits, since: str | None) -> Change:
    newest, *earlier = audits
    if since is not None:
        if newest.generated_at <= since:
            return Change.GONE
        earlier = [one for one in earlier if one.generated_at <= since]
    return change(earlier[0], newest) if earlier else Change.NEW


def times(audits: Iterable[Audits]) -> list[str]:
    """Return the times of earlier audits, newest first: the values of `since`."""
    made = {one.generated_at for found in audits for one in found}
    return sorted(made, reverse=True)[1 : MAX_TIMES + 1]


def chosen(
    audits: Audits, before: str | None, after: str | None
) -> tuple[AuditSummary, AuditSummary] | None:
    """The two that were made then; without times the newest and the one before it.

    None: there is no such audit, or only one.
    """
    made = {one.generated_at: one for one in reversed(audits)}
    later = audits[0] if after is None and audits else made.get(after or "")
    if before is not None or later is None:
        earlier = made.get(before or "")
    else:
        earlier = next((one for one in audits if one.generated_at < later.generated_at), None)
    return None if earlier is None or later is None else (earlier, later)


# What differs between two skew audits: of one topic at two times, or of two topics.


class Figure(NamedTuple):
    """One figure of both. None: not known, or without a limit."""

    name: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float | None:
        """None where one of them is not known."""
        if self.before is None or self.after is None:
            return None
        return self.after - self.before

    @property
    def ratio(self) -> float | None:
        """Return after over before; None if that is meaningless."""
        if self.before is None or self.after is None or self.before <= 0:
            return None
        return self.after / self.before


class Row(NamedTuple):
    """A key's or producer's share of the bytes. None: it is not among the heaviest there."""

    name: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float:
        """Return the difference; a load that is not among the heaviest counts as 0."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def change(self) -> str:
        """new, gone, more, less or same."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "gone"
        if self.difference == 0:
            return "same"
        return "more" if self.difference > 0 else "less"


class Comparison(NamedTuple):
    """came, went, stayed: diagnoses.  keys, producers: the largest change first."""

    figures: tuple[Figure, ...]
    came: tuple[str, ...]
    went: tuple[str, ...]
    stayed: tuple[str, ...]
    keys: tuple[Row, ...]
    producers: tuple[Row, ...]

    @property
    def is_same(self) -> bool:
        """Return whether nothing differs."""
        return (
            all(one.before == one.after for one in self.figures)
            and not self.came
            and not self.went
            and all(one.change == "same" for one in (*self.keys, *self.producers))
        )


def compare(before: AuditSummary, after: AuditSummary) -> Comparison:
    """Compare two audits: `after` against `before`."""
    pairs = zip(_figures(before), _figures(after), strict=True)
    return Comparison(
        tuple(Figure(name, one, other) for (name, one), (_, other) in pairs),
        _without(after.diagnoses, before.diagnoses),
        _without(before.diagnoses, after.diagnoses),
        tuple(one for one in after.diagnoses if one in before.diagnoses),
        _rows(before.keys, after.keys),
        _rows(before.producers, after.producers),
    )


def _figures(one: AuditSummary) -> list[tuple[str, float | None]]:
    """Rates as well: windows may differ in length."""
    seconds = one.seconds
    return [
        ("records", one.records),
        ("records_per_s", one.records / seconds if seconds else None),
        ("bytes", one.bytes),
        ("bytes_per_s", one.bytes / seconds if seconds else None),
        ("distinct_keys", one.distinct_keys),
        ("partitions", one.partitions),
        ("useful_partitions", one.useful),
        ("uneven_bytes", one.uneven_bytes),
        ("uneven_records", one.uneven_records),
    ]


def _without(some: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(one for one in some if one not in others)


def _rows(before: Sequence[Load], after: Sequence[Load]) -> tuple[Row, ...]:
    was, is_now = ({one.name: one.share for one in side} for side in (before, after))
    rows = [Row(name, was.get(name), is_now.get(name)) for name in sorted({*was, *is_now})]
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference), row.name)))
