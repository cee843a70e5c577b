"""Polls of the management port, rates between polls, and groups as lines. Pure.

The pages declare only the fields that `headgate top` needs. A response that lacks one is odd.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, TypeVar

from msgspec import Meta, Struct, ValidationError, convert

from headgate.commands.terminal import PLAIN, Cell, Column, Ink, Style, shown, table
from headgate.model.text import counted

Page = TypeVar("Page", bound=Struct)
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class OddPageError(Exception):
    """A page that no gateway of this version sends; the text names the fault and its position."""


def checked(page: object, kind: type[Page]) -> Page:
    """Return the page with each value in its required type.

    Raises:
        OddPageError: A value is missing or has another type.
    """
    try:
        return convert(page, kind)
    except ValidationError as error:
        raise OddPageError(str(error)) from error


class Dependency(Struct):
    """A dependency of /ready."""

    ok: bool
    detail: str = ""


class Workers(Struct):
    """The number of workers in /ready: running and wanted."""

    up: int
    wanted: int


class Health(Struct):
    """The page /ready."""

    status: str
    dependencies: dict[str, Dependency]
    workers: Workers | None = None


class Received(Struct):
    """Events and bytes received since the gateway's start."""

    events: Count
    bytes: Count


class PairPage(Struct):
    """The figures of one producer on one topic."""

    topic: str
    events_total: dict[str, Count]
    received_total: Received
    bytes_saved_total: Count


class ProducerPage(Struct):
    """A producer of /v1/producers."""

    producer: str
    events_per_s: float
    bytes_per_s: float
    last_seen: Annotated[datetime, Meta(tz=True)] | None
    events_total: dict[str, Count]
    received_total: Received
    bytes_saved_total: Count
    topics: list[PairPage]


class ProducersPage(Struct):
    """The page /v1/producers; `next` is the position of the next page, None on the last one."""

    producers: list[ProducerPage]
    next: str | None = None


class Skew(Struct):
    """The skew of a topic's partitions."""

    judged: bool
    hottest_partition_share: float | None = None


class Suppression(Struct):
    """The suppression state of a topic."""

    state: str


class Held(Struct):
    """The held events of a coalescing topic; `keys` is None if another process holds them."""

    keys: int | None


class TopicPage(Struct):
    """A topic of /v1/topics."""

    topic: str
    events_per_s: float
    bytes_per_s: float
    skew: Skew
    suppression: Suppression | None
    held: Held | None = None


class TopicsPage(Struct):
    """The page /v1/topics."""

    topics: list[TopicPage]
    next: str | None = None


class Probation(Struct):
    """The probation of a group."""

    admitted: bool


class GroupPage(Struct):
    """A group of /v1/groups; the monitor's table shows it."""

    group: str
    cluster: str
    state: str
    lag: Whole
    heat: str
    members: int
    idle_members: int
    stuck_commit: bool
    regressions: Count
    loss_in_s: float | None
    probation: Probation
    unread_topics: list[str] = []
    paused: bool | None = None
    not_obeyed: str | None = None


class Committer(Struct):
    """The client of a commit."""

    client: str


class RegressionPage(Struct, rename={"before": "from"}):
    """A commit that went back."""

    group: str
    topic: str
    partition: int
    before: int
    to: int
    at: str
    committer: Committer | None
    recovered_at: str | None


class RogueReader(Struct):
    """A topic with an unknown reader."""

    topic: str
    unexplained_per_s: float


class ClusterPage(Struct):
    """The monitor's view of a cluster."""

    cluster: str
    ok: bool
    detail: str
    every_commit_is_seen: bool
    why_not: str | None
    partitions: dict[str, int]
    rogue_readers: list[RogueReader]


class GroupsPage(Struct):
    """The page /v1/groups."""

    groups: list[GroupPage]
    regressions: list[RegressionPage]
    clusters: list[ClusterPage]
    next: str | None = None


Listed = TypeVar("Listed", ProducersPage, TopicsPage, GroupsPage)


Json = dict[str, Any]

SPAN_S = 10.0  # for rates: a gateway's figures are up to a second older than its response
_NOT_WRITTEN = {"rejected", "unknown"}


class View(StrEnum):
    """The listed objects."""

    PRODUCERS = "producers"
    TOPICS = "topics"
    GROUPS = "groups"


class Tally(NamedTuple):
    """Counts since the gateway's start.

    Attributes:
        events: Events received.
        bytes: Bytes received.
        saved: Bytes not published.
        ended: Events with an outcome.
        unchanged: Those of them that were unchanged.
        refused: Those of them that were refused.
    """

    events: int = 0
    bytes: int = 0
    saved: int = 0
    ended: int = 0
    unchanged: int = 0
    refused: int = 0

    def plus(self, other: "Tally") -> "Tally":
        """Return the sum of both."""
        return Tally(*(own + added for own, added in zip(self, other, strict=True)))


