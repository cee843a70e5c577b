"""The console in the states in which it is looked at: nothing, idle, much, and all else gone."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from headgate.admin.console.app import Console
from headgate.config.settings import ProducerSettings, Settings
from headgate.model.installation import Kind, NewEntry
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.policy import TopicPolicy
from headgate.redis.pauses import Intent, Kept, PauseScope
from headgate.replays.second_tier import NoSecondTier, Rows, SecondTier
from headgate.supervisor.installation_log import InstallationLog
from support.console import audits, world
from support.console.replays import ReplaysInMemory, some_replays
from support.console.world import ConsoleInstance
from support.gateway.admin_world import KeptInMemory, admin_of
from support.scenarios.group_world import GROUP

AWAY = Failure(Reason.KAFKA_UNAVAILABLE, "cluster main does not answer: no broker is reachable")


class Situation(NamedTuple):
    """What is behind the pages. parts: what stands for the variable parts of addresses."""

    instance: ConsoleInstance
    services: SecondTier
    store: KeptInMemory
    log: InstallationLog
    parts: dict[str, str]


class ReplaysAway(NoSecondTier):
    """Implements the services of the second tier while nobody can be asked."""

    async def list(self, _topic: str | None, _state: str | None) -> Rows:
        raise Refused(AWAY)

    async def show(self, _replay_id: str) -> dict[str, Any]:
        raise Refused(AWAY)


async def nothing() -> Situation:
    """A gateway that nobody uses and without a topic."""
    replays = ReplaysInMemory()
    log = InstallationLog(None)
    return Situation(world.empty(), replays.services(), KeptInMemory(), log, _parts("none"))


async def idle() -> Situation:
    """Topics and a producer are configured; nobody has posted yet."""
    topics = (TopicPolicy("topic-001", "main", key=("/id",), kind="state", suppress="raw"),)
    settings = Settings(producers={"producer-0003": ProducerSettings()}, topics=topics)
    instance = ConsoleInstance(settings)
    await instance.pass_time(2)
    replays = ReplaysInMemory()
    log = InstallationLog(None)
    log.note(NewEntry(Kind.STARTED, "gateway", "with 2 workers"))
    return Situation(instance, replays.services(), KeptInMemory(), log, _parts("none"))


async def much() -> Situation:
    """As large as the console has to stand."""
    instance = await world.busy()
    instance.audited = {**audits.many(60), **audits.some()}
    replays = await some_replays("topic-001")
    store = KeptInMemory()
    intent = Intent(PauseScope("topic-001", None), "the new release is being tested")
    store.groups[GROUP] = {intent: Kept(intent, "operator", 1_790_000_000_000)}
    log = InstallationLog(None)
    for number in range(300):
        kind = list(Kind)[number % len(Kind)]
        log.note(NewEntry(kind, f"subject {number}", "what happened, in a sentence of its own"))
    return Situation(
        instance, replays.services(), store, log, _parts(next(iter(replays.registry)).id)
    )


async def gone() -> Situation:
    """Some use, and then nothing behind the gateway answers any more."""
    found = await much()
    instance = found.instance
    instance.is_ready = False
    instance.away = {
        "kafka main": "no broker is reachable: 10.0.0.1:9092, 10.0.0.2:9092, 10.0.0.3:9092",
        "redis": "Error 111 connecting to 10.0.0.4:6379. Connection refused.",
    }
    instance.since = dict.fromkeys(instance.away, time.time() - 754)
    instance.groups, instance.failure = {}, AWAY
    found.store.is_away = True
    for name, detail in instance.away.items():
        found.log.note(NewEntry(Kind.OUTAGE_BEGAN, name, detail))
    away = ReplaysAway()
    return found._replace(services=SecondTier(away, away, away))


SITUATIONS = {"nothing": nothing, "idle": idle, "much": much, "gone": gone}


def _parts(replay_id: str) -> dict[str, str]:
    return {
        "name": "producer-0003", "topic": "topic-001", "partition": "1", "group": GROUP,
        "id": replay_id,
    }  # fmt: skip


def routes(method: str) -> list[str]:
    """What the console serves, with the variable parts of the addresses below /console."""
    found = Console(admin_of(world.empty())).routes()
    paths = [path for one, path, _ in found if one == method and path.startswith("/console")]
    return [path.removeprefix("/console") for path in paths if "/static/" not in path]
