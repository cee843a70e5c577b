"""The console's world: instances with nothing, with much, with hostile names; groups, audits."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson

from headgate.admin.instance import InstanceHealth, Monitored
from headgate.config.settings import ProducerSettings, Settings
from headgate.metrics.meter import HeldFigures
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason
from headgate.model.policy import TopicPolicy
from headgate.model.suppression_states import QUARANTINE, TopicSuppression
from headgate.monitor import views
from headgate.monitor.cluster_monitor import ClusterMonitor
from support.gateway.admin_world import FakeInstance
from support.scenarios.group_world import GROUP, World

HOSTILE = "<script>alert('1')</script>\"&amp;'"
NO_MONITOR = Failure(Reason.MONITOR_UNAVAILABLE, "no monitor answers: start `headgate monitor`")
TOO_LARGE = Failure(Reason.TOO_LARGE, "900000 bytes are over max_bytes")


@dataclass
class ConsoleInstance(FakeInstance):
    """groups: what the monitor says, by path without the query; none: no monitor runs.

    away: the dependencies that do not answer, and what is said of them.  refused: what the
    monitor answers to everything.
    """

    groups: dict[str, Any] = field(default_factory=dict)
    away: dict[str, str] = field(default_factory=dict)
    refused: Monitored | None = None

    def health(self) -> InstanceHealth:
        health = super().health()
        for name, detail in self.away.items():
            health.dependencies[name] = {"ok": False, "required": True, "detail": detail}
        return health

    async def monitored(self, path: str, authorization: str | None) -> Monitored | Failure:
        if self.refused is not None:
            return self.refused
        if not self.groups:
            return NO_MONITOR
        address = urlsplit(path)
        asked = dict(parse_qsl(address.query))
        if "partition" in asked:
            return self._readers(asked["topic"], int(asked["partition"]))
        found = self.groups.get(unquote(address.path))
        if found is None:
            problem = {"detail": "no cluster has this group", "reason": "not_found", "status": 404}
            return Monitored(404, "application/problem+json", orjson.dumps(problem))
        return Monitored(200, "application/json", orjson.dumps(found))

    def _readers(self, topic: str, partition: int) -> Monitored:
        """Of the groups that have a page here."""
        rows = [
            {**on, "partition": one}
            for group in self.groups.values()
            for on in group.get("on", ())
            for one in on["partitions"]
            if (one["topic"], one["partition"]) == (topic, partition)
        ]
        return Monitored(200, "application/json", orjson.dumps({"groups": rows, "next": None}))

    async def pass_time(self, minutes: int = 6, post: Any = None) -> None:
        """Let the recorder see figures once in ten seconds. post: called before each look."""
        start = time.time() - 60 * minutes
        for step in range(6 * minutes):
            if post is not None:
                post(step)
            await self.refresh()
            self.history.note(start + 10 * step, self.figures)


def empty() -> ConsoleInstance:
    """A gateway that nobody uses and without a topic."""
    return ConsoleInstance(Settings())


async def busy(producers: int = 1000, topics: int = 500, groups: int = 500) -> ConsoleInstance:
    """As large as the console has to stand. Each producer posts to one topic."""
    names = [f"producer-{number:04}" for number in range(producers)]
    policies = tuple(
        TopicPolicy(f"topic-{number:03}", "main", key=("/id",), kind="state", suppress="raw")
        for number in range(topics)
    )
    instance = ConsoleInstance(
        Settings(producers=dict.fromkeys(names, ProducerSettings()), topics=policies)
    )
    meter = instance.meter
    for number, name in enumerate(names):
        topic = f"topic-{number % topics:03}"
        outcomes = [
            Outcome(OutcomeName.PUBLISHED, 0, 0, b"%d" % key) for key in range(number % 40 + 1)
        ]
        outcomes += [Outcome(OutcomeName.UNCHANGED, 0, 0, b"1")] * (number % 7)
        meter.account(name, topic, outcomes, [600 + number] * len(outcomes))
        if number % 3 == 0:
            refused = Outcome(OutcomeName.REJECTED, key=b"2342565", failure=TOO_LARGE)
            meter.account(name, topic, [refused], [900_000])
        meter.acknowledged(topic, number % 12, 0.004, number % 40 + 1, 600 * (number % 40 + 1))
    instance.suppressed = {"topic-001": TopicSuppression(QUARANTINE, 30.0)}

    def post(step: int) -> None:
        for number in range(step % 5, min(producers, 60), 5):
            outcome = Outcome(OutcomeName.PUBLISHED, 0, 0, b"%d" % step)
            size = 800 + 40 * step
            meter.account(names[number], f"topic-{number % topics:03}", [outcome] * 9, [size] * 9)

    await instance.pass_time(1, post)
    instance.groups = monitored(groups)
    return instance


async def small() -> ConsoleInstance:
    """Three topics and two producers, one of which is the data bomb of incident A."""
    instance = ConsoleInstance(
        Settings(
            producers={"shop": ProducerSettings(), "quiet": ProducerSettings()},
            topics=(
                TopicPolicy("orders", "main", key=("/id",)),
                TopicPolicy("deals", "main", key=("/id",), kind="state", suppress="raw"),
                TopicPolicy("saves", "main", key=("/id",), kind="state", coalesce_quiet_ms=2000),
            ),
        )
    )
    instance.since["kafka main"] = time.time() - 7200
    meter = instance.meter
    meter.watch_held(lambda: {"saves": HeldFigures(3, 4096, 1.5, 40)})

    def post(step: int) -> None:
        same = [Outcome(OutcomeName.UNCHANGED, 0, 0, b"2342565")] * (20 + step % 7)
        meter.account("shop", "deals", same, [800_000] * len(same))
        new = [Outcome(OutcomeName.PUBLISHED, step % 12, 0, b"%d" % key) for key in range(30)]
        meter.account("shop", "orders", new, [650] * 30)
        meter.acknowledged("orders", step % 12, 0.004, 30, 30 * 650)
        meter.acknowledged("deals", 4, 0.004, 2, 1_600_000)
        if step % 4 == 0:
            refused = Outcome(OutcomeName.REJECTED, key=b"2342565", failure=TOO_LARGE)
            meter.account("shop", "deals", [refused], [900_000], f"request-{step}")

    await instance.pass_time(20, post)
    instance.groups = monitored(3)
    return instance


async def hostile(name: str = HOSTILE) -> ConsoleInstance:
    """Every name and text that others choose is this one, by default a script."""
    policies = (TopicPolicy("orders", "main", key=("/id",)),)
    settings = Settings(producers={name: ProducerSettings()}, topics=policies)
    instance = ConsoleInstance(settings)

    def post(step: int) -> None:
        key = name.encode()
        failure = Failure(Reason.MALFORMED, name)
        refused = Outcome(OutcomeName.REJECTED, key=key, failure=failure)
        instance.meter.account(name, "orders", [refused], [10])
        instance.meter.account(name, "orders", [Outcome(OutcomeName.PUBLISHED, 0, 0, key)], [10])

    await instance.pass_time(1, post)
    text = json.dumps(monitored(2))
    spoilt = json.dumps(name)[1:-1]
    instance.groups = json.loads(text.replace("billing", spoilt).replace("c1-app", spoilt))
    instance.audited = {"orders": audit("orders", name)}
    return instance


def stuck() -> World:
    """Incident B: a former owner commits below what is done."""
    world = World(partitions=3)
    world.produce(5)
    world.produce(40, 1)
    world.member("c1", 0, 1)
    world.commit(0, by="c1")
    world.poll()
    for offset in (1, 2, 3):
        world.commit(offset, by="c1")
        world.commit(10 * offset, 1, by="c1")
        world.poll()
    world.produce(3)
    world.member("c2", 0)
    world.poll()
    world.commit(7, by="c2")
    world.poll()
    world.commit(5, by="c1")
    world.polls(3)
    return world


def monitored(count: int) -> dict[str, Any]:
    """What a monitor answers about so many groups, of which the first is stuck."""
    world = stuck()
    status = SimpleNamespace(ok=True)
    cluster = cast(ClusterMonitor, SimpleNamespace(name="main", watch=world.watch, status=status))
    watch = world.watch.groups[GROUP]
    row = views.group_row("main", watch, world.group, world.watch.options, ())
    page = views.group_page(cluster, watch, world.group, (), world.now_ms)
    healthy = {**row, "state": "OK", "lag": 0, "heat": "hot", "hints": [], "regressions": 0,
               "stuck_commit": False}  # fmt: skip
    rows = [row, *({**healthy, "group": f"group-{number:03}"} for number in range(1, count))]
    return {
        "/v1/groups": {
            "groups": rows,
            "next": None,
            "regressions": page["recent_regressions"],
            "clusters": [_cluster()],
            "cannot_be_seen": list(views.CANNOT_BE_SEEN),
        },
        f"/v1/groups/{GROUP}": {"group": GROUP, "on": [page]},
    }


def _cluster() -> dict[str, Any]:
    return {
        "cluster": "main", "ok": True, "detail": "connected", "looked_at": "2026-01-31T12:00:00Z",
        "look_s": 0.1, "every_commit_is_seen": True, "why_not": None,
        "partitions": {"under_replicated": 0, "offline": 0, "below_min_isr": 0},
        "rogue_readers": [{"topic": "orders", "bytes_per_s": 9_000_000,
                           "unexplained_per_s": 7_000_000, "since": "2026-01-31T12:00:00Z"}],
        "rogue_readers_unknown": None, "drift": [],
    }  # fmt: skip


def audit(topic: str, producer: str = "deal-admin") -> bytes:
    """A result of `headgate-spark audit`, of a topic with incident A. producer: who is named."""
    from headgate_spark.audit.result import document
    from support.scenarios import skew_world

    found = document([skew_world.figures_of(skew_world.data_bomb())], 1_769_860_800_000)
    found = json.loads(json.dumps(found).replace("deal-admin", json.dumps(producer)[1:-1]))
    at = found["generated_at"]
    return orjson.dumps({**found["topics"][0], "topic": topic, "generated_at": at})
