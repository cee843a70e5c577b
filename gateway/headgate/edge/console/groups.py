"""Consumer groups, as `headgate monitor` sees them: the list, and a group's page."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from aiohttp import web

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused
from headgate.edge.auth import Identity
from headgate.edge.console.listing import listed
from headgate.edge.console.page import Done, Page
from headgate.edge.console.pictures import dots_of, picture
from headgate.edge.management.control_plane import Admin
from headgate.edge.management.pauses import read_intent

_FRESH_S = 2.0  # the monitor polls Kafka every 10 s
_KNOWN = 64  # answers that are kept for so long
_LIMIT, _PAGES = 1000, 5  # groups in an answer of the monitor, and how many are asked for
_PICTURES = 12
_PARTITIONS = 500
_DRAWN_EVERY_S = 10  # a picture goes on to now, and a live page is sent where it has changed
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
    """Asks the monitor, with the caller's own credentials."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._answers: dict[tuple[str, str | None], tuple[float, Json]] = {}

    async def list(self, request: web.Request, _caller: Identity) -> Page:
        """All groups; worst first unless the address says otherwise."""
        try:
            found = await self._all(request)
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
            "listing": listed(request, rows, _COLUMNS, "state", ("state",)),
            "counts": sorted(counts.items(), key=lambda one: -_SEVERITY.get(one[0], 0)),
            "state": states,
            "regressions": found["regressions"][:20],
            "clusters": found["clusters"],
            "cannot_be_seen": found["cannot_be_seen"],
        }
        return Page("groups.html", "Groups", values, is_live=True)

    def _without(self, failure: Failure) -> Page:
        """Nobody knows of groups; the page says what to start."""
        return Page("groups.html", "Groups", {"failure": failure}, is_live=True)

    async def show(self, request: web.Request, caller: Identity) -> Page:
        """One group on each cluster that has it, and why it is paused."""
        name = request.match_info["group"]
        pauses, no_pauses = await self._pauses(name)
        try:
            on = (await self._ask(request, f"/v1/groups/{quote(name, safe='')}"))["on"]
            failure = None
        except Refused as refused:  # pausing needs no monitor
            on, failure = [], refused.failure
        values = {
            "name": name,
            "failure": failure,
            "on": [{**one, "shown": list(_shown(one, time.time()))} for one in on],
            "pauses": pauses,
            "no_pauses": no_pauses,
            "limit": _PARTITIONS,
        }
        return Page("group.html", f"Group {name}", values, is_live=True)

    async def pause(self, request: web.Request, _caller: Identity) -> Done:
        """Pause it, or a topic or a partition of it."""
        return await self._change(request, is_pause=True)

    async def resume(self, request: web.Request, _caller: Identity) -> Done:
        """Take one reason away."""
        return await self._change(request, is_pause=False)

    async def _change(self, request: web.Request, *, is_pause: bool) -> Done:
        form = await request.post()
        topic, partition = str(form.get("topic", "")), str(form.get("partition", ""))
        scope: object = "all"
        if topic:
            is_number = partition.isascii() and partition.isdecimal()
            number = int(partition[:9]) if is_number else partition
            scope = {"topic": topic} | ({"partition": number} if partition else {})
        intent = read_intent({"scope": scope, "reason": str(form.get("reason", ""))})
        await self._admin.change_pause(request, intent, is_pause=is_pause)
        return Done(f"/console/groups/{quote(request.match_info['group'], safe='')}")

    async def _pauses(self, group: str) -> tuple[Sequence[Json], Failure | None]:
        try:
            return (await self._admin.pauses.shown(group))["intents"], None
        except Refused as refused:
            return [], refused.failure

    # ---- the monitor

    async def _all(self, request: web.Request) -> Json:
        first = await self._ask(request, f"/v1/groups?limit={_LIMIT}")
        groups, following = [*first["groups"]], first["next"]
        for _ in range(_PAGES - 1):
            if following is None:
                break
            query = urlencode({"limit": _LIMIT, "after": following})
            more = await self._ask(request, f"/v1/groups?{query}")
            groups += more["groups"]
            following = more["next"]
        return {**first, "groups": groups}

    async def _ask(self, request: web.Request, path: str) -> Json:
        """Raises Refused."""
        authorization = request.headers.get("Authorization")
        key, now = (path, authorization), time.monotonic()
        known = self._answers.get(key)
        if known is not None and now - known[0] < _FRESH_S:
            return known[1]
        found = await self._admin.instance.monitored(path, authorization)
        if isinstance(found, Failure):
            raise Refused(found)
        answer = _read(found.body)
        if found.status != 200:
            detail = str(answer.get("detail", f"the monitor answered {found.status}"))
            raise Refused(Failure(Reason.NOT_FOUND, detail))
        if len(self._answers) >= _KNOWN:
            self._answers.clear()
        self._answers[key] = now, answer
        return answer


def _read(body: bytes) -> Json:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise Refused(Failure(Reason.INTERNAL, "what answers at monitor.url is no monitor"))
    return answer


def _shown(group: Mapping[str, Any], now: float) -> Iterator[Json]:
    """Partitions, the worst first, some of them with a picture of their commits."""
    order = sorted(
        group["partitions"],
        key=lambda one: (-_SEVERITY.get(one["state"], 0), -one["lag"], one["topic"],
                         one["partition"]),
    )  # fmt: skip
    falls = group["recent_regressions"]
    for place, one in enumerate(order[:_PARTITIONS]):
        label = f"Commits of {one['topic']}, partition {one['partition']}: offset over time"
        dots = dots_of(one, falls) if place < _PICTURES else []
        says_much = len(dots) > 1 or one["lag"]
        until = now - now % _DRAWN_EVERY_S
        drawn = picture(dots, one["end"], until, label) if says_much else None
        yield {**one, "picture": drawn}
