"""The management port: metrics, health, and the control plane's pages (docs/reference/http.md)."""

import base64
import binascii
import logging
import time
from collections import deque
from typing import Any, NamedTuple

import orjson
from aiohttp import web

from headgate.core.coalescing.held import held_topic
from headgate.core.consuming.pauses import Intent
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, malformed
from headgate.core.topics.policy import PolicyTable
from headgate.core.topics.topic import TopicState
from headgate.edge.auth import Authenticator, Identity
from headgate.edge.management import views
from headgate.edge.management.documents import DocumentPages
from headgate.edge.management.installation import Installation, InstallationPages
from headgate.edge.management.instance import Instance
from headgate.edge.management.json_bodies import JsonBodies
from headgate.edge.management.json_page import json_page
from headgate.edge.management.offsets import OffsetPages, OffsetService, SnapshotService
from headgate.edge.management.paging import listed, names_of, paging
from headgate.edge.management.pauses import PauseEndpoints, read_intent
from headgate.edge.management.remote import asking
from headgate.edge.management.replays import ReplayPages, ReplayRequests
from headgate.edge.management.view_parts import iso
from headgate.edge.request_log import REPORTED
from headgate.stats.exposition import CONTENT_TYPE, render

log = logging.getLogger("headgate.changes")

_CHANGES_KEPT = 200


class Services(NamedTuple):
    """Who carries out what the pages of the second tier are asked."""

    replays: ReplayRequests
    offsets: OffsetService
    snapshots: SnapshotService


