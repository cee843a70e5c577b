"""The three tables of `headgate top`, their order, and the screen as lines. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from headgate.commands.terminal import Cell, Column, Ink, Style, cut, duration, share, short, table
from headgate.model.text import counted
from headgate.top.readings import (
    GROUP_COLUMNS,
    Flow,
    GroupRow,
    Health,
    Json,
    ProducerPage,
    Reading,
    TopicPage,
    View,
    flows,
    growth,
)

_MANY_UNCHANGED = 0.5


class Sort(StrEnum):
    """The order of rows: the largest first, names from A on. WORST is the monitor's order."""

    RATE = "rate"
    BYTES = "bytes"
    REJECTS = "rejects"
    UNCHANGED = "unchanged"
    NAME = "name"
    WORST = "worst"


SORTS: Mapping[View, Sequence[Sort]] = {
    View.PRODUCERS: (Sort.RATE, Sort.BYTES, Sort.REJECTS, Sort.UNCHANGED, Sort.NAME),
    View.TOPICS: (Sort.RATE, Sort.BYTES, Sort.REJECTS, Sort.UNCHANGED, Sort.NAME),
    View.GROUPS: (Sort.WORST, Sort.RATE, Sort.REJECTS, Sort.NAME),
}
# For groups, RATE is the growth of the lag and REJECTS the number of regressions.
_SORTED_COLUMNS: Mapping[View, Mapping[Sort, str]] = {
    View.PRODUCERS: {
        Sort.RATE: "events/s", Sort.BYTES: "bytes/s", Sort.REJECTS: "rejects/s",
        Sort.UNCHANGED: "unchanged", Sort.NAME: "producer",
    },
    View.TOPICS: {
        Sort.RATE: "events/s", Sort.BYTES: "bytes/s", Sort.REJECTS: "rejects/s",
        Sort.UNCHANGED: "unchanged", Sort.NAME: "topic",
    },
    View.GROUPS: {
        Sort.WORST: "state", Sort.RATE: "lag/s", Sort.REJECTS: "remarks", Sort.NAME: "group"
    },
}  # fmt: skip
_FLOW = (
    Column("events/s", right=True),
    Column("bytes/s", right=True),
    Column("unchanged", right=True),
    Column("rejects/s", right=True),
    Column("saved/s", right=True),
)
_COLUMNS: Mapping[View, Sequence[Column]] = {
    View.PRODUCERS: (
        Column("producer", gives_way=True), *_FLOW, Column("topics", right=True), Column("seen"),
    ),
    View.TOPICS: (
        Column("topic", gives_way=True), *_FLOW, Column("hottest", right=True), Column("remarks"),
    ),
    View.GROUPS: (*GROUP_COLUMNS[:4], Column("lag/s", right=True), *GROUP_COLUMNS[4:]),
}  # fmt: skip


class Listing(NamedTuple):
    """A sorted table."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]


def listing(readings: Sequence[Reading], sort: Sort, now: datetime) -> Listing:
    """Return the table of the newest reading; `now` may be in any zone."""
    newest = readings[-1]
    view, title = newest.view, _SORTED_COLUMNS[newest.view].get(sort)
    columns = [
        column._replace(ink=Ink.CHOSEN) if column.title == title else column
        for column in _COLUMNS[view]
    ]
    names = sorted_names(readings, sort)
    if view is View.GROUPS:
        grown = growth(readings)
        return Listing(columns, [_group(newest.groups[name], grown.get(name)) for name in names])
    flowing = flows(readings)
    if view is View.TOPICS:
        return Listing(columns, [_topic(newest.topics[name], flowing[name]) for name in names])
    rows = newest.producers
    return Listing(columns, [_producer(rows[name], flowing[name], now) for name in names])


def sorted_names(readings: Sequence[Reading], sort: Sort) -> list[str]:
    """Return the sorted names of the newest reading's rows, unknown values last."""
    newest = readings[-1]
    if sort is Sort.WORST:
        return newest.names
    names = sorted(newest.names)
    if sort is Sort.NAME:
        return names
    measure = _measure(readings, sort)
    return sorted(names, key=measure, reverse=True)


def json_rows(readings: Sequence[Reading], sort: Sort) -> list[Json]:
    """Return the rows for machines, with unrounded figures per second."""
    newest, view = readings[-1], readings[-1].view
    names = sorted_names(readings, sort)
    if view is View.GROUPS:
        grown = growth(readings)
        return [{**newest.groups[name].given, "lag_per_s": grown.get(name)} for name in names]
    flowing = flows(readings)
    return [{view.value[:-1]: name, **flowing[name]._asdict()} for name in names]


