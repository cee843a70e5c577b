"""What differs between two skew audits: of one topic at two times, or of two topics."""

from collections.abc import Sequence
from typing import NamedTuple

from headgate.core.skew_audits.summary import AuditSummary, Load


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
        """After over before; None where that says nothing."""
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
        """What is not among the heaviest counts as nothing."""
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
        """Whether nothing differs."""
        return (
            all(one.before == one.after for one in self.figures)
            and not self.came
            and not self.went
            and all(one.change == "same" for one in (*self.keys, *self.producers))
        )


def compare(before: AuditSummary, after: AuditSummary) -> Comparison:
    """What became of `before`."""
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
