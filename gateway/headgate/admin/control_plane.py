"""The control plane: health, metrics, views of topics and producers, and changes.

docs/reference/http.md describes its pages.
"""

import base64
import binascii
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from headgate.admin import views
from headgate.admin.audits import AuditPages
from headgate.admin.installation import Installation, InstallationPages
from headgate.admin.instance import Instance
from headgate.admin.monitor_answers import MonitorAnswers
from headgate.admin.pauses import PausePages
from headgate.admin.replays import OffsetPages, ReplayPages
from headgate.admin.requests import Access
from headgate.admin.status import InstanceStatus
from headgate.http.auth import Authenticator
from headgate.http.pages import (
    json_page,
    listed,
    metrics_page,
    names_of,
    paging,
    refuse_unknown,
)
from headgate.metrics.catalogue import OTHER
from headgate.metrics.snapshot import Pair, Snapshot, merge
from headgate.model.internal_topics import held_topic
from headgate.model.outcome import Failure, Reason, Refused, brief, malformed
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.reply import shown_text
from headgate.model.request import check_parameters
from headgate.model.text import did_you_mean, segment_name
from headgate.model.topics import SimilarTopics, TopicState
from headgate.redis.pauses import RedisPauses
from headgate.replays.second_tier import SecondTier

_FORGET_PARAMETERS = ("key", "key_base64", "pretty")