class Flow(NamedTuple):
    """Rates between two polls; None if unknown. `unchanged` is a share of the events, 0 to 1."""

    events_per_s: float | None = None
    bytes_per_s: float | None = None
    saved_per_s: float | None = None
    refused_per_s: float | None = None
    unchanged: float | None = None


class GroupRow(NamedTuple):
    """A group: the checked page, the cells of the monitor's table, and the raw JSON."""

    page: GroupPage
    cells: Sequence[Cell]
    given: Json


class Reading(NamedTuple):
    """One poll.

    Attributes:
        at_s: Time of the poll, in monotonic seconds.
        view: The listed objects.
        health: The page /ready.
        producers: Rows by name, if the view lists producers.
        topics: Rows by name, if the view lists topics.
        groups: Rows by name, if the view lists groups.
        tallies: Counts by name, for rates.
        notes: Remarks on clusters, shown below the groups.
    """

    at_s: float
    view: View
    health: Health
    producers: Mapping[str, ProducerPage] = {}
    topics: Mapping[str, TopicPage] = {}
    groups: Mapping[str, GroupRow] = {}
    tallies: Mapping[str, Tally] = {}
    notes: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """Return the names of the rows, in the order of the response."""
        return [*self.producers, *self.topics, *self.groups]


def producers_read(at_s: float, health: Health, producers: Iterable[ProducerPage]) -> Reading:
    """Return the reading of GET /v1/producers."""
    rows = {page.producer: page for page in producers}
    tallies = {name: tally(page) for name, page in rows.items()}
    return Reading(at_s, View.PRODUCERS, health, producers=rows, tallies=tallies)


def topics_read(
    at_s: float, health: Health, topics: Iterable[TopicPage], producers: Iterable[ProducerPage]
) -> Reading:
    """Return the reading of GET /v1/topics, with tallies summed over the producers."""
    rows = {page.topic: page for page in topics}
    tallies = dict.fromkeys(rows, Tally())
    for producer in producers:
        for pair in producer.topics:
            if pair.topic in tallies:
                tallies[pair.topic] = tallies[pair.topic].plus(tally(pair))
    return Reading(at_s, View.TOPICS, health, topics=rows, tallies=tallies)


def groups_read(at_s: float, health: Health, pages: Iterable[tuple[GroupsPage, Json]]) -> Reading:
    """Return the reading of GET /v1/groups.

    Args:
        at_s: Time of the poll, in monotonic seconds.
        health: The page /ready.
        pages: Each page, checked and as raw JSON.
    """
    rows, notes = dict[str, GroupRow](), list[str]()
    for page, given in pages:
        for group, raw in zip(page.groups, given["groups"], strict=True):
            rows[f"{group.cluster}/{group.group}"] = GroupRow(group, group_cells(raw), raw)
        notes = notes or list(cluster_notes(given))  # each page has them
    return Reading(at_s, View.GROUPS, health, groups=rows, notes=notes)


def tally(page: ProducerPage | PairPage) -> Tally:
    """Return the tally of one producer, or of one producer on one topic."""
    final = {name: count for name, count in page.events_total.items() if name != "held"}
    refused = sum(count for name, count in final.items() if name.partition(":")[0] in _NOT_WRITTEN)
    received = page.received_total
    return Tally(
        received.events,
        received.bytes,
        page.bytes_saved_total,
        sum(final.values()),
        final.get("unchanged", 0),
        refused,
    )


def kept(readings: Sequence[Reading], newest: Reading) -> list[Reading]:
    """Return the readings that rates are computed from: at least two, of one view."""
    window = [*(reading for reading in readings if reading.view is newest.view), newest]
    while len(window) > 2 and window[1].at_s <= newest.at_s - SPAN_S:
        del window[0]
    return window


def flows(readings: Sequence[Reading]) -> dict[str, Flow]:
    """Return the rates by name.

    A gateway's counters never fall. If one does, another gateway has answered.
    """
    newest = readings[-1]
    if len(readings) < 2:
        # The gateway's own rates, of the last minute, until there is a reading to compare with.
        rows: list[ProducerPage | TopicPage] = [*newest.producers.values(), *newest.topics.values()]
        rates = [Flow(row.events_per_s, row.bytes_per_s) for row in rows]
        return dict(zip(newest.names, rates, strict=True))
    first, span = readings[0], newest.at_s - readings[0].at_s
    return {
        name: _flow(first.tallies.get(name, Tally()), now, span)
        for name, now in newest.tallies.items()
    }