class Admin:
    """The pages. callers: who may do what; replaced at a reload.  pauses: of consumer groups."""

    def __init__(
        self,
        instance: Instance,
        callers: Authenticator,
        pauses: PauseEndpoints,
        services: Services,
        installation: Installation,
    ) -> None:
        self._pauses = pauses
        self._bodies = bodies = JsonBodies(instance.settings.http.body_timeout_ms / 1000)
        self.replays = ReplayPages(services.replays, self._identify, bodies, self._changed)
        self.offsets = OffsetPages(services[1], services[2], self._identify, bodies, self._changed)
        self.installation = InstallationPages(installation, self._identify)
        self.documents = DocumentPages(instance.settings.http)
        self._instance = instance
        self.callers = callers
        self._table: PolicyTable | None = None
        self._changes: deque[dict[str, Any]] = deque(maxlen=_CHANGES_KEPT)

    # ---- health and metrics: for probes and scrapers, without credentials

    async def live(self, _request: web.Request) -> web.Response:
        """200 while the parent runs."""
        return web.json_response({"status": "live"})

    async def ready(self, request: web.Request) -> web.Response:
        """200 or 503, with the worst state of each dependency that any worker sees."""
        health = self._instance.health()
        page = {
            "status": health.status,
            "dependencies": health.dependencies,
            "workers": health.workers,
        }
        return json_page(request, page, 200 if health.is_ready else 503)

    async def metrics(self, _request: web.Request) -> web.Response:
        """Prometheus text of all workers together."""
        await self._instance.refresh()
        text = render(self._instance.figures.total(), time.time())
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    # ---- producers and topics

    async def producers(self, request: web.Request) -> web.Response:
        """All producers, page by page."""
        self._identify(request, "view")
        wanted = paging(request)
        await self._instance.refresh()
        seen = self._seen()
        every = views.producer_names(seen, self._instance.settings.producers)
        names, following = names_of(every, wanted)
        return json_page(request, listed("producers", views.producers(names, seen), following))

    async def producer(self, request: web.Request) -> web.Response:
        """One producer."""
        self._identify(request, "view")
        await self._instance.refresh()
        name = request.match_info["name"]
        seen = self._seen()
        known = {
            *self._instance.settings.producers,
            *(detail.producer for detail in seen.figures.details),
        }
        if name not in known:
            raise Refused(
                Failure(Reason.NOT_FOUND, f"no producer {name!r} is configured or was seen")
            )
        return json_page(request, views.producer(name, seen))

    async def topics(self, request: web.Request) -> web.Response:
        """All topics that exist and that a policy matches, page by page."""
        self._identify(request, "view")
        wanted = paging(request)
        await self._instance.refresh()
        seen = self._seen()
        names, following = names_of(sorted(seen.policies), wanted)
        rows = views.topics(names, self._instance.topics(), seen)
        return json_page(request, listed("topics", rows, following))

    async def topic(self, request: web.Request) -> web.Response:
        """One topic."""
        self._identify(request, "view")
        await self._instance.refresh()
        name = request.match_info["topic"]
        state, policy = await self._topic(name)
        held = self._instance.topics().get(held_topic(name))
        return json_page(request, views.topic(state, policy, held, self._seen()))

    async def spool(self, request: web.Request) -> web.Response:
        """What waits on disk for Kafka, and how it goes. Whoever waits for it wants it fresh."""
        self._identify(request, "view")
        await self._instance.refresh(at_once=True)
        state = self._instance.health().dependencies.get("spool")
        return json_page(request, views.spool(self._instance.figures.total(), state))

    async def audits(self, request: web.Request) -> web.Response:
        """The newest skew audit of all topics, or of one."""
        self._identify(request, "view")
        found = await self._instance.audits()
        if isinstance(found, Failure):
            raise Refused(found)
        wanted = request.query.get("topic")
        chosen = {topic: one for topic, one in found.items() if wanted in (None, topic)}
        if not chosen:
            detail = "no audit yet: run `headgate-spark audit`"
            raise Refused(
                Failure(Reason.NOT_FOUND, detail + (f" for {wanted!r}" if wanted else ""))
            )
        # each is spliced in as it was published
        return json_page(
            request, {"topics": [orjson.Fragment(chosen[name]) for name in sorted(chosen)]}
        )

    # ---- changes

    async def forget(self, request: web.Request) -> web.Response:
        """Drop suppression state, so that the next event of the key (or of all) is published."""
        caller = self._identify(request, "operate")
        name = request.match_info["topic"]
        _, policy = await self._topic(name)
        if policy.suppress == "off":
            raise Refused(malformed(f"topic {name!r} does not suppress"))
        key = _key(request)
        failed = await self._instance.forget(name, key)
        if failed is not None:
            raise Refused(failed)
        shown = None if key is None else key.decode("utf-8", "backslashreplace")
        self._changed(request, caller, "forget", {"topic": name, "key": shown})
        return json_page(request, {"forgotten": {"topic": name, "key": shown}})

    async def paused(self, request: web.Request) -> web.Response:
        """Every reason why a group, or a part of it, is paused."""
        self._identify(request, "view")
        return json_page(request, await self._pauses.shown(request.match_info["group"]))

    async def pause(self, request: web.Request) -> web.Response:
        """Pause a group, a topic or a partition of it, for a reason."""
        caller, group = self._identify(request, "operate"), request.match_info["group"]
        intent = read_intent(await self._bodies.read(request))
        await self._pauses.pause(group, intent, caller.name)
        self._changed(request, caller, "pause", _paused(group, intent))
        return json_page(request, await self._pauses.shown(group))

    async def resume(self, request: web.Request) -> web.Response:
        """Take one reason away; reading goes on when all are gone."""
        caller, group = self._identify(request, "operate"), request.match_info["group"]
        intent = read_intent(await self._bodies.read(request))
        await self._pauses.resume(group, intent)
        self._changed(request, caller, "resume", _paused(group, intent))
        return json_page(request, await self._pauses.shown(group))

    async def groups(self, request: web.Request) -> web.Response:
        """What the monitor says of all groups, or of one."""
        self._identify(request, "view")
        authorization = request.headers.get("Authorization")
        found = await self._instance.monitored(str(request.rel_url), authorization)
        if isinstance(found, Failure):
            raise Refused(found)
        return web.Response(status=found.status, body=found.body, content_type=found.content_type)

    async def changes(self, request: web.Request) -> web.Response:
        """The newest changes made here since the start, newest first."""
        self._identify(request, "view")
        return json_page(request, {"changes": list(reversed(self._changes))})

    def _changed(
        self, request: web.Request, caller: Identity, what: str, fields: dict[str, Any]
    ) -> None:
        remote = asking(request).address or "unix socket"
        change = {"at": iso(time.time()), "who": caller.name, "remote": remote, "what": what}
        self._changes.append(change | fields)
        log.info("change: %s by %s", what, caller.name, extra={"remote": remote, **fields})

    def _seen(self) -> views.ViewInput:
        instance = self._instance
        table = self._policies()
        topics = instance.topics()
        policies = {name: policy for name in topics if (policy := table.match(name)) is not None}
        figures, suppression = instance.figures.total(), instance.suppression()
        return views.ViewInput(figures, instance.rates, policies, suppression, time.time())

    def _policies(self) -> PolicyTable:
        """Of the configuration in force, made once."""
        topics = self._instance.settings.topics
        if self._table is None or self._table.policies is not topics:
            self._table = PolicyTable(topics)
        return self._table

    async def _topic(self, name: str) -> tuple[TopicState, Any]:
        if name not in self._instance.topics():
            await self._instance.refresh(at_once=True)  # workers may take its events by now
        state = self._instance.topics().get(name)
        policy = self._policies().match(name)
        if state is None or policy is None:
            raise Refused(Failure(Reason.UNKNOWN_TOPIC, f"no topic {name!r} is served here"))
        return state, policy

    def _identify(self, request: web.Request, *roles: str) -> Identity:
        headers = {name.lower(): value for name, value in request.raw_headers}
        found = self.callers.identify(headers, asking(request))
        if isinstance(found, Failure):
            raise Refused(found)
        if found.roles.isdisjoint(roles):
            detail = f"this needs the role {' or '.join(map(repr, roles))}"
            if self._instance.settings.auth.is_open:
                detail += '; with auth.mode = "none" changes are allowed from loopback only'
            raise Refused(Failure(Reason.FORBIDDEN, detail))
        request.setdefault(REPORTED, {})["producer"] = found.name
        return found


def _key(request: web.Request) -> bytes | None:
    """?key= as UTF-8 text, or ?key_base64=; None when neither is given."""
    encoded = request.query.get("key_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise Refused(malformed("key_base64 is not base64")) from error
    text = request.query.get("key")
    return None if text is None else text.encode()


def _paused(group: str, intent: Intent) -> dict[str, Any]:
    return {"group": group, "scope": str(intent.scope), "reason": intent.reason}
