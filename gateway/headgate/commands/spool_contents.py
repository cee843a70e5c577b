"""What `headgate spool list` prints of a spool."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from headgate.commands.output import say, show_table
from headgate.core.terminal.figures import counted
from headgate.core.terminal.table import Column
from headgate.spool.place import kept_in
from headgate.spool.reading import Aside, Gap, LaneFigures, Reader

_COLUMNS = (
    Column("topic"), Column("partition", right=True), Column("events", right=True),
    Column("bytes", right=True), Column("oldest", right=True),
)  # fmt: skip


class Listed(NamedTuple):
    """A spool as far as it can be read. missing: chunks that are lost, by topic and partition."""

    lanes: Sequence[LaneFigures]
    aside: Sequence[Aside]
    gaps: Sequence[Gap]
    missing: Sequence[tuple[str, int]]
    kept: Sequence[Path]


def read_listed(folder: Path) -> Listed:
    """Raises JournalError."""
    reader, kept = Reader(folder), [folder / name for name in kept_in(folder)]
    try:
        return Listed(reader.lanes(), reader.aside(), reader.gaps, reader.missing, kept)
    finally:
        reader.close()


def show_listed(found: Listed) -> None:
    """Print it for people."""
    if found.lanes:
        _show_lanes(found.lanes)
    elif not found.aside and not found.gaps:
        say("empty: nothing waits, and nothing was set aside")
    for each in found.aside:
        where = f"{each.topic}-{each.partition}"
        since = moment(each.oldest_ms)
        say(f"aside   {each.events} of {where}, from {since} on: {each.reason}")
    tell_damage(found.gaps, found.missing, say)
    for path in found.kept:
        say(f"kept    {path}: a damaged file; `headgate spool export` shows what can be read of it")


def as_json(found: Listed) -> dict[str, Any]:
    """The same for machines."""
    return {
        "waiting": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "events": one.events,
                "bytes": one.bytes,
                "oldest": moment(one.oldest_ms),
            }
            for one in found.lanes
        ],
        "aside": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "events": one.events,
                "oldest": moment(one.oldest_ms),
                "reason": one.reason,
            }
            for one in found.aside
        ],
        "damaged": [gap._asdict() for gap in found.gaps],
        "lost": [
            {"topic": topic, "partition": partition, "chunks": chunks}
            for (topic, partition), chunks in sorted(Counter(found.missing).items())
        ],
        "kept": [str(path) for path in found.kept],
    }


def tell_damage(
    gaps: Sequence[Gap], missing: Sequence[tuple[str, int]], tell: Callable[[str], None]
) -> None:
    """What cannot be read, a line each."""
    for gap in gaps:
        last = "the end" if gap.last is None else f"{gap.last}"
        tell(f"damaged {gap.table}: numbers {gap.first} to {last} cannot be read")
    for (topic, partition), chunks in sorted(Counter(missing).items()):
        tell(f"lost    {counted(chunks, 'chunk')} (of 1 to 500 events) of {topic}-{partition}")


def moment(ms: int) -> str:
    """RFC 3339 in UTC, seconds."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _show_lanes(lanes: Sequence[LaneFigures]) -> None:
    rows = [
        (one.topic, str(one.partition), f"{one.events:,}", f"{one.bytes:,}", moment(one.oldest_ms))
        for one in lanes
    ]
    events, size = sum(one.events for one in lanes), sum(one.bytes for one in lanes)
    show_table(_COLUMNS, [*rows, ("all", "", f"{events:,}", f"{size:,}", "")])
