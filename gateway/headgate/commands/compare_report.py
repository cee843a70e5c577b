"""What `headgate compare` says: figures of both topics, and what was found of their keys."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.commands.output import painted, say, show_table, write
from headgate.core.side_by_side.findings import Finding, Found, findings, keyless_only
from headgate.core.side_by_side.history import Side
from headgate.core.terminal.figures import short
from headgate.core.terminal.style import Ink
from headgate.core.terminal.table import Cell, Column
from headgate.core.times import shown_time

_APART_MS = 60_000  # beginnings that are further apart may be why keys are missing


@dataclass(frozen=True, slots=True)
class Compared:
    """Two topics beside each other. keyless: records without a key that one of them alone has."""

    names: tuple[str, str]
    sides: Sequence[Side]
    found: Mapping[Finding, Found]
    keyless: tuple[int, int]

    @property
    def differs(self) -> bool:
        """Whether consumers would learn something else."""
        return any(self.keyless) or any(finding.is_difference for finding in self.found)

    @property
    def later(self) -> int | None:
        """When the topic begins that begins a minute or more after the other, in ms."""
        firsts = [side.first_ms for side in self.sides if side.first_ms is not None]
        apart = len(firsts) == 2 and max(firsts) - min(firsts) >= _APART_MS
        return max(firsts) if apart else None

    def as_json(self) -> dict[str, Any]:
        """For scripts. Keys that are not UTF-8 have \\xNN in place of such bytes."""
        return {
            "topics": [
                {"topic": name, **{field: value for field, _, value in _figures(side)}}
                for name, side in zip(self.names, self.sides, strict=True)
            ],
            "keys": [
                {
                    "finding": finding.value,
                    "count": found.keys,
                    "difference": finding.is_difference,
                    "judged": finding.is_judged,
                    "examples": [*map(_shown, found.examples)],
                }
                for finding, found in self.found.items()
            ],
            "keyless_in_one_alone": [*self.keyless],
            "differs": self.differs,
        }


def compared(names: tuple[str, str], sides: Sequence[Side], *, has_before: bool) -> Compared:
    """has_before: at least one topic has records before what was read."""
    first, second = sides
    found = findings(first, second, has_before=has_before)
    return Compared(names, sides, found, keyless_only(first, second))


def show(it: Compared) -> None:
    """Print it for people."""
    first, second = (_figures(side) for side in it.sides)
    columns = [Column(""), *(Column(name, right=True) for name in it.names)]
    rows = zip(first, second, strict=True)
    show_table(columns, ([title, _text(a), _text(b)] for (_, title, a), (_, _, b) in rows))
    say("")
    titles = (Column("keys"), Column("count", right=True), Column("for example"))
    show_table(titles, _found(it.found.items()))
    if any(it.keyless):
        first_only, second_only = it.keyless
        say("")
        say(f"without a key: {first_only} only in the first, {second_only} only in the second")
    if it.later is not None and it.differs:
        say("")
        say(f"One topic begins later: --from {_time(it.later)} compares from there on.")
    write(f"\n{_verdict(it)}")


def _figures(side: Side) -> Iterator[tuple[str, str, int | str | None]]:
    """Field, title, value."""
    yield "records", "records", side.records
    yield "value_bytes", "value bytes", side.value_bytes
    yield "keys", "keys", len(side.keys)
    yield "repeats", "repeats of a content", side.repeats
    yield "tombstones", "tombstones", side.tombstones
    yield "keyless", "without a key", side.keyless.total()
    yield "first", "first record", _time(side.first_ms)
    yield "last", "last record", _time(side.last_ms)


def _found(found: Iterable[tuple[Finding, Found]]) -> Iterator[list[str | Cell]]:
    for finding, (keys, examples) in found:
        ink = Ink.BAD if finding.is_difference else Ink.GOOD if finding.is_judged else Ink.WARNING
        mark = "" if finding.is_judged else " (not judged)"
        named = ", ".join(map(_shown, examples)) if ink is not Ink.GOOD else ""
        yield [Cell(f"{finding.value}{mark}", ink), short(keys), named]


def _verdict(it: Compared) -> str:
    if it.differs:
        return painted("They differ.", Ink.BAD)
    records = [side.records for side in it.sides]
    saved = f", with {records[1]} records instead of {records[0]}" if records[0] else ""
    is_judged = any(finding.is_judged for finding in it.found)
    if not is_judged and not any(side.keyless for side in it.sides):
        return painted("Nothing could be judged.", Ink.WARNING)
    return painted(f"No differences: a consumer learns the same{saved}.", Ink.GOOD)


def _text(value: int | str | None) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else value


def _shown(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")


def _time(ms: int | None) -> str | None:
    return None if ms is None else shown_time(ms)
