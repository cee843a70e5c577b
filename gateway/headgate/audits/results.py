"""Published results of skew audits: summaries of earlier ones, changes and comparisons.

A summary is stored as a published document with fewer names, so that both are read alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import NamedTuple

Json = Mapping[str, object]

SKEW_TOPIC = "headgate.skew"  # compacted: one record per topic
MAX_EARLIER = 10  # per topic: some 5 kB each, in the newest one's record
MAX_ROWS = 20  # keys and producers of a kept audit


class NamedLoad(NamedTuple):
    """The load of one key or producer, with its share of the topic's bytes."""

    name: str
    records: int
    bytes: int
    share: float


class AuditSummary(NamedTuple):
    """An audit, reduced to the figures of comparisons.

    Attributes:
        generated_at: Time of the audit, as RFC 3339.
        starts_at: Beginning of the window, as RFC 3339.
        ends_at: End of the window, as RFC 3339.
        useful_partitions: Highest useful number of partitions; None if it is unlimited or unknown.
        uneven_records: The fullest partition's records over the mean.
        uneven_bytes: The fullest partition's bytes over the mean.
        keys: The heaviest keys.
        producers: The heaviest producers.
    """

    topic: str
    generated_at: str
    starts_at: str
    ends_at: str
    records: int
    bytes: int
    partitions: int
    distinct_keys: int | None
    useful_partitions: int | None
    uneven_records: float
    uneven_bytes: float
    diagnoses: tuple[str, ...]
    keys: tuple[NamedLoad, ...]
    producers: tuple[NamedLoad, ...]

    @property
    def unevenness(self) -> float:
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
    """Return the summary of a document; None if another release wrote it in another format."""
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
    # Python's own JSON parser accepts Infinity and NaN
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError(value)
    return float(value)


