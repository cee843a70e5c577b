"""The management pages' world: a meter's figures and a store of pauses, in memory."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field

from headgate.admin.control_plane import Admin
from headgate.admin.installation import Configuration, Installation
from headgate.admin.instance import InstanceHealth, Monitored
from headgate.check.rules import Finding, Level
from headgate.config import Loaded
from headgate.config.problems import Origins as OptionOrigins
from headgate.config.settings import ProducerSettings, Settings
from headgate.http.auth import AttemptLimit, Authenticator, Origins
from headgate.http.jwt import CheckedTokens
from headgate.metrics.fleet import Fleet, Rates, Recorder
from headgate.metrics.meter import Labels, Meter
from headgate.model.outcome import Failure
from headgate.model.policy import TopicPolicy
from headgate.model.suppression_states import TopicSuppression
from headgate.model.topics import TopicState
from headgate.redis.pauses import Intent, Kept
from headgate.replays.second_tier import NoSecondTier, SecondTier
from headgate.supervisor.installation_log import InstallationLog

TOPICS = (
    TopicPolicy("orders", "main", key=("/id",)),
    TopicPolicy("deals", "main", key=("/id",), kind="state", suppress="raw"),
    TopicPolicy("saves", "main", key=("/id",), kind="state", coalesce_quiet_ms=2000),
)
TOKENS = {
    name: ProducerSettings(
        token_sha256=(hashlib.sha256(f"{name}-token".encode()).hexdigest(),),
        topics=("*",),
        roles=roles,
    )
    for name, roles in {
        "shop": ("produce",),
        "viewer": ("view",),
        "operator": ("view", "operate"),
    }.items()
}


@dataclass
class FakeInstance:
    """Implements `admin.instance.Instance` over one meter."""

    settings: Settings
    figures: Fleet = field(default_factory=Fleet)
    rates: Rates = field(default_factory=Rates)
    history: Recorder = field(default_factory=Recorder)
    since: dict[str, float] = field(default_factory=dict)
    forgotten: list[tuple[str, bytes | None]] = field(default_factory=list)
    failure: Failure | None = None
    is_ready: bool = True
    audited: dict[str, bytes] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)  # topics that only a new reading finds
    suppressed: dict[str, TopicSuppression] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = {policy.pattern for policy in self.settings.topics}
        self.meter = Meter(Labels(self.settings.producers, names.__contains__), time.time)
        self.refreshed = 0.0

    async def refresh(self, at_once: bool = False) -> None:
        if at_once:
            self.unread.clear()
        self.figures.update(1, self.meter.collect())
        self.refreshed += 10.0
        self.rates.note(self.refreshed, self.figures.volumes())

    def topics(self) -> dict[str, TopicState]:
        names = {policy.pattern for policy in self.settings.topics} - self.unread
        return {name: TopicState(name, "main", b"\0" * 16, 12) for name in names}

    def suppression(self) -> dict[str, TopicSuppression]:
        return self.suppressed

    def health(self) -> InstanceHealth:
        kafka = {"ok": self.is_ready, "required": True, "detail": "3 brokers"}
        status = "ready" if self.is_ready else "not ready"
        return InstanceHealth(self.is_ready, status, {"kafka main": kafka}, {"up": 2, "wanted": 2})

    async def forget(self, topic: str, key: bytes | None) -> Failure | None:
        self.forgotten.append((topic, key))
        return self.failure

    async def monitored(self, path: str, authorization: str | None) -> Monitored | Failure:
        return self.failure or Monitored(200, "application/json", path.encode())

    async def audits(self) -> dict[str, bytes] | Failure:
        return self.failure or self.audited


class KeptInMemory:
    """Implements `redis.pauses.RedisPauses`."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[Intent, Kept]] = {}
        self.is_away = False

    async def kept(self, group: str) -> list[Kept]:
        if self.is_away:
            raise OSError("Redis does not answer")
        return list(self.groups.get(group, {}).values())

    async def pause(self, group: str, intent: Intent, by: str, at_ms: int) -> None:
        self.groups.setdefault(group, {})[intent] = Kept(intent, by, at_ms)

    async def resume(self, group: str, intent: Intent) -> bool:
        return self.groups.get(group, {}).pop(intent, None) is not None


class FakeConfiguration:
    """The active configuration."""

    def __init__(self, settings: Settings) -> None:
        origins = OptionOrigins({"http.port": "headgate.toml:3"})
        self.shown = Configuration("headgate.toml", Loaded(settings, origins), 1_790_000_000.0)
        self.found = [
            Finding(Level.WARN, "auth.mode", "anybody may post", 'Set auth.mode = "token".')
        ]

    def findings(self) -> list[Finding]:
        return self.found


def admin_of(
    instance: FakeInstance,
    store: KeptInMemory | None = None,
    services: SecondTier | None = None,
    signed: CheckedTokens | None = None,
    log: InstallationLog | None = None,
    configuration: FakeConfiguration | None = None,
) -> Admin:
    settings = instance.settings
    origins = Origins.of_control_plane(settings.http)
    many = AttemptLimit(1_000_000)  # tests try many wrong ones from one address
    callers = Authenticator(settings.auth, settings.producers, origins, many, signed)
    none = NoSecondTier()
    services = services or SecondTier(none, none, none)
    log = log or InstallationLog(None)
    active = configuration or FakeConfiguration(settings)
    installation = Installation(log.recent, lambda: active.shown, active.findings, log.note)
    return Admin(instance, callers, store, services, installation)
