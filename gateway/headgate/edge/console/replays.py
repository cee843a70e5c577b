"""Replays: the list, a replay's page, and what changes one."""

import shlex
import time
from collections import deque
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import web

from headgate.core.refusal import Refused
from headgate.core.replays.replay import FINISHED, Control, ReplayState
from headgate.edge.auth import Identity
from headgate.edge.console.listing import listed
from headgate.edge.console.page import Act, Done, Page
from headgate.edge.management.bodies import Form
from headgate.edge.management.control_plane import Admin

_LOOKS = 10  # that a rate is made of
_WATCHED = 1000
_KINDS = {"ready": "good", "completed": "good", "failed": "bad", "copying": "warn"}
_ASKED = ("name", "topic", "partitions", "from", "to", "filter", "deliver", "rate", "allow_cold")

_COLUMNS = {
    "created": lambda one: one["created_at"] or "",
    "state": lambda one: one["state"],
    "records": lambda one: one["done"]["records"],
    "rate": lambda one: one["rate_now"] or 0.0,
}

Json = dict[str, Any]


class ReplayConsole:
    """Rates are of what was seen since somebody looks."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    async def list(self, request: web.Request, _caller: Identity) -> Page:
        """All replays, newest first unless the address says otherwise."""
        try:
            found, unavailable = await self._admin.services.replays.list(None, None)
        except Refused as refused:
            values: Json = {"failure": refused.failure}
            return Page("replays.html", "Replays", values, is_live=True)
        state = request.query.get("state", "")
        counts: dict[str, int] = {}
        for one in found:
            counts[one["state"]] = counts.get(one["state"], 0) + 1
        rows = {
            f"{one['name']} {one['topic']} {one['id']}": self._row(one)
            for one in found
            if state in ("", one["state"])
        }
        values = {
            "failure": None,
            "listing": listed(request, rows, _COLUMNS, "created", ("state",)),
            "unavailable": unavailable,
            "counts": sorted(counts.items()),
            "state": state,
        }
        return Page("replays.html", "Replays", values, is_live=True)

    async def show(self, request: web.Request, _caller: Identity) -> Page:
        """One replay."""
        found = await self._admin.services.replays.show(request.match_info["id"])
        asked = {name: found[name] for name in _ASKED if name in found}
        values = {
            "one": self._row(found),
            "is_over": found["state"] in FINISHED,
            "request_text": orjson.dumps(asked, option=orjson.OPT_INDENT_2).decode(),
            "to_run": _to_run(found),
        }
        return Page("replay.html", f"Replay {found['name']}", values, is_live=True)

    def change(self, wanted: Control) -> Act:
        """What a form of the page does."""

        async def act(request: web.Request, _form: Form) -> Done:
            await self._admin.replays.change(request, wanted)
            return Done(f"/console/replays/{quote(request.match_info['id'], safe='')}")

        return act

    def _row(self, replay: Mapping[str, Any]) -> Json:
        planned, done = replay["planned"], replay["done"]
        total = planned["records"] or 0
        is_copy = replay["deliver"]["mode"] == "topic"
        progress = None
        if is_copy and replay["state"] == ReplayState.READY:
            progress = 1.0
        elif is_copy and total:
            progress = min(1.0, done["read"] / total)
        return {
            **replay,
            "kind": _KINDS.get(replay["state"], "idle"),
            "progress": progress,
            "rate_now": self._rate(replay["id"], done["read"]) if is_copy else None,
        }

    def _rate(self, replay_id: str, read: int) -> float | None:
        """Records per second, over the last looks; None at the first."""
        looks = self._seen.get(replay_id)
        if looks is None:
            while len(self._seen) >= _WATCHED:
                del self._seen[next(iter(self._seen))]
            looks = self._seen[replay_id] = deque(maxlen=_LOOKS)
        looks.append((time.monotonic(), read))
        (before, old), (now, new) = looks[0], looks[-1]
        return (new - old) / (now - before) if now - before > 1 else None


def _to_run(replay: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What consumers of the result run."""
    result = replay["result"]
    if result is None:
        return []
    mode, servers = replay["deliver"]["mode"], result["bootstrap_servers"]
    if mode == "group":
        settings = {
            "bootstrap.servers": servers,
            "group.id": result["group"],
            "isolation.level": "read_committed",
        }
        lines = "\n".join(f"{name}={value}" for name, value in settings.items())
        return [(f"Settings of a consumer that subscribes to {result['topic']}", lines)]
    reader = f"python deploy/replay/read_replay.py {shlex.quote(replay['id'])} > events.ndjson"
    consumer = shlex.join(
        [
            "kafka-console-consumer.sh", "--bootstrap-server", servers, "--topic", result["topic"],
            "--from-beginning", "--isolation-level", "read_committed",
        ]
    )  # fmt: skip
    offsets = orjson.dumps(result["offsets"], option=orjson.OPT_INDENT_2).decode()
    told = (f"Offsets to read from and to, in {result['topic']} at {servers}", offsets)
    found = [("Every event once, one JSON object per line", reader)]
    return (
        [*found, ("Read it in a terminal", consumer), told] if mode == "topic" else [*found, told]
    )
