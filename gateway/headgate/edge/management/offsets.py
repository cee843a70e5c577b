"""The pages of the offset map: translate offsets, what is mirrored, and named offsets."""

from typing import Any, Protocol

from aiohttp import web

from headgate.edge.management.replays import Changed, IdentifyCaller, Rows
from headgate.edge.management.requests import Bodies
from headgate.edge.pages import json_page


class OffsetService(Protocol):
    """Knows the offset map. Every call raises Refused."""

    async def translate(self, request_body: Any) -> dict[str, Any]: ...

    async def coverage(self, topic: str) -> dict[str, Any]: ...


class SnapshotService(Protocol):
    """Keeps named offsets. Every call raises Refused."""

    async def all(self) -> Rows: ...

    async def take(self, request_body: Any, caller: str) -> tuple[dict[str, Any], bool]: ...


class OffsetPages:
    """changed: see `ReplayPages`."""

    def __init__(
        self,
        service: OffsetService,
        snapshots: SnapshotService,
        identify: IdentifyCaller,
        bodies: Bodies,
        changed: Changed,
    ) -> None:
        self._service = service
        self._snapshots = snapshots
        self._identify = identify
        self._bodies = bodies
        self._changed = changed

    async def translate(self, request: web.Request) -> web.Response:
        """Offsets of one tier to those of the other. Changes nothing, so `view` is enough."""
        self._identify(request, "view")
        return json_page(request, await self._service.translate(await self._bodies.json(request)))

    async def coverage(self, request: web.Request) -> web.Response:
        """What of a topic is mirrored."""
        self._identify(request, "view")
        return json_page(request, await self._service.coverage(request.match_info["topic"]))

    async def snapshots(self, request: web.Request) -> web.Response:
        """All named offsets."""
        self._identify(request, "view")
        rows, unavailable = await self._snapshots.all()
        return json_page(request, {"snapshots": rows, "unavailable": unavailable})

    async def take_snapshot(self, request: web.Request) -> web.Response:
        """Name the offsets of now."""
        caller = self._identify(request, "operate")
        page, is_new = await self._snapshots.take(await self._bodies.json(request), caller.name)
        if is_new:
            self._changed(request, caller, "snapshot", {"snapshot": page["name"]})
        return json_page(request, page, 201 if is_new else 200)
