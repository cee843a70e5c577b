"""What one poll of the management port says, and how fast it goes between polls. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

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


class Reading(NamedTuple):
    """One poll. at_s: of a steady clock.  health: of /ready.

    rows: of the view, by name.  tallies, lags: what rates are made of, by name.
    page: the groups' page, with what is said of clusters.
    """

    at_s: float
    view: View
    health: Json
    rows: Mapping[str, Json]
    tallies: Mapping[str, Tally] = {}
    lags: Mapping[str, int] = {}
    page: Mapping[str, Any] = {}


def producers_read(at_s: float, health: Json, producers: Iterable[Json]) -> Reading:
    """Of GET /v1/producers. Raises KeyError and the like of a page that is none."""
    rows = {page["producer"]: page for page in producers}
    return Reading(at_s, View.PRODUCERS, health, rows, {name: tally(rows[name]) for name in rows})


def topics_read(
    at_s: float, health: Json, topics: Iterable[Json], producers: Iterable[Json]
) -> Reading:
    """Of GET /v1/topics, with the tallies of what each producer posts to them."""
    rows = {page["topic"]: page for page in topics}
    tallies = dict.fromkeys(rows, Tally())
    for producer in producers:
        for pair in producer["topics"]:
            if pair["topic"] in tallies:
                tallies[pair["topic"]] = tallies[pair["topic"]].plus(tally(pair))
    return Reading(at_s, View.TOPICS, health, rows, tallies)


def groups_read(at_s: float, health: Json, page: Json) -> Reading:
    """Of GET /v1/groups. A group is named by its cluster, too."""
    rows = {f"{row['cluster']}/{row['group']}": row for row in page["groups"]}
    lags = {name: int(row["lag"]) for name, row in rows.items()}
    return Reading(at_s, View.GROUPS, health, rows, lags=lags, page=page)


def tally(page: Json) -> Tally:
    """Of one producer, or of what it posts to one topic."""
    ends: Mapping[str, int] = page["events_total"]
    final = {name: count for name, count in ends.items() if name != "held"}
    refused = sum(count for name, count in final.items() if name.partition(":")[0] in _NOT_WRITTEN)
    received = page["received_total"]
    return Tally(
        received["events"], received["bytes"], page["bytes_saved_total"], sum(final.values()),
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
        return {name: _first(row) for name, row in newest.rows.items()}
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
        name: (lag - first.lags[name]) / span
        for name, lag in newest.lags.items()
        if name in first.lags and span > 0
    }


def _first(row: Json) -> Flow:
    """The gateway's own rates, of the last minute, until there is something to compare with."""
    return Flow(row.get("events_per_s"), row.get("bytes_per_s"))


def _flow(before: Tally, now: Tally, span: float) -> Flow:
    grown = [after - earlier for earlier, after in zip(before, now, strict=True)]
    if span <= 0 or min(grown) < 0:
        return Flow()
    events, size, saved, ended, unchanged, refused = grown
    return Flow(
        events / span, size / span, saved / span, refused / span,
        unchanged / ended if ended else None,
    )  # fmt: skip