def growth(readings: Sequence[Reading]) -> dict[str, float]:
    """Return the growth of each group's lag, in records per second; negative if it falls."""
    first, newest = readings[0], readings[-1]
    span = newest.at_s - first.at_s
    return {
        name: (row.page.lag - first.groups[name].page.lag) / span
        for name, row in newest.groups.items()
        if name in first.groups and span > 0
    }


def _flow(before: Tally, now: Tally, span: float) -> Flow:
    grown = [after - earlier for earlier, after in zip(before, now, strict=True)]
    if span <= 0 or min(grown) < 0:
        return Flow()
    events, size, saved, ended, unchanged, refused = grown
    return Flow(
        events / span,
        size / span,
        saved / span,
        refused / span,
        unchanged / ended if ended else None,
    )


# ---- groups as lines for a terminal, also of `headgate monitor`

GROUP_COLUMNS = (
    Column("state"),
    Column("group", gives_way=True),
    Column("cluster"),
    Column("lag", right=True),
    Column("heat"),
    Column("members", right=True),
    Column("remarks", gives_way=True),
)
_STATE_INKS = {
    "OK": Ink.GOOD,
    "WARN": Ink.WARNING,
    "STALL": Ink.BAD,
    "STOP": Ink.BAD,
    "REWIND": Ink.BAD,
}
_SOON_S = 86_400  # a loss that is later is not shown
_UNJUDGED = "UNKNOWN"  # the state of a group with lag after a single poll
_HEAT_INKS = {"cold": Ink.BAD, "cooling": Ink.WARNING}


def group_lines(page: Json, at: str, style: Style = PLAIN) -> Iterator[str]:
    """Yield a table of `Monitor.groups()` and notes on the clusters; `at` is the time as text."""
    yield f"{at}  {counted(len(page['groups']), 'group')}"
    yield from table(GROUP_COLUMNS, map(group_cells, page["groups"]), style)
    if any(group["state"] == _UNJUDGED for group in page["groups"]):
        yield "state ?: it has lag, and only a second poll shows whether it commits"
    yield from map(shown, cluster_notes(page))


def cluster_notes(page: Mapping[str, Any]) -> Iterator[str]:
    """Yield the newest regressions, and problems and blind spots of clusters."""
    for fall in page["regressions"][:5]:
        by = fall["committer"]["client"] if fall["committer"] else "committer unknown"
        end = f"recovered {fall['recovered_at']}" if fall["recovered_at"] else "not recovered"
        partition = f"{fall['group']} {fall['topic']}-{fall['partition']}"
        yield f"went back: {fall['at']} {partition} {fall['from']} -> {fall['to']} ({by}; {end})"
    for cluster in page["clusters"]:
        yield from _notes_of_cluster(cluster)


def group_cells(group: Json) -> list[Cell]:
    """Return one group, in the order of `GROUP_COLUMNS`."""
    state = "?" if group["state"] == _UNJUDGED else group["state"]
    return [
        Cell(state, _STATE_INKS.get(state, Ink.PLAIN)),
        Cell(group["group"]),
        Cell(group["cluster"]),
        Cell(f"{group['lag']:,}"),
        Cell(group["heat"], _HEAT_INKS.get(group["heat"], Ink.PLAIN)),
        Cell(str(group["members"])),
        Cell(", ".join(_remarks(group))),
    ]


def _remarks(group: Json) -> Iterator[str]:
    if group.get("not_obeyed"):
        yield f"pause {group['not_obeyed']}"
    elif group.get("paused"):
        yield "paused"
    if not group["members"]:
        yield "no members"
    if group["stuck_commit"]:
        yield "stuck commit"
    if group["regressions"]:
        yield f"{counted(group['regressions'], 'commit')} went back"
    if group.get("unread_topics"):
        yield f"no member reads {', '.join(group['unread_topics'])}"
    if group["idle_members"]:
        yield f"{group['idle_members']} idle"
    if not group["probation"]["admitted"]:
        yield "on probation"
    loss_s = group["loss_in_s"]
    if loss_s is not None and loss_s < _SOON_S:  # retention reaches every group with lag one day
        yield f"loses records in {_duration(loss_s)}"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _notes_of_cluster(cluster: Json) -> Iterator[str]:
    name = cluster["cluster"]
    if not cluster["ok"]:
        yield f"cluster {name}: {cluster['detail']}"
    elif not cluster["every_commit_is_seen"]:
        yield f"cluster {name}: {cluster['why_not']}"
    for rogue in cluster["rogue_readers"]:
        rate = rogue["unexplained_per_s"]
        topic = rogue["topic"]
        yield f"cluster {name}: {topic} is read by an unknown consumer, {rate} bytes a second"
    bad = {state: count for state, count in cluster["partitions"].items() if count}
    if bad:
        yield f"cluster {name}: " + ", ".join(f"{n} {state}" for state, n in bad.items())
