"""A new replay, step by step: topic, time, filter, mode, dry run, create."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from aiohttp import web

from headgate.core.outcome import Failure
from headgate.core.refusal import Refused
from headgate.edge.auth import Identity
from headgate.edge.console.figures import Plot, Plots, named
from headgate.edge.console.page import Commands, Done, Page
from headgate.edge.console.replays import EMPTY, body_of, words_of
from headgate.edge.management.control_plane import Admin
from headgate.edge.management.requests import Form
from headgate.metrics import history as recorder

_LONGEST = 100_000  # characters of a field

Json = dict[str, Any]


class Wizard:
    """Asks the same service as the API."""

    def __init__(self, admin: Admin, plots: Plots) -> None:
        self._admin = admin
        self._plots = plots

    async def show(self, request: web.Request, _caller: Identity) -> Page:
        """The empty form."""
        topic = request.query.get("topic", "").strip()[:249]
        name = f"{topic} again" if topic else ""
        form = {**EMPTY, "topic": topic, "name": name, "once": os.urandom(12).hex()}
        return await self._page(form)

    async def send(self, request: web.Request, given: Form) -> Page | Done:
        """A dry run, or the real one."""
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
                form, body, failure=refused.failure, commands=Commands.of(request)
            )
        return await self._page(form, body, page["planned"], commands=Commands.of(request))

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
        plot = Plot("brush", f"Events per second of {topic} by outcome", "events",
                    recorder.EVENTS, events, named(events), brush=True)  # fmt: skip
        figures = (failure.figures if failure else None) or {}
        mirrored_to = figures.get("mirrored_to")
        values = {
            "form": form,
            "topics": sorted(self._served()),
            "plot": plot,
            "source": self._plots.source,
            "mirrored": await self._mirrored(topic) if topic else None,
            "planned": planned,
            "failure": failure,
            "mirrored_to": orjson.dumps(mirrored_to).decode() if mirrored_to else "",
            "same": list(_same(body, commands)) if body and commands else [],
        }
        return Page("wizard.html", "New replay", values)

    def _served(self) -> list[str]:
        policies = self._admin.policies()
        topics = self._admin.instance.topics()
        return [name for name in topics if policies.match(name) is not None]

    async def _mirrored(self, topic: str) -> Json | None:
        """From when to when all of it can be replayed; None where that is unknown."""
        try:
            found = (await self._admin.services.offsets.coverage(topic))["partitions"]
        except Refused:
            return None
        times = [one["times"] for one in found.values() if one["times"]]
        if not times:
            return None
        return {
            "from": min(one["from"] for one in times),
            "to": max(one["to"] for one in times),
        }


def _same(body: Json, commands: Commands) -> Iterator[tuple[str, str]]:
    yield "With curl", commands.curl("/v1/replays", "POST", body)
    yield "On the command line", commands.headgate(*words_of(body))
