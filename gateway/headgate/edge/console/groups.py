"""Consumer groups, as `headgate monitor` sees them: the list, and a group's page."""

import time
from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Any
from urllib.parse import quote

from aiohttp import web

from headgate.core.outcome import Failure
from headgate.core.refusal import Refused, malformed
from headgate.edge.auth import Identity
from headgate.edge.console.listing import listed
from headgate.edge.console.monitor_answers import MonitorAnswers, fix_of
from headgate.edge.console.page import Done, Page
from headgate.edge.console.pictures import dots_of, picture
from headgate.edge.management.bodies import Form
from headgate.edge.management.control_plane import Admin
from headgate.edge.management.pauses import read_intent

_PICTURES = 12
_PARTITIONS = 100  # the worst; a group may have ten thousand, and live pages are sent often
_FALLS = 50  # the newest
_DRAWN_EVERY_S = 10  # a picture goes on to now, and a live page is sent where it has changed
_DIGITS = 10  # a partition's number has less
_SEVERITY = {"OK": 0, "WARN": 1, "STALL": 2, "STOP": 3, "REWIND": 4}

_COLUMNS = {
    "state": lambda one: (_SEVERITY.get(one["state"], 0), one["lag"]),
    "lag": lambda one: one["lag"],
    "age": lambda one: one["position_age_s"] or 0.0,
    "members": lambda one: one["members"],
    "regressions": lambda one: one["regressions"],
}

Json = dict[str, Any]


class GroupPages:
    """monitor: who knows of groups."""

    def __init__(self, admin: Admin, monitor: MonitorAnswers) -> None:
        self._admin = admin
        self._monitor = monitor

    async def list(self, request: web.Request, _caller: Identity) -> Page:
        """All groups; worst first unless the address says otherwise."""
        try:
            found = await self._monitor.groups(request)
        except Refused as refused:
            return self._without(refused.failure)
        states = request.query.get("state", "")
        rows = {
            f"{row['group']}\0{row['cluster']}": row
            for row in found["groups"]
            if states in ("", row["state"])
        }
        counts: dict[str, int] = {}
        for row in found["groups"]:
            counts[row["state"]] = counts.get(row["state"], 0) + 1
        values = {
            "failure": None,
            "listing": listed(request, rows, _COLUMNS, "state", ("state",), _words),
            "counts": sorted(counts.items(), key=lambda one: -_SEVERITY.get(one[0], 0)),
            "state": states,
            "regressions": found["regressions"][:20],
            "clusters": found["clusters"],
            "cannot_be_seen": found["cannot_be_seen"],
        }
        return Page("groups.html", "Groups", values, is_live=True)

    def _without(self, failure: Failure) -> Page:
        """Nobody knows of groups; the page says what to start."""
        file = self._admin.installation.configuration.shown.file
        values = {"failure": failure, "fix": fix_of(failure), "file": file}
        return Page("groups.html", "Groups", values, is_live=True)

    async def show(self, request: web.Request, caller: Identity) -> Page:
        """One group on each cluster that has it, and why it is paused."""
        name = request.match_info["group"]
        pauses, no_pauses = await self._pauses(name)
        try:
            on, failure = await self._monitor.group(request, name), None
        except Refused as refused:  # pausing needs no monitor
            on, failure = [], refused.failure
        values = {
            "name": name,
            "failure": failure,
            "fix": "" if failure is None else fix_of(failure),
            "on": [{**one, "shown": list(_shown(one, time.time()))} for one in on],
            "pauses": pauses,
            "no_pauses": no_pauses,
            "limits": {"partitions": _PARTITIONS, "falls": _FALLS},
        }
        return Page("group.html", f"Group {name}", values, is_live=True)

    async def pause(self, request: web.Request, form: Form) -> Done:
        """Pause it, or a topic or a partition of it."""
        return await self._change(request, form, is_pause=True)

    async def resume(self, request: web.Request, form: Form) -> Done:
        """Take one reason away."""
        return await self._change(request, form, is_pause=False)

    async def _change(self, request: web.Request, form: Form, *, is_pause: bool) -> Done:
        topic, partition = form.get("topic", ""), form.get("partition", "")
        scope: object = "all"
        if topic:
            scope = {"topic": topic} | ({"partition": _number(partition)} if partition else {})
        elif partition:
            raise Refused(malformed("a partition is one of a topic: say which"))
        intent = read_intent({"scope": scope, "reason": form.get("reason", "")})
        await self._admin.change_pause(request, intent, is_pause=is_pause)
        return Done(f"/console/groups/{quote(request.match_info['group'], safe='')}")

    async def _pauses(self, group: str) -> tuple[Sequence[Json], Failure | None]:
        try:
            return (await self._admin.pauses.shown(group))["intents"], None
        except Refused as refused:
            return [], refused.failure


def _number(partition: str) -> int:
    if not (partition.isascii() and partition.isdecimal() and len(partition) < _DIGITS):
        raise Refused(malformed(f"partition is a number, not {partition[:40]!r}"))
    return int(partition)


def _words(row: Json) -> str:
    return f"{row['group']} {row['cluster']}"


def _shown(group: Mapping[str, Any], now: float) -> Iterator[Json]:
    """Partitions, the worst first, some of them with a picture of their commits."""
    worst = nsmallest(
        _PARTITIONS,
        group["partitions"],
        key=lambda one: (-_SEVERITY.get(one["state"], 0), -one["lag"], one["topic"],
                         one["partition"]),
    )  # fmt: skip
    falls = group["recent_regressions"]
    for place, one in enumerate(worst):
        label = f"Commits of {one['topic']}, partition {one['partition']}: offset over time"
        dots = dots_of(one, falls) if place < _PICTURES else []
        says_much = len(dots) > 1 or one["lag"]
        until = now - now % _DRAWN_EVERY_S
        drawn = picture(dots, one["end"], until, label) if says_much else None
        yield {**one, "picture": drawn}
