"""Pages of consumer groups, with the figures of `headgate monitor`."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import pairwise
from typing import Any, NamedTuple

from aiohttp import web
from markupsafe import Markup

from headgate.admin.console.page import Done, Page, listed
from headgate.admin.control_plane import Admin
from headgate.admin.monitor_answers import Json, MonitorAnswers, fix_of
from headgate.admin.pauses import read_intent
from headgate.admin.requests import Form
from headgate.http.auth import Identity
from headgate.model.outcome import Failure, Refused, malformed
from headgate.model.text import counted, natural_number, path_segment, segment_name

# ---- a partition's commits as a chart: offset over time, by member


_WIDTH, _HEIGHT, _LEFT, _EDGE = 640.0, 190.0, 64.0, 22.0
_COLOURS = 6  # m1 to m6 of console.css; m0: unknown member


class Dot(NamedTuple):
    """One commit.

    Attributes:
        at: Time of the commit, in seconds since 1970.
        offset: Committed offset.
        by: Client and member; empty if unknown.
    """

    at: float
    offset: int
    by: str


class Picture(NamedTuple):
    """A chart of commits. `members` holds name and style class of each colour."""

    svg: Markup
    members: Sequence[tuple[str, str]]


def dots_of(partition: Mapping[str, Any], falls: Iterable[Mapping[str, Any]]) -> list[Dot]:
    """Return the known commits of a partition, oldest first.

    Args:
        partition: The partition, with its recent commits.
        falls: Commits that went back, which the monitor keeps for longer.
    """
    dots = {
        Dot(_seconds(commit["at"]), commit["offset"], _committer(commit["by"]))
        for commit in partition["commits"]
    }
    number = partition["topic"], partition["partition"]
    for fall in falls:
        if (fall["topic"], fall["partition"]) == number:
            at = _seconds(fall["at"])
            dots.add(Dot(at, fall["to"], _committer(fall["committer"])))
            if not any(dot.at < at and dot.offset == fall["from"] for dot in dots):
                dots.add(Dot(at - 1, fall["from"], ""))
    return sorted(dots)


def picture(dots: Sequence[Dot], end: int, now_s: float, label: str) -> Picture | None:
    """Draw a chart of commits; None without commits.

    A stuck partition is a flat line below the end of the log.

    Args:
        dots: Commits, oldest first.
        end: End offset of the log.
        now_s: Time up to which the last commit is drawn, in seconds since 1970.
        label: Text for screen readers.
    """
    if not dots:
        return None
    names = sorted({dot.by for dot in dots if dot.by})
    classes = {name: f"m{index % _COLOURS + 1}" for index, name in enumerate(names)} | {"": "m0"}
    first, last = dots[0].at, max(now_s, dots[-1].at)
    lowest = min(dot.offset for dot in dots)
    highest = max(end, *(dot.offset for dot in dots))

    def across(at: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 12) * (at - first) / ((last - first) or 1), 1)

    def down(offset: int) -> float:
        span = (highest - lowest) or 1
        return round(_HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * (offset - lowest) / span, 1)

    parts = [
        Markup('<line class="end" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            _LEFT, _WIDTH, down(end), down(end)
        ),
        _text(4, down(highest) + 4, f"{highest:,}"),
        _text(4, down(lowest) + 4, f"{lowest:,}"),
        _text(_LEFT, _HEIGHT - 4, _clock(first)),
        _text(_WIDTH - 4, _HEIGHT - 4, _clock(last), anchor="end"),
        _text(_WIDTH - 4, max(11.0, down(end) - 4), "log end", anchor="end"),
    ]
    for dot, other in pairwise(dots):
        kind = "back" if other.offset < dot.offset else "way"
        steps = (across(dot.at), down(dot.offset), across(other.at), down(other.offset))
        way = Markup('<polyline class="{}" points="{},{} {},{} {},{}"/>')
        parts.append(way.format(kind, steps[0], steps[1], steps[2], steps[1], steps[2], steps[3]))
    held = Markup('<line class="way" x1="{}" x2="{}" y1="{}" y2="{}"/>')
    height = down(dots[-1].offset)
    parts.append(held.format(across(dots[-1].at), across(last), height, height))
    for dot in dots:
        circle = Markup('<circle class="{}" cx="{}" cy="{}" r="4"><title>{}</title></circle>')
        said = f"{dot.offset:,} at {_clock(dot.at)} by {dot.by or 'an unknown member'}"
        parts.append(circle.format(classes[dot.by], across(dot.at), down(dot.offset), said))
    head = Markup('<svg class="commits" viewBox="0 0 {} {}" role="img" aria-label="{}">')
    svg = head.format(int(_WIDTH), int(_HEIGHT), label) + Markup("").join(parts) + Markup("</svg>")
    used = [(name, classes[name]) for name in names]
    return Picture(svg, [*used, ("unknown", "m0")] if any(not dot.by for dot in dots) else used)


def lag_picture(points: Sequence[tuple[float, int]], label: str) -> Markup | None:
    """Draw the lag of a group as an area over time; None with less than two points.

    Args:
        points: Times, in seconds since 1970, with the lag; the oldest first.
        label: Text for screen readers.
    """
    if len(points) < 2:
        return None
    first, last = points[0][0], points[-1][0]
    highest = max(1, *(lag for _, lag in points))
    bottom, top = _HEIGHT - _EDGE, _EDGE
    spots = [
        (
            round(_LEFT + (_WIDTH - _LEFT - 12) * (at - first) / ((last - first) or 1), 1),
            round(bottom - (bottom - top) * lag / highest, 1),
        )
        for at, lag in points
    ]
    line = " ".join(f"{x},{y}" for x, y in spots)
    parts = [
        Markup('<polygon class="area" points="{},{} {} {},{}"/>').format(
            spots[0][0], bottom, line, spots[-1][0], bottom
        ),
        Markup('<polyline class="way" points="{}"/>').format(line),
        _text(4, top + 4, f"{highest:,}"),
        _text(4, bottom + 4, "0"),
        _text(_LEFT, _HEIGHT - 4, _clock(first)),
        _text(_WIDTH - 4, _HEIGHT - 4, _clock(last), anchor="end"),
    ]
    for (at, lag), (x, y) in zip(points, spots, strict=True):
        circle = Markup('<circle class="hover" cx="{}" cy="{}" r="5"><title>{}</title></circle>')
        parts.append(circle.format(x, y, f"{lag:,} records at {_clock(at)}"))
    head = Markup('<svg class="commits" viewBox="0 0 {} {}" role="img" aria-label="{}">')
    head = head.format(int(_WIDTH), int(_HEIGHT), label)
    return head + Markup("").join(parts) + Markup("</svg>")


def _text(x: float, y: float, text: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _committer(by: Mapping[str, Any] | None) -> str:
    return "" if by is None else f"{by['client']} ({by['member']})"


_PICTURES = 12
_PARTITIONS = 100  # the worst; a group may have ten thousand, and live pages are sent often
_FALLS = 50  # the newest
_COMMITS = 50  # the newest
_DRAWN_EVERY_S = 10  # step of a chart's end: live pages are sent only if they have changed
_DIGITS = 9  # of a partition's number, at most
_SEVERITY = {"OK": 0, "WARN": 1, "STALL": 2, "STOP": 3, "REWIND": 4}

_COLUMNS = {
    "state": lambda group: (_SEVERITY.get(group["state"], 0), group["lag"]),
    "lag": lambda group: group["lag"],
    "age": lambda group: group["position_age_s"] or 0.0,
    "members": lambda group: group["members"],
    "regressions": lambda group: group["regressions"],
}


class GroupPages:
    """Pages of consumer groups. `monitor` supplies the groups."""

    def __init__(self, admin: Admin, monitor: MonitorAnswers) -> None:
        self._admin = admin
        self._monitor = monitor

    async def list(self, request: web.Request, _caller: Identity) -> Page:
        """Build the list of all groups, worst first by default."""
        try:
            answer = await self._monitor.groups(request)
        except Refused as refused:
            return self._without(refused.failure)
        states = request.query.get("state", "")
        rows = {
            f"{row['group']}\0{row['cluster']}": row
            for row in answer["groups"]
            if states in ("", row["state"])
        }
        counts: dict[str, int] = {}
        for row in answer["groups"]:
            counts[row["state"]] = counts.get(row["state"], 0) + 1
        values = {
            "failure": None,
            "listing": listed(request, rows, _COLUMNS, "state", ("state",), _words),
            "counts": sorted(counts.items(), key=lambda count: -_SEVERITY.get(count[0], 0)),
            "state": states,
            "regressions": answer["regressions"][:20],
            "clusters": answer["clusters"],
            "cannot_be_seen": answer["cannot_be_seen"],
        }
        return Page("groups.html", "Groups", values, is_live=True)

    def _without(self, failure: Failure) -> Page:
        """Build the page without a monitor, with the command that starts one."""
        file = self._admin.installation.sources.configuration().file
        values = {"failure": failure, "fix": fix_of(failure), "file": file}
        return Page("groups.html", "Groups", values, is_live=True)

    async def show(self, request: web.Request, caller: Identity) -> Page:
        """Build the page of one group: each cluster that has it, and its pauses."""
        name = segment_name(request.match_info["group"])
        pauses, no_pauses = await self._pauses(name)
        try:
            on, failure = await self._monitor.group(request, name), None
        except Refused as refused:  # pausing needs no monitor
            on, failure = [], refused.failure
        values = {
            "name": name,
            "failure": failure,
            "fix": "" if failure is None else fix_of(failure),
            "on": [_drawn(group, time.time()) for group in on],
            "question": _question(name, on),
            "pauses": pauses,
            "no_pauses": no_pauses,
            "limits": {"partitions": _PARTITIONS, "falls": _FALLS, "commits": _COMMITS},
        }
        return Page("group.html", f"Group {name}", values, is_live=True)

    async def pause(self, request: web.Request, form: Form) -> Done:
        """Pause a group, or a topic or partition of it."""
        return await self._change(request, form, is_pause=True)

    async def resume(self, request: web.Request, form: Form) -> Done:
        """Remove one reason for a pause."""
        return await self._change(request, form, is_pause=False)

    async def _change(self, request: web.Request, form: Form, *, is_pause: bool) -> Done:
        topic, partition = form.get("topic", ""), form.get("partition", "")
        scope: Any = "all"
        if topic:
            scope = {"topic": topic}
            if partition:
                number = natural_number(partition, _DIGITS)
                if number is None:
                    raise Refused(malformed(f"partition is a number, not {partition[:40]!r}"))
                scope |= {"partition": number}
        elif partition:
            raise Refused(malformed("a partition is one of a topic: say which"))
        intent = read_intent({"scope": scope, "reason": form.get("reason", "")})
        await self._admin.pauses.change(request, intent, is_pause=is_pause)
        return Done(f"/console/groups/{path_segment(segment_name(request.match_info['group']))}")

    async def _pauses(self, group: str) -> tuple[Sequence[Json], Failure | None]:
        try:
            return (await self._admin.pauses.shown(group))["intents"], None
        except Refused as refused:
            return [], refused.failure


def _words(row: Json) -> str:
    return f"{row['group']} {row['cluster']}"


def _drawn(group: Mapping[str, Any], now_s: float) -> Json:
    """Return a group with its worst partitions, its newest commits and the chart of its lag."""
    shown = list(_shown(group, now_s))
    commits = [{**commit, "of": row} for row in shown for commit in row["commits"]]
    commits.sort(key=lambda commit: str(commit["at"]), reverse=True)
    lags = [(_seconds(point["at"]), point["lag"]) for point in group.get("lag_over_time", ())]
    label = f"Lag of {group['group']} over time"
    return {**group, "shown": shown, "commits": commits, "lag_picture": lag_picture(lags, label)}


def _question(name: str, on: Sequence[Mapping[str, Any]]) -> str:
    """Return the question before a pause: the group and the effect."""
    members = sum(group["members"] for group in on)
    if not on or not members:
        effect = "It has no members that are known: members that start later read nothing."
    elif not any(group.get("deaf_members") for group in on):
        effect = f"Its {counted(members, 'member')} stop reading within a second."
    else:
        deaf = sum(group["deaf_members"] for group in on)
        effect = (
            f"{deaf} of its {counted(members, 'member')} will go on reading: they do not use "
            "Headgate's consumer library with a pause store."
        )
    return f"Pause the group {name}? {effect}"


def _shown(group: Mapping[str, Any], now_s: float) -> Iterator[Json]:
    """Yield partitions, the worst first; some of them have a chart of their commits."""
    worst = nsmallest(
        _PARTITIONS,
        group["partitions"],
        key=lambda row: (
            -_SEVERITY.get(row["state"], 0),
            -row["lag"],
            row["topic"],
            row["partition"],
        ),
    )
    falls = group["recent_regressions"]
    for index, row in enumerate(worst):
        label = f"Commits of {row['topic']}, partition {row['partition']}: offset over time"
        dots = dots_of(row, falls) if index < _PICTURES else []
        says_much = len(dots) > 1 or row["lag"]
        until = now_s - now_s % _DRAWN_EVERY_S
        drawn = picture(dots, row["end"], until, label) if says_much else None
        yield {**row, "picture": drawn}
