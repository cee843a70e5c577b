"""The pages of the second tier: replays, translated offsets, coverage and snapshots."""

import asyncio
from functools import partial
from typing import Any

from aiohttp import web

from headgate.admin.requests import Access, EventStreams
from headgate.http.pages import Handler, json_page, refuse_unknown
from headgate.model.outcome import Failure, Reason, Refused, malformed
from headgate.model.reply import json_text
from headgate.model.request import read_options
from headgate.replays.registry import FINISHED, Control
from headgate.replays.second_tier import SecondTier

_MAX_KEY = 256
_POLL_S = 1.0
_SILENT_POLLS = 15  # a comment line is sent then, so that proxies keep the connection
_MAX_STREAMS = 100
_ENDS = frozenset(map(str, FINISHED))


class ReplayPages:
    """Pages of replays.

    Args:
        services: Services of the second tier.
        access: Authentication, request bodies and the change log.
    """

    def __init__(self, services: SecondTier, access: Access) -> None:
        self._service = services.replays
        self._access = access
        detail = f"{_MAX_STREAMS} streams are open already: ask for the page instead"
        busy = Failure(Reason.OVERLOADED, detail, retry_after_s=5)
        self._streams = EventStreams(_MAX_STREAMS, busy)

    async def create(self, request: web.Request) -> web.Response:
        """Create a replay, or plan it (dry_run). A dry run only reads, so it needs only `view`."""
        self._access.identify(request, "view", "operate")  # the body decides which role is needed
        request_body = await self._access.json(request)
        page, is_new = await self.ask(request, request_body, _key(request))
        if not is_new:
            return json_page(request, page)
        answer = json_page(request, page, 201)
        answer.headers["Location"] = f"/v1/replays/{page['id']}"
        return answer

    async def ask(
        self, request: web.Request, request_body: Any, key: str | None
    ) -> tuple[dict[str, Any], bool]:
        """Create or plan a replay.

        Args:
            request: Request of the caller.
            request_body: Description of the replay.
            key: Idempotency-Key, if any.

        Returns:
            The page, and whether the replay is new.
        """
        is_dry = isinstance(request_body, dict) and request_body.get("dry_run") is True
        caller = self._access.identify(request, "view" if is_dry else "operate")
        page, is_new = await self._service.create(request_body, caller.name, key)
        if is_new:
            fields = {"replay": page["id"], "called": page["name"], "topic": page["topic"]}
            self._access.changed(request, caller, "replay", fields)
        return page, is_new

    async def list(self, request: web.Request) -> web.Response:
        """Respond with all replays, or those of a topic or in a state."""
        refuse_unknown(request, "topic", "state")
        query = request.query
        rows, unavailable = await self._service.list(query.get("topic"), query.get("state"))
        return json_page(request, {"replays": rows, "unavailable": unavailable})

    async def show(self, request: web.Request) -> web.Response:
        """Respond with one replay."""
        return json_page(request, await self._service.show(request.match_info["id"]))

    def changer(self, wanted: Control) -> Handler:
        """Return the page that changes the state of a replay, and responds with the replay."""

        async def changed(request: web.Request) -> web.Response:
            return json_page(request, await self.change(request, wanted))

        return changed

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Stream a replay as server-sent events: now and after each change.

        The stream ends with the replay, or if the reader loses the right to see it.
        """
        page = await self._service.show(request.match_info["id"])
        report = partial(self._report, page=page, request=request)
        return await self._streams.respond(request, {"Cache-Control": "no-store"}, report)

    async def _report(
        self, answer: web.StreamResponse, page: dict[str, Any], request: web.Request
    ) -> None:
        sent, silent = None, 0
        while True:
            if page != sent:
                data = json_text(page)
                await answer.write(f"event: replay\ndata: {data}\n\n".encode())
                sent, silent = page, 0
            if page["state"] in _ENDS:
                return
            await asyncio.sleep(_POLL_S)
            silent += 1
            if silent % _SILENT_POLLS == 0:
                await answer.write(b": still there\n\n")
            try:
                self._access.identify(request, "view")
            except Refused:
                return
            try:
                page = await self._service.show(page["id"])
            except Refused as refusal:
                if refusal.failure.reason is Reason.NOT_FOUND:
                    return  # the registry forgets replays that have ended

    async def change(self, request: web.Request, wanted: Control) -> dict[str, Any]:
        """Change the state of a replay, and record that in the change log. Return the page."""
        caller, replay_id = self._access.identify(request, "operate"), request.match_info["id"]
        page = await self._service.control(replay_id, wanted)
        what = {Control.CANCEL: "cancel", Control.PAUSE: "pause", Control.RUN: "resume"}[wanted]
        self._access.changed(request, caller, f"{what} replay", {"replay": replay_id})
        return page


def _key(request: web.Request) -> str | None:
    read_options(
        {name.lower(): value for name, value in request.raw_headers}
    )  # refuses misspelled ones
    given = request.headers.get("Idempotency-Key")
    if given is not None and not (0 < len(given) <= _MAX_KEY and given.isprintable()):
        detail = f"Idempotency-Key has 1 to {_MAX_KEY} printable characters"
        raise Refused(malformed(detail))
    return given


# ---- offsets, coverage and snapshots


class OffsetPages:
    """Pages of offsets, coverage and snapshots.

    Args:
        services: Services of the second tier.
        access: Authentication, request bodies and the change log.
    """

    def __init__(self, services: SecondTier, access: Access) -> None:
        self._offsets = services.offsets
        self._snapshots = services.snapshots
        self._access = access

    async def translate(self, request: web.Request) -> web.Response:
        """Translate offsets between the tiers. This changes nothing, so it needs only `view`."""
        return json_page(request, await self._offsets.translate(await self._access.json(request)))

    async def coverage(self, request: web.Request) -> web.Response:
        """Respond with the mirrored part of a topic."""
        return json_page(request, await self._offsets.coverage(request.match_info["topic"]))

    async def snapshots(self, request: web.Request) -> web.Response:
        """Respond with all named offsets."""
        refuse_unknown(request)
        rows, unavailable = await self._snapshots.all()
        return json_page(request, {"snapshots": rows, "unavailable": unavailable})

    async def take_snapshot(self, request: web.Request) -> web.Response:
        """Create a snapshot: a name for the current offsets."""
        caller = self._access.identify(request, "operate")
        page, is_new = await self._snapshots.take(await self._access.json(request), caller.name)
        if is_new:
            self._access.changed(request, caller, "snapshot", {"snapshot": page["name"]})
        return json_page(request, page, 201 if is_new else 200)
