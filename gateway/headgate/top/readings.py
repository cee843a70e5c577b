"""Polls of the management port, and rates between polls. Pure.

The pages hold only the fields that `headgate top` needs. An answer that lacks one is odd.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, TypeVar

from msgspec import Meta, Struct, ValidationError, convert

from headgate.core.terminal import Cell
from headgate.monitor import table

Page = TypeVar("Page", bound=Struct)
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class OddPageError(Exception):
    """The page has not what a gateway of this version says; the text has what and where."""


def checked(page: object, kind: type[Page]) -> Page:
    """The page, each of its values of the type that it must have. Raises OddPageError."""
    try:
        return convert(page, kind)
    except ValidationError as error:
        raise OddPageError(str(error)) from error


class Dependency(Struct):
    """Of /ready."""

    ok: bool
    detail: str = ""


class Workers(Struct):
    """Of /ready: how many there are, and should be."""

    up: int
    wanted: int


class Health(Struct):
    """/ready."""

    status: str
    dependencies: dict[str, Dependency]
    workers: Workers | None = None


class Received(Struct):
    """What has come since the gateway's start."""

    events: Count
    bytes: Count


class PairPage(Struct):
    """What a producer posts to one topic."""

    topic: str
    events_total: dict[str, Count]
    received_total: Received
    bytes_saved_total: Count


class ProducerPage(Struct):
    """One of /v1/producers."""

    producer: str
    events_per_s: float
    bytes_per_s: float
    last_seen: Annotated[datetime, Meta(tz=True)] | None
    events_total: dict[str, Count]
    received_total: Received
    bytes_saved_total: Count
    topics: list[PairPage]


class ProducersPage(Struct):
    """/v1/producers. next: where the next page begins; None = this is the last one."""

    producers: list[ProducerPage]
    next: str | None = None


class Skew(Struct):
    """How unequal a topic's partitions are."""

    judged: bool
    hottest_partition_share: float | None = None


class Suppression(Struct):
    """Whether a topic's events are compared now."""

    state: str


class Held(Struct):
    """What is held of a coalescing topic. keys: None = by others."""

    keys: int | None


class TopicPage(Struct):
    """One of /v1/topics."""

    topic: str
    events_per_s: float
    bytes_per_s: float
    skew: Skew
    suppression: Suppression | None
    held: Held | None = None


class TopicsPage(Struct):
    """/v1/topics."""

    topics: list[TopicPage]
    next: str | None = None


class Probation(Struct):
    """Whether a group may go on."""

    admitted: bool


class GroupPage(Struct):
    """One of /v1/groups; the monitor's table shows it."""

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


class Committer(Struct):
    """Who committed."""

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
    """A topic that is read by somebody unknown."""

    topic: str
    unexplained_per_s: float


class ClusterPage(Struct):
    """How well a cluster is seen."""

    cluster: str
    ok: bool
    detail: str
    every_commit_is_seen: bool
    why_not: str | None
    partitions: dict[str, int]
    rogue_readers: list[RogueReader]


class GroupsPage(Struct):
    """/v1/groups."""

    groups: list[GroupPage]
    regressions: list[RegressionPage]
    clusters: list[ClusterPage]
    next: str | None = None


Listed = TypeVar("Listed", ProducersPage, TopicsPage, GroupsPage)


Json = dict[str, Any]

SPAN_S = 10.0  # of the rates: a gateway's figures are up to a second older than its answer
_NOT_WRITTEN = {"rejected", "unknown"}


class View(StrEnum):
    """What is listed."""

    PRODUCERS = "producers"
    TOPICS = "topics"
    GROUPS = "groups"


class Tally(NamedTuple):
    """What was counted since the gateway's start. saved: bytes that were not published.

    ended: events by how they ended, of which some were unchanged, and some refused.
    """

    events: int = 0
    bytes: int = 0
    saved: int = 0
    ended: int = 0
    unchanged: int = 0
    refused: int = 0

    def plus(self, other: "Tally") -> "Tally":
        """Both together."""
        return Tally(*(one + another for one, another in zip(self, other, strict=True)))