def _count(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError(value)


def _count_or_none(value: object) -> int | None:
    return None if value is None else _count(value)


def _loads(rows: object, name: str, total: int) -> tuple[NamedLoad, ...]:
    """Return the heaviest loads first.

    Two keys that are not UTF-8 may have the same text: the heavier one counts.
    """
    read = [_load(_object(row), name, total) for row in (rows if isinstance(rows, list) else ())]
    read.sort(key=lambda load: -load.bytes)
    return tuple({load.name: load for load in reversed(read[:MAX_ROWS])}.values())[::-1]


def _load(row: Json, name: str, total: int) -> NamedLoad:
    size = _count(row["bytes"])
    owner = row[name]
    share = size / total if total else 0.0
    return NamedLoad("" if owner is None else str(owner), _count(row["records"]), size, share)


def summary_document(audit: AuditSummary) -> dict[str, object]:
    """Return the summary as a document, which `summary_of` reads again."""
    return {
        "topic": audit.topic,
        "generated_at": audit.generated_at,
        "window": {"from": audit.starts_at, "to": audit.ends_at},
        "records": audit.records,
        "bytes": audit.bytes,
        "partitions": audit.partitions,
        "distinct_keys": audit.distinct_keys,
        "max_useful_partitions": audit.useful_partitions,
        "by_records": {"max_over_mean": audit.uneven_records},
        "by_bytes": {"max_over_mean": audit.uneven_bytes},
        "diagnoses": list(audit.diagnoses),
        "top_keys": [_row("key", load.name, load) for load in audit.keys],
        "producers": [_row("producer", load.name or None, load) for load in audit.producers],
    }


def _row(of: str, name: str | None, load: NamedLoad) -> dict[str, object]:
    return {of: name, "records": load.records, "bytes": load.bytes}


def with_earlier(document: Json, published: Json | None) -> dict[str, object]:
    """Return the document for publication, with summaries of earlier audits.

    Args:
        document: The new audit.
        published: The published document that it replaces, if any.
    """
    earlier = [] if published is None else summaries(published)
    return {**document, "earlier": [summary_document(summary) for summary in earlier[:MAX_EARLIER]]}


def summaries(document: Json) -> list[AuditSummary]:
    """Return the summaries of a document and its earlier audits, newest first.

    Audits that cannot be read are skipped.
    """
    earlier = document.get("earlier")
    every = [document, *(earlier if isinstance(earlier, list) else ())]
    read = [summary_of(audit) for audit in every if isinstance(audit, Mapping)]
    return [audit for audit in read if audit is not None]


# ---- changes since an earlier audit, and the choice of two audits to compare

# Least notable change of the unevenness: a smaller one is normal variation of traffic.
NOTABLE = 1.1
MAX_EARLIER_TIMES = 30  # earlier audits to choose from

Audits = Sequence[AuditSummary]  # one topic's audits, newest first


class TopicChange(StrEnum):
    """The change of a topic. NEW: there is no earlier audit.  GONE: it was not audited since."""

    WORSE = "worse"
    NEW = "new"
    GONE = "gone"
    BETTER = "better"
    SAME = "same"


def topic_change(before: AuditSummary, after: AuditSummary) -> TopicChange:
    """Return the change by diagnoses or, if those are equal, by the unevenness of partitions."""
    came = set(after.diagnoses) - set(before.diagnoses)
    went = set(before.diagnoses) - set(after.diagnoses)
    if came and not went:
        return TopicChange.WORSE
    if went and not came:
        return TopicChange.BETTER
    if after.unevenness > NOTABLE * before.unevenness:
        return TopicChange.WORSE
    return (
        TopicChange.BETTER if before.unevenness > NOTABLE * after.unevenness else TopicChange.SAME
    )


def topic_changes(audits: Mapping[str, Audits], since: str | None = None) -> dict[str, TopicChange]:
    """Return the change of each topic.

    Args:
        audits: Audits by topic.
        since: Time of the earlier audit, or a time after it; None for the last but one of each
            topic.
    """
    return {
        topic: _change_since(topic_audits, since)
        for topic, topic_audits in audits.items()
        if topic_audits
    }


def _change_since(audits: Audits, since: str | None) -> TopicChange:
    newest, *earlier = audits
    if since is not None:
        if newest.generated_at <= since:
            return TopicChange.GONE
        earlier = [audit for audit in earlier if audit.generated_at <= since]
    return topic_change(earlier[0], newest) if earlier else TopicChange.NEW


def earlier_times(audits: Iterable[Audits]) -> list[str]:
    """Return the times of earlier audits, newest first: the values of `since`."""
    made = {audit.generated_at for topic_audits in audits for audit in topic_audits}
    return sorted(made, reverse=True)[1 : MAX_EARLIER_TIMES + 1]


def choose_pair(
    audits: Audits, before: str | None, after: str | None
) -> tuple[AuditSummary, AuditSummary] | None:
    """Return the audits of these times, or without times the newest two.

    None means that there is no such audit, or only one.
    """
    made = {audit.generated_at: audit for audit in reversed(audits)}
    later = audits[0] if after is None and audits else made.get(after or "")
    if before is not None or later is None:
        earlier = made.get(before or "")
    else:
        earlier = next((audit for audit in audits if audit.generated_at < later.generated_at), None)
    return None if earlier is None or later is None else (earlier, later)


# ---- comparison of two audits: of one topic at two times, or of two topics


class Figure(NamedTuple):
    """One figure of both audits; None if it is unknown or unlimited."""

    name: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float | None:
        """Return the difference; None if a figure is unknown."""
        if self.before is None or self.after is None:
            return None
        return self.after - self.before

    @property
    def ratio(self) -> float | None:
        """Return after over before; None if that is meaningless."""
        if self.before is None or self.after is None or self.before <= 0:
            return None
        return self.after / self.before


class LoadChange(NamedTuple):
    """A key's or producer's share of the bytes; None if it is not among the heaviest."""

    name: str
    before: float | None
    after: float | None

    @property
    def difference(self) -> float:
        """Return the difference; a load that is not among the heaviest counts as 0."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def kind(self) -> str:
        """Return new, gone, more, less or same."""
        if self.before is None:
            return "new"
        if self.after is None:
            return "gone"
        if self.difference == 0:
            return "same"
        return "more" if self.difference > 0 else "less"


class Comparison(NamedTuple):
    """The differences of two audits.

    Attributes:
        came: New diagnoses.
        went: Former diagnoses.
        stayed: Diagnoses of both.
        keys: Keys, the largest change first.
        producers: Producers, the largest change first.
    """

    figures: tuple[Figure, ...]
    came: tuple[str, ...]
    went: tuple[str, ...]
    stayed: tuple[str, ...]
    keys: tuple[LoadChange, ...]
    producers: tuple[LoadChange, ...]

    @property
    def is_same(self) -> bool:
        """Return whether nothing differs."""
        return (
            all(each.before == each.after for each in self.figures)
            and not self.came
            and not self.went
            and all(each.kind == "same" for each in (*self.keys, *self.producers))
        )


def compare(before: AuditSummary, after: AuditSummary) -> Comparison:
    """Compare two audits: `after` against `before`."""
    pairs = zip(_figures(before), _figures(after), strict=True)
    return Comparison(
        tuple(Figure(name, first, second) for (name, first), (_, second) in pairs),
        _without(after.diagnoses, before.diagnoses),
        _without(before.diagnoses, after.diagnoses),
        tuple(name for name in after.diagnoses if name in before.diagnoses),
        _load_changes(before.keys, after.keys),
        _load_changes(before.producers, after.producers),
    )


def _figures(audit: AuditSummary) -> list[tuple[str, float | None]]:
    """Return the figures; also rates, because windows may differ in length."""
    seconds = audit.seconds
    return [
        ("records", audit.records),
        ("records_per_s", audit.records / seconds if seconds else None),
        ("bytes", audit.bytes),
        ("bytes_per_s", audit.bytes / seconds if seconds else None),
        ("distinct_keys", audit.distinct_keys),
        ("partitions", audit.partitions),
        ("useful_partitions", audit.useful_partitions),
        ("uneven_bytes", audit.uneven_bytes),
        ("uneven_records", audit.uneven_records),
    ]


def _without(some: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(each for each in some if each not in others)


def _load_changes(
    before: Sequence[NamedLoad], after: Sequence[NamedLoad]
) -> tuple[LoadChange, ...]:
    shares_before, shares_after = (
        {load.name: load.share for load in side} for side in (before, after)
    )
    rows = [
        LoadChange(name, shares_before.get(name), shares_after.get(name))
        for name in sorted({*shares_before, *shares_after})
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference), row.name)))