class Admin:
    """Pages of the control plane.

    Args:
        instance: The instance with all its workers.
        authenticator: Identifies callers.
        pauses: Store of pauses of consumer groups; None without Redis.
        services: The second tier.
        installation: Log and configuration.
    """

    def __init__(
        self,
        instance: Instance,
        authenticator: Authenticator,
        pauses: RedisPauses | None,
        services: SecondTier,
        installation: Installation,
    ) -> None:
        self.services = services
        self.access = access = Access(instance, authenticator, installation.note)
        self.pauses = PausePages(pauses, access)
        self.replays = ReplayPages(services, access)
        self.offsets = OffsetPages(services, access)
        self.installation = InstallationPages(installation)
        self.audits = AuditPages(instance)
        self.instance = instance
        self.monitor = MonitorAnswers(instance)
        self.status = InstanceStatus(
            instance, self.monitor, self.policies, services.replays.waiting
        )
        self._started_s = time.time()
        self._table: PolicyTable | None = None
        self._similar = SimilarTopics(lambda: list(self.served_topics()), time.monotonic)

    # ---- health and metrics: for probes and scrapers, without credentials

    async def live(self, _request: web.Request) -> web.Response:
        """Respond with 200 while the parent runs."""
        return web.json_response({"status": "live"})

    async def ready(self, request: web.Request) -> web.Response:
        """Respond with 200 or 503, and the worst state of each dependency in any worker."""
        health = self.instance.health()
        page = {
            "status": health.status,
            "dependencies": health.dependencies,
            "workers": health.workers,
        }
        return json_page(request, page, 200 if health.is_ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        """Respond with the metrics of all workers together."""
        await self.instance.refresh()
        return metrics_page(request, self.instance.figures.total())

    # ---- producers and topics

    async def producers(self, request: web.Request) -> web.Response:
        """Respond with all producers, page by page."""
        wanted = paging(request)
        await self.instance.refresh()
        seen = self.seen()
        every = views.producer_names(seen, self.instance.settings.producers)
        names, following = names_of(every, wanted)
        return json_page(request, listed("producers", views.producers(names, seen), following))

    async def producer(self, request: web.Request) -> web.Response:
        """Respond with one producer."""
        await self.instance.refresh()
        name = segment_name(request.match_info["name"])
        seen = self.seen()
        names = {
            *self.instance.settings.producers,
            *(detail.producer for detail in seen.figures.details),
        }
        if name not in names:
            raise Refused(self.unknown_producer(name, seen))
        return json_page(request, views.producer(name, seen))

    async def topics(self, request: web.Request) -> web.Response:
        """Respond with all topics that exist and that a policy matches, page by page."""
        wanted = paging(request)
        await self.instance.refresh()
        seen = self.seen()
        names, following = names_of(sorted(seen.policies), wanted)
        rows = views.topics(names, self.instance.topics(), seen)
        return json_page(request, listed("topics", rows, following))

    async def topic(self, request: web.Request) -> web.Response:
        """Respond with one topic."""
        await self.instance.refresh()
        name = request.match_info["topic"]
        state, policy = await self.served(name)
        held = self.instance.topics().get(held_topic(name))
        return json_page(request, views.topic(state, policy, held, self.seen()))

    async def spool(self, request: web.Request) -> web.Response:
        """Respond with the current figures of events that wait on disk for Kafka."""
        await self.instance.refresh(at_once=True)
        state = self.instance.health().dependencies.get("spool")
        return json_page(request, views.spool(self.instance.figures.total(), state))

    # ---- changes

    async def forget(self, request: web.Request) -> web.Response:
        """Drop suppression state, so that the next event of the key (or of all) is published."""
        return json_page(request, {"forgotten": await self.forget_key(request, _key)})

    async def forget_key(
        self, request: web.Request, key_of: Callable[[web.Request], bytes | None]
    ) -> dict[str, Any]:
        """Drop suppression state of a key, and record that in the change log.

        Args:
            request: Request with the topic.
            key_of: Returns the key in the request; None: all keys.

        Returns:
            Topic and key, for the response.
        """
        caller = self.access.identify(request, "operate")
        name = request.match_info["topic"]
        _, policy = await self.served(name)
        if policy.suppress == "off":
            raise Refused(malformed(f"topic {brief(name)} does not suppress"))
        key = key_of(request)
        failed = await self.instance.forget(name, key)
        if failed is not None:
            raise Refused(failed)
        shown = None if key is None else shown_text(key.decode("utf-8", "backslashreplace"))
        forgotten = {"topic": name, "key": shown}
        self.access.changed(request, caller, "forget", forgotten)
        return forgotten

    async def groups(self, request: web.Request) -> web.Response:
        """Respond with the monitor's page of all groups, or of one."""
        authorization = request.headers.get("Authorization")
        response = await self.instance.monitored(str(request.rel_url), authorization)
        if isinstance(response, Failure):
            raise Refused(response)
        return web.Response(
            status=response.status, body=response.body, content_type=response.content_type
        )

    async def changes(self, request: web.Request) -> web.Response:
        """Respond with the latest changes since the start, newest first."""
        refuse_unknown(request)
        return json_page(request, {"changes": list(reversed(self.access.changes))})

    def seen(self, wanted: Callable[[Pair], bool] | None = None) -> views.ViewInput:
        """Return the input of the views.

        Args:
            wanted: Selects the pairs that include sketches; None: all.
        """
        instance, policies = self.instance, self.served_topics()
        figures, suppression = instance.figures.total(wanted), instance.suppression()
        # With one port, and for readers and operators, this process checks the tokens.
        figures = merge(figures, Snapshot(tokens=self.access.authenticator.token_uses()))
        settings, now_s = instance.settings, time.time()
        producers = settings.producers if "token" in settings.auth.mode else {}
        tokens = {name: producer.token_sha256 for name, producer in producers.items()}
        return views.ViewInput(
            figures, instance.rates, policies, suppression, now_s, tokens, self._started_s
        )

    def policies(self) -> PolicyTable:
        """Return the policies of the active configuration, compiled once."""
        topics = self.instance.settings.topics
        if self._table is None or self._table.policies is not topics:
            self._table = PolicyTable(topics)
        return self._table

    def unknown_producer(self, name: str, seen: views.ViewInput) -> Failure:
        """Return the failure for a producer without a page."""
        detail = f"no producer {brief(name)} is configured"
        if name in seen.figures.unconfigured:
            detail += (
                f'. It has sent events: they are counted with those of "{OTHER}"; '
                "add its section to [producers] to count them apart"
            )
        else:
            detail += ", and none with this name is among the known senders of events"
        return Failure(Reason.NOT_FOUND, detail)

    def unknown_topic(self, name: str) -> Failure:
        """Return the failure for an unknown topic, with the topic that may be meant.

        Callers of these pages may see all topics.
        """
        detail = f"no topic {brief(name)} is served here"
        meant = self._similar.find(name, lambda _: True)
        return Failure(
            Reason.UNKNOWN_TOPIC, f"{detail}. {did_you_mean(meant)}" if meant else detail
        )

    def served_topics(self) -> dict[str, TopicPolicy]:
        """Return the policies of the topics that exist and that a policy matches, by topic."""
        table = self.policies()
        policies = ((name, table.match(name)) for name in self.instance.topics())
        return {name: policy for name, policy in policies if policy is not None}

    async def served(self, name: str) -> tuple[TopicState, TopicPolicy]:
        """Return a topic that Kafka has and a policy matches.

        Raises:
            Refused: There is no such topic.
        """
        if name not in self.instance.topics():
            await self.instance.refresh(at_once=True)  # workers may serve it by now
        state = self.instance.topics().get(name)
        policy = self.policies().match(name)
        if policy is not None and self.instance.health().workers["up"] == 0:
            detail = f"no worker is up that serves topic {brief(name)}: the gateway is starting"
            raise Refused(Failure(Reason.OVERLOADED, detail, retry_after_s=1))
        if state is None or policy is None:
            raise Refused(self.unknown_topic(name))
        return state, policy


def _key(request: web.Request) -> bytes | None:
    """Return the key in the query: ?key= as UTF-8 text, or ?key_base64=; None without both."""
    check_parameters(request.query, _FORGET_PARAMETERS)  # a misspelled key forgets every key
    encoded = request.query.get("key_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise Refused(malformed("key_base64 is not base64")) from error
    text = request.query.get("key")
    return None if text is None else text.encode()