class Flow(NamedTuple):
    """Between two polls. unchanged: share of the events, 0 to 1. None = not known (yet)."""

    events_per_s: float | None = None
    bytes_per_s: float | None = None
    saved_per_s: float | None = None
    refused_per_s: float | None = None
    unchanged: float | None = None


class GroupRow(NamedTuple):
    """A group: as it was checked, as the monitor's table has it, and as it came."""

    page: GroupPage
    cells: Sequence[Cell]
    given: Json


class Reading(NamedTuple):
    """One poll. at_s: of a steady clock.  health: of /ready.

    producers, topics, groups: rows by name; those of the view.
    tallies: what rates are made of, by name.  notes: what is said of clusters, below the groups.
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
        """Of the rows, as they came."""
        return [*self.producers, *self.topics, *self.groups]


def producers_read(at_s: float, health: Health, producers: Iterable[ProducerPage]) -> Reading:
    """Of GET /v1/producers."""
    rows = {page.producer: page for page in producers}
    tallies = {name: tally(page) for name, page in rows.items()}
    return Reading(at_s, View.PRODUCERS, health, producers=rows, tallies=tallies)


def topics_read(
    at_s: float, health: Health, topics: Iterable[TopicPage], producers: Iterable[ProducerPage]
) -> Reading:
    """Of GET /v1/topics, with the tallies of what each producer posts to them."""
    rows = {page.topic: page for page in topics}
    tallies = dict.fromkeys(rows, Tally())
    for producer in producers:
        for pair in producer.topics:
            if pair.topic in tallies:
                tallies[pair.topic] = tallies[pair.topic].plus(tally(pair))
    return Reading(at_s, View.TOPICS, health, topics=rows, tallies=tallies)


def groups_read(at_s: float, health: Health, pages: Iterable[tuple[GroupsPage, Json]]) -> Reading:
    """Of GET /v1/groups: each page, and as it came. A group is named by its cluster, too."""
    rows, notes = dict[str, GroupRow](), list[str]()
    for page, given in pages:
        for one, raw in zip(page.groups, given["groups"], strict=True):
            rows[f"{one.cluster}/{one.group}"] = GroupRow(one, table.row(raw), raw)
        notes = notes or list(table.notes(given))  # each page has them
    return Reading(at_s, View.GROUPS, health, groups=rows, notes=notes)


def tally(page: ProducerPage | PairPage) -> Tally:
    """Of one producer, or of what it posts to one topic."""
    final = {name: count for name, count in page.events_total.items() if name != "held"}
    refused = sum(count for name, count in final.items() if name.partition(":")[0] in _NOT_WRITTEN)
    received = page.received_total
    return Tally(
        received.events, received.bytes, page.bytes_saved_total, sum(final.values()),
        final.get("unchanged", 0), refused,
    )  # fmt: skip


def kept(readings: Sequence[Reading], newest: Reading) -> list[Reading]:
    """The readings that rates are made of from now on: two at least, of one view."""
    found = [*(one for one in readings if one.view is newest.view), newest]
    while len(found) > 2 and found[1].at_s <= newest.at_s - SPAN_S:
        del found[0]
    return found


def flows(readings: Sequence[Reading]) -> dict[str, Flow]:
    """By name. What one gateway counts never falls: if it does, another one answers by now."""
    newest = readings[-1]
    if len(readings) < 2:
        # The gateway's own rates, of the last minute, until there is something to compare with.
        rows: list[ProducerPage | TopicPage] = [*newest.producers.values(), *newest.topics.values()]
        rates = [Flow(row.events_per_s, row.bytes_per_s) for row in rows]
        return dict(zip(newest.names, rates, strict=True))
    first, span = readings[0], newest.at_s - readings[0].at_s
    return {
        name: _flow(first.tallies.get(name, Tally()), now, span)
        for name, now in newest.tallies.items()
    }


def growth(readings: Sequence[Reading]) -> dict[str, float]:
    """Records a second by which each group's lag grows, or falls (below 0)."""
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
        events / span, size / span, saved / span, refused / span,
        unchanged / ended if ended else None,
    )  # fmt: skip