def total(readings: Sequence[Reading]) -> Flow:
    """Return the rates of all rows together."""
    row_flows = list(flows(readings).values())
    ends = [(flow.unchanged, flow.events_per_s) for flow in row_flows]
    weighed = [(part, rate) for part, rate in ends if part is not None and rate]
    events = sum(rate for _, rate in weighed)
    return Flow(
        _sum(flow.events_per_s for flow in row_flows),
        _sum(flow.bytes_per_s for flow in row_flows),
        _sum(flow.saved_per_s for flow in row_flows),
        _sum(flow.refused_per_s for flow in row_flows),
        sum(part * rate for part, rate in weighed) / events if events else None,
    )


def _measure(readings: Sequence[Reading], sort: Sort) -> Callable[[str], float]:
    newest = readings[-1]
    if newest.view is View.GROUPS:
        if sort is Sort.REJECTS:
            return lambda name: float(newest.groups[name].page.regressions)
        grown = growth(readings)
        return lambda name: grown.get(name, -1e300)
    flowing = flows(readings)
    member = {
        Sort.RATE: "events_per_s",
        Sort.BYTES: "bytes_per_s",
        Sort.REJECTS: "refused_per_s",
        Sort.UNCHANGED: "unchanged",
    }[sort]

    def measured(name: str) -> float:
        value: float | None = getattr(flowing[name], member)
        return -1.0 if value is None else value

    return measured


def _sum(rates: Any) -> float | None:
    values = [rate for rate in rates if rate is not None]
    return sum(values) if values else None


def _producer(page: ProducerPage, flow: Flow, now: datetime) -> list[Cell]:
    return [
        Cell(page.producer),
        *_flowing(flow),
        Cell(str(len(page.topics))),
        Cell(_since(page.last_seen, now)),
    ]


def _topic(page: TopicPage, flow: Flow) -> list[Cell]:
    hottest = share(page.skew.hottest_partition_share if page.skew.judged else None)
    remarks, suppression, held = list[str](), page.suppression, page.held
    if suppression is not None and suppression.state in ("quarantine", "away"):
        remarks.append(f"suppression: {suppression.state}")
    if held is not None and held.keys:
        remarks.append(f"{counted(held.keys, 'key')} held")
    return [Cell(page.topic), *_flowing(flow), Cell(hottest), Cell(", ".join(remarks), Ink.WARNING)]


def _flowing(flow: Flow) -> list[Cell]:
    rejects = Ink.BAD if flow.refused_per_s else Ink.PLAIN
    many = flow.unchanged is not None and flow.unchanged >= _MANY_UNCHANGED
    return [
        Cell(short(flow.events_per_s)),
        Cell(short(flow.bytes_per_s, "B")),
        Cell(share(flow.unchanged), Ink.WARNING if many else Ink.PLAIN),
        Cell(short(flow.refused_per_s), rejects),
        Cell(short(flow.saved_per_s, "B")),
    ]


def _group(row: GroupRow, per_s: float | None) -> list[Cell]:
    cells = row.cells
    ink = Ink.WARNING if per_s is not None and per_s > 0 else Ink.PLAIN
    return [*cells[:4], Cell(short(per_s), ink), *cells[4:]]


