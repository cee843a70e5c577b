"""Pages of topics: the list, one topic, and one partition."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from aiohttp import web

from headgate.admin import views
from headgate.admin.console.figures import (
    Plot,
    Plots,
    Summary,
    by_pair,
    grouped,
    plot_by_label,
    short,
    sparklines,
)
from headgate.admin.console.page import Done, Page, listed
from headgate.admin.control_plane import Admin
from headgate.admin.monitor_answers import READERS, MonitorAnswers, fix_of
from headgate.admin.requests import Form
from headgate.http.auth import Identity
from headgate.metrics import fleet as recorder
from headgate.metrics.fleet import Points
from headgate.model.internal_topics import held_topic
from headgate.model.keys import partition_for
from headgate.model.outcome import Failure, OutcomeName, Reason, Refused, brief
from headgate.model.text import natural_number
from headgate.model.topics import TopicState

_LISTED_PARTITIONS = 200  # the busiest, if there are more
_UNITS = {"records": recorder.RECORDS_WRITTEN, "bytes": recorder.BYTES_WRITTEN}


class TopicRow(NamedTuple):
    """A row of the list."""

    summary: Summary
    partitions: int
    cluster: str
    suppression: str
    held_lag: float | None


class PartitionRow(NamedTuple):
    """One partition.

    Attributes:
        number: Number of the partition.
        records: Records per second in the last step.
        bytes: Bytes per second in the last step.
        share: Share of the topic's bytes in the history.
        waiting: Records that wait in its lane.
    """

    number: int
    records: float
    bytes: float
    share: float
    waiting: float


_COLUMNS = {
    "rate": lambda row: row.summary.events_per_s,
    "bytes": lambda row: row.summary.bytes_per_s,
    "unchanged": lambda row: row.summary.share(OutcomeName.UNCHANGED, OutcomeName.SUPERSEDED),
    "rejects": lambda row: row.summary.of(OutcomeName.REJECTED),
    "partitions": lambda row: row.partitions,
    "held": lambda row: row.held_lag or 0.0,
}


class TopicPages:
    """Pages of topics. `monitor` supplies the groups that read a partition."""

    def __init__(self, admin: Admin, plots: Plots, monitor: MonitorAnswers) -> None:
        self._admin = admin
        self._monitor = monitor
        self._plots = plots

    async def list(self, request: web.Request, _caller: Identity) -> Page:
        """Build the list of topics that exist and that a policy matches."""
        instance = self._admin.instance
        pairs = by_pair(instance.figures, instance.rates, time.time())
        states, served = instance.topics(), self._admin.served_topics()
        summaries = grouped(pairs, lambda pair: pair.topic, served)
        suppression, lags = instance.suppression(), instance.figures.gauge("headgate_held_lag")
        rows = {
            name: TopicRow(
                summaries[name],
                states[name].partitions,
                states[name].cluster,
                "off" if policy.suppress == "off" else _state(suppression.get(name)),
                lags.get((name,)),
            )
            for name, policy in served.items()
        }
        listing = listed(request, rows, _COLUMNS, "rate")
        sparks = await sparklines(self._plots, 1, {name for name, _ in listing.rows})
        values = {"listing": listing, "sparks": sparks, "Name": OutcomeName}
        return Page("topics.html", "Topics", values, is_live=True)

    async def show(self, request: web.Request, _caller: Identity) -> Page:
        """Build the page of one topic."""
        name = request.match_info["topic"]
        state, policy = await self._admin.served(name)
        held = self._admin.instance.topics().get(held_topic(name))
        view = views.topic(state, policy, held, self._seen(name))
        unit = "bytes" if request.query.get("heat") == "bytes" else "records"
        written = await self._written(name)
        events = await self._plots.read(recorder.EVENTS, (0,), {1: {name}})
        values = {
            "name": name,
            "found": view,
            "unit": unit,
            "rate": plot_by_label(
                "rate", "Events per second by producer", "events", recorder.EVENTS, events
            ),
            "heat": _heat(state, written[unit]),
            "heat_metric": _UNITS[unit],
            "partitions": self._partitions(state, written)[:_LISTED_PARTITIONS],
            "source": self._plots.source,
            "policy": _shown_policy(view["policy"]),
            "forgettable": policy.suppress != "off",
        }
        return Page("topic.html", f"Topic {name}", values, is_live=True)

    async def partition(self, request: web.Request, _caller: Identity) -> Page:
        """Build the page of one partition."""
        name, given = request.match_info["topic"], request.match_info["partition"]
        state, policy = await self._admin.served(name)
        number = natural_number(given, 5)
        if number is None or number >= state.partitions:
            detail = f"topic {brief(name)} has the partitions 0 to {state.partitions - 1}"
            raise Refused(Failure(Reason.NOT_FOUND, detail))
        view = views.topic(state, policy, None, self._seen(name))
        written = await self._written(name)
        row = next(each for each in self._partitions(state, written) if each.number == number)
        plots = [_plot_of(unit, points, number) for unit, points in written.items()]
        keys = [
            hot
            for hot in view["keys"]["top_by_bytes"]
            if partition_for(hot["key"].encode(), state.partitions) == number
        ]
        try:
            readers, failure = await self._monitor.readers(request, name, number), None
        except Refused as refused:
            readers, failure = [], refused.failure
        values = {
            "name": name,
            "number": number,
            "row": row,
            "plots": plots,
            "keys": keys,
            "readers": readers,
            "most": READERS,
            "failure": failure,
            "fix": "" if failure is None else fix_of(failure),
            "source": self._plots.source,
            "even": 1 / state.partitions,
            "count": state.partitions,
        }
        return Page("partition.html", f"Topic {name}, partition {number}", values, is_live=True)

    async def forget(self, request: web.Request, form: Form) -> Done:
        """Drop suppression state, as the control plane does."""
        key = form.get("key", "")
        await self._admin.forget_key(request, lambda _: key.encode() if key else None)
        return Done(f"/console/topics/{quote(request.match_info['topic'], safe='')}")

    def _seen(self, topic: str) -> views.ViewInput:
        return self._admin.seen(lambda pair: pair.topic == topic)

    async def _written(self, topic: str) -> dict[str, Points]:
        """Return the records and bytes written to each partition, by unit."""
        return {
            unit: await self._plots.read(metric, (1,), {0: {topic}})
            for unit, metric in _UNITS.items()
        }

    def _partitions(self, state: TopicState, written: dict[str, Points]) -> Sequence[PartitionRow]:
        """Return the partitions, the busiest first."""
        depths = self._admin.instance.figures.gauge("headgate_lane_depth")
        records, size = written["records"].rows, written["bytes"].rows
        total = sum(map(sum, size.values()))
        rows = []
        for number in range(state.partitions):
            at = (str(number),)
            share = sum(size[at]) / total if at in size and total else 0.0
            now, bytes_now = (unit[at][-1] if at in unit else 0.0 for unit in (records, size))
            waiting = depths.get((state.name, *at), 0.0)
            rows.append(PartitionRow(number, now, bytes_now, share, waiting))
        return sorted(rows, key=lambda row: (-row.share, row.number))


def _plot_of(unit: str, points: Points, partition: int) -> Plot:
    """Return the plot of one partition's writes."""
    own_row = points.rows.get((str(partition),))
    rows = {} if own_row is None else {f"partition {partition}": own_row}
    title = f"{unit.capitalize()} written a second"
    return Plot(unit, title, "B" if unit == "bytes" else unit, _UNITS[unit], points, rows)


def _state(now: Any) -> str:
    return "unknown" if now is None else str(now.state)


def _heat(state: TopicState, points: Points) -> dict[str, Any] | None:
    """Return the heat map's rows by partition, in order; None if nothing was written."""
    if not points.rows:
        return None
    steps = len(next(iter(points.rows.values())))
    shown = sorted(points.rows, key=lambda at: -sum(points.rows[at]))[:_LISTED_PARTITIONS]
    numbers = (
        range(state.partitions)
        if state.partitions <= _LISTED_PARTITIONS
        else sorted(int(at[0]) for at in shown)
    )
    rows = [
        [
            number,
            [short(value) for value in points.rows.get((str(number),), [0.0] * steps)],
        ]
        for number in numbers
    ]
    return {"start": points.start, "step": points.step_s, "rows": rows}


def _shown_policy(policy: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the options that are set, as written in a configuration file."""

    def text(value: Any) -> str:
        if isinstance(value, tuple | list):
            return ", ".join(map(str, value))
        if isinstance(value, bool):
            return str(value).lower()
        return str(value)

    return [
        (name, text(value)) for name, value in policy.items() if value not in (None, (), [], "")
    ]
