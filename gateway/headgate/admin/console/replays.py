"""Pages of replays: the list, one replay, and the form for a new one."""

import os
import re
import shlex
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import web

from headgate.admin.console.figures import Plots, plot_by_label
from headgate.admin.console.page import Act, Commands, Done, Page, listed
from headgate.admin.control_plane import Admin
from headgate.admin.requests import Form
from headgate.http.auth import Identity
from headgate.metrics import fleet as recorder
from headgate.model.outcome import Failure, Refused, brief, malformed
from headgate.model.text import natural_number
from headgate.replays.registry import FINISHED, Control, ReplayState

_LOOKS = 10  # readings over which a rate is computed
_WATCHED = 1000
_KINDS = {"ready": "good", "completed": "good", "failed": "bad", "copying": "warn"}
_ASKED = ("name", "topic", "partitions", "from", "to", "filter", "deliver", "rate", "allow_cold")

_COLUMNS = {
    "created": lambda replay: replay["created_at"] or "",
    "state": lambda replay: replay["state"],
    "records": lambda replay: replay["done"]["records"],
    "rate": lambda replay: replay["rate_now"] or 0.0,
}

Json = dict[str, Any]


class ReplayConsole:
    """Pages of replays. Rates are computed from the readings of earlier page loads."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    async def list(self, request: web.Request, _caller: Identity) -> Page:
        """Build the list of all replays, newest first by default."""
        try:
            replays, unavailable = await self._admin.services.replays.list(None, None)
        except Refused as refused:
            values: Json = {"failure": refused.failure}
            return Page("replays.html", "Replays", values, is_live=True)
        state = request.query.get("state", "")
        counts: dict[str, int] = {}
        for replay in replays:
            counts[replay["state"]] = counts.get(replay["state"], 0) + 1
        rows = {
            f"{row['name']} {row['topic']} {row['id']}": self._row(row)
            for row in replays
            if state in ("", row["state"])
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
        """Build the page of one replay."""
        replay = await self._admin.services.replays.show(request.match_info["id"])
        request_fields = {name: replay[name] for name in _ASKED if name in replay}
        values = {
            "one": self._row(replay),
            "is_over": replay["state"] in FINISHED,
            "request_text": orjson.dumps(request_fields, option=orjson.OPT_INDENT_2).decode(),
            "to_run": _consumer_commands(replay),
        }
        return Page("replay.html", f"Replay {replay['name']}", values, is_live=True)

    def change(self, wanted: Control) -> Act:
        """Return the action of a form that changes the replay's state."""

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
        """Return the records per second over the last readings; None at the first."""
        looks = self._seen.get(replay_id)
        if looks is None:
            while len(self._seen) >= _WATCHED:
                del self._seen[next(iter(self._seen))]
            looks = self._seen[replay_id] = deque(maxlen=_LOOKS)
        looks.append((time.monotonic(), read))
        (before, old), (now, new) = looks[0], looks[-1]
        return (new - old) / (now - before) if now - before > 1 else None