def _since(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "never"
    return f"{duration(max(0.0, (now - at).total_seconds()))} ago"


# ---- the screen as lines

VIEW_KEYS = {"p": View.PRODUCERS, "t": View.TOPICS, "g": View.GROUPS}
SORT_KEYS = {
    "r": Sort.RATE,
    "b": Sort.BYTES,
    "x": Sort.REJECTS,
    "u": Sort.UNCHANGED,
    "n": Sort.NAME,
    "w": Sort.WORST,
}
_AROUND = 5  # lines besides rows: two of the head, one empty, the titles, the keys
_MAX_NOTES = 4


class Trouble(NamedTuple):
    """The reason why there is no new reading, and its beginning."""

    text: str
    since_s: float
    since: datetime


class Shown(NamedTuple):
    """The content of the screen.

    Attributes:
        url: URL of the gateway.
        view: The listed objects.
        sort: Their order.
        interval_s: Time between two polls, in seconds.
        readings: Readings of the view, the newest last; empty before the first.
        at: Time of the newest reading.
        trouble: The current trouble, if any.
        first: Number of the first row on the screen.
    """

    url: str
    view: View
    sort: Sort
    interval_s: float
    readings: Sequence[Reading]
    at: datetime | None
    trouble: Trouble | None
    first: int


class Room(NamedTuple):
    """The terminal's current size."""

    columns: int
    rows: int


def rows_in(shown: Shown, room: Room) -> int:
    """Return the number of rows that fit on the screen; at least one."""
    return max(1, room.rows - _AROUND - len(_notes(shown, room)))


def frame(shown: Shown, room: Room, style: Style, now: datetime, now_s: float) -> list[str]:
    """Return the lines of the screen, cut to its size; `now_s` is of the clock of `Trouble`."""
    lines = [*_head(shown, room, style, now_s), "", *_body(shown, room, style, now)]
    room_left = max(0, room.rows - 1)
    below = [""] * (room_left - len(lines))
    return [*lines[:room_left], *below, _keys(shown, room, style)]


def _head(shown: Shown, room: Room, style: Style, now_s: float) -> Iterator[str]:
    clock = "" if shown.at is None else f"  {shown.at:%H:%M:%S}"
    what = f"{shown.view} by {shown.sort}, every {shown.interval_s:g} s"
    text = f"headgate top{clock}  {what}  {shown.url}"
    yield style.paint(cut(text, room.columns), Ink.HEAD)
    if shown.trouble is not None:
        silent = duration(now_s - shown.trouble.since_s)
        head = f"since {shown.trouble.since:%H:%M:%S} ({silent}): {shown.trouble.text}"
        yield style.paint(cut(head, room.columns), Ink.BAD)
    elif not shown.readings:
        yield "asking..."
    else:
        text, ink = _summary(shown.readings)
        if shown.first:
            text = f"from row {shown.first + 1} on, {text}"
        yield style.paint(cut(text, room.columns), ink)


def _summary(readings: Sequence[Reading]) -> tuple[str, Ink]:
    newest = readings[-1]
    status, ink = _status(newest.health)
    parts = [status, counted(len(newest.names), newest.view.value[:-1])]
    if newest.view is not View.GROUPS:
        flow = total(readings)
        parts += [
            f"{short(flow.events_per_s)} events/s",
            f"{short(flow.bytes_per_s, 'B')}/s",
            f"{share(flow.unchanged)} unchanged",
            f"{short(flow.refused_per_s)} rejects/s",
        ]
    return ", ".join(parts), ink


def _status(health: Health) -> tuple[str, Ink]:
    """Return the status of /ready with its problems, and its colour."""
    status, workers = health.status, health.workers
    wrong = [
        f"{name}: {dependency.detail}"
        for name, dependency in health.dependencies.items()
        if not dependency.ok
    ]
    if workers is not None and workers.up < workers.wanted:
        wrong.append(f"{workers.up} of {counted(workers.wanted, 'worker')}")
    text = f"{status} ({'; '.join(wrong)})" if wrong else status
    if status in ("ready", "degraded"):
        return text, Ink.WARNING if wrong else Ink.PLAIN
    return text, Ink.BAD


def _body(shown: Shown, room: Room, style: Style, now: datetime) -> Iterator[str]:
    if not shown.readings:
        return
    content = listing(shown.readings, shown.sort, now)
    rows = content.rows[shown.first : shown.first + rows_in(shown, room)]
    yield from table(content.columns, rows, style, room.columns)
    for line in _notes(shown, room):
        yield style.paint(cut(line, room.columns), Ink.WARNING)


def _notes(shown: Shown, room: Room) -> Sequence[str]:
    """Return the notes below the rows: at most a third of the screen if space is short."""
    if not shown.readings:
        return ()
    newest, free = shown.readings[-1], room.rows - _AROUND
    said = newest.notes[:_MAX_NOTES]
    return said if len(newest.names) + len(said) <= free else said[: max(0, free // 3)]


def _keys(shown: Shown, room: Room, style: Style) -> str:
    """Return the keys of this view, as many as fit."""
    sorts = {key: sort for key, sort in SORT_KEYS.items() if sort in SORTS[shown.view]}
    texts, free = list[str](), room.columns
    for key, name in {"q": "quit", **VIEW_KEYS, **sorts}.items():
        text = f"{key} {name}"
        free -= len(text) + bool(texts)
        if free < 0:
            break
        is_chosen = name in (shown.view, shown.sort)
        texts.append(style.paint(text, Ink.CHOSEN if is_chosen else Ink.FAINT))
    return " ".join(texts)