def _consumer_commands(replay: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return settings and commands for consumers of the result, with titles."""
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
    options = ["--bootstrap-server", servers, "--topic", result["topic"]]
    options += ["--from-beginning", "--isolation-level", "read_committed"]
    consumer = shlex.join(["kafka-console-consumer.sh", *options])
    offsets = orjson.dumps(result["offsets"], option=orjson.OPT_INDENT_2).decode()
    offsets_text = (f"Offsets to read from and to, in {result['topic']} at {servers}", offsets)
    readers = [("Every event once, one JSON object per line", reader)]
    return (
        [*readers, ("Read it in a terminal", consumer), offsets_text]
        if mode == "topic"
        else [*readers, offsets_text]
    )


# ---- the form for a new replay: its fields as a request, and as words of a command


_NAMED = re.compile(r"(snapshot|group):(.+)", re.DOTALL)
_RELATIVE = re.compile(r"-\d{1,9}(?:ms|s|m|h|d)")
_DIGITS = 18  # numbers of 64 bits have more
EMPTY = {
    "topic": "", "from": "-1h", "to": "now", "partitions": "", "keys": "", "producers": "",
    "equals": "", "mode": "topic", "group": "", "name": "", "bytes_per_s": "", "allow_cold": "",
}  # fmt: skip


def body_of(form: Mapping[str, str]) -> Json:
    """Return the body of the API request for a form.

    Raises:
        Refused: A field is not valid. The API checks the rest.
    """
    mode = form["mode"]
    deliver: Json = {"mode": mode} | ({"group": form["group"]} if form["group"] else {})
    body: Json = {
        "name": form["name"],
        "topic": form["topic"],
        "from": _bound("from", form["from"]),
        "deliver": deliver,
    }
    if form["to"].strip():
        body["to"] = _bound("to", form["to"])
    if form["partitions"].strip():
        body["partitions"] = [_number("partitions", part) for part in form["partitions"].split(",")]
    only = _filter(form)
    if only:
        body["filter"] = only
    if form["bytes_per_s"].strip():
        body["rate"] = {"bytes_per_s": _number("bytes_per_s", form["bytes_per_s"])}
    if form["allow_cold"]:
        body["allow_cold"] = True
    return body


def _filter(form: Mapping[str, str]) -> Json:
    only: Json = {}
    for name in ("keys", "producers"):
        lines = [line.strip("\r") for line in form[name].split("\n")]
        if filled := [line for line in lines if line]:
            only[name] = filled
    if form["equals"].strip():
        only["equals"] = _object("equals", form["equals"])
    return only


def _bound(field: str, text: str) -> Json:
    text = text.strip()
    if text == "now" or _RELATIVE.fullmatch(text):
        return {"relative": text}
    if match := _NAMED.fullmatch(text):
        return {match[1]: match[2].strip()}
    if text.startswith("{"):
        given = _object(field, text)
        return given if set(given) & {"offsets", "timestamp"} else {"offsets": given}
    number = natural_number(text, _DIGITS)
    return {"timestamp": text if number is None else number}


def _object(field: str, text: str) -> Json:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Refused(malformed(f"{field} is no JSON: {error.msg}")) from error
    if not isinstance(document, dict):
        raise Refused(malformed(f"{field} is a JSON object"))
    return document


def _number(field: str, text: str) -> int:
    number = natural_number(text.strip(), _DIGITS)
    if number is None:
        raise Refused(malformed(f"{field}: {brief(text.strip())} is no number"))
    return number


def words_of(body: Json) -> list[str]:
    """Return the words of the command for a request body."""
    words = ["replay", "create", "--name", body["name"], "--topic", body["topic"]]
    words += ["--from", _typed(body["from"])]
    if "to" in body:
        words += ["--to", _typed(body["to"])]
    if "partitions" in body:
        words += ["--partitions", ",".join(map(str, body["partitions"]))]
    if "filter" in body:
        words += ["--filter", orjson.dumps(body["filter"]).decode()]
    words += ["--mode", body["deliver"]["mode"]]
    if "group" in body["deliver"]:
        words += ["--group", body["deliver"]["group"]]
    if "rate" in body:
        words += ["--bytes-per-s", str(body["rate"]["bytes_per_s"])]
    if body.get("allow_cold"):
        words.append("--allow-cold")
    return words


def _typed(bound: Json) -> str:
    """Return a bound as a value of --from and --to."""
    if "timestamp" in bound:
        return str(bound["timestamp"])
    if "relative" in bound:
        return str(bound["relative"]).removeprefix("-")
    return orjson.dumps(bound).decode()


# ---- the wizard: topic, time, filter, mode, dry run, create


_LONGEST = 100_000  # characters of a field


class Wizard:
    """The form for a new replay; it uses the same service as the API."""

    def __init__(self, admin: Admin, plots: Plots) -> None:
        self._admin = admin
        self._plots = plots

    async def show(self, request: web.Request, _caller: Identity) -> Page:
        """Build the empty form."""
        topic = request.query.get("topic", "").strip()[:249]
        name = f"{topic} again" if topic else ""
        form = {**EMPTY, "topic": topic, "name": name, "once": os.urandom(12).hex()}
        return await self._page(form)

    async def send(self, request: web.Request, given: Form) -> Page | Done:
        """Plan the replay of a form, or create it."""
        names = (*EMPTY, "once")
        form = {name: given.get(name, "")[:_LONGEST] for name in names}
        body: Json = {}
        try:
            body = body_of(form)
            if given.get("do") == "create":
                page, _ = await self._admin.replays.ask(request, body, form["once"])
                return Done(f"/console/replays/{page['id']}")
            page, _ = await self._admin.replays.ask(request, {**body, "dry_run": True}, None)
        except Refused as refused:
            return await self._page(
                form, body, failure=refused.failure, commands=Commands.from_request(request)
            )
        return await self._page(
            form, body, page["planned"], commands=Commands.from_request(request)
        )

    async def _page(
        self,
        form: Mapping[str, str],
        body: Json | None = None,
        planned: Json | None = None,
        failure: Failure | None = None,
        commands: Commands | None = None,
    ) -> Page:
        topic = form["topic"]
        events = await self._plots.read(recorder.EVENTS, (2,), {1: {topic}})
        title = f"Events per second of {topic} by outcome"
        plot = plot_by_label("brush", title, "events", recorder.EVENTS, events, brush=True)
        figures = (failure.figures if failure else None) or {}
        mirrored_to = figures.get("mirrored_to")
        values = {
            "form": form,
            "topics": sorted(self._admin.served_topics()),
            "plot": plot,
            "source": self._plots.source,
            "mirrored": await self._mirrored(topic) if topic else None,
            "planned": planned,
            "failure": failure,
            "mirrored_to": orjson.dumps(mirrored_to).decode() if mirrored_to else "",
            "same": list(_same(body, commands)) if body and commands else [],
        }
        return Page("wizard.html", "New replay", values)

    async def _mirrored(self, topic: str) -> Json | None:
        """Return the time range in which the topic can be replayed; None if unknown."""
        try:
            partitions = (await self._admin.services.offsets.coverage(topic))["partitions"]
        except Refused:
            return None
        times = [partition["times"] for partition in partitions.values() if partition["times"]]
        if not times:
            return None
        return {
            "from": min(interval["from"] for interval in times),
            "to": max(interval["to"] for interval in times),
        }


def _same(body: Json, commands: Commands) -> Iterator[tuple[str, str]]:
    yield "With curl", commands.curl("/v1/replays", "POST", body)
    yield "On the command line", commands.headgate(*words_of(body))
