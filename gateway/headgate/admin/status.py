"""The verdict on the installation: its state, and the reasons for it, from all that is known here.

`verdict` is pure: it gets the `Facts` and the time. `/v1/status`, `headgate status` and the first
page of the console show its result. Each rule has the condition of an alert in
deploy/prometheus/alerts.yml, without the time that the alert waits (`for`). Alerts of severity
`info` are no reasons.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from itertools import groupby, islice
from typing import Any, NamedTuple
from urllib.parse import urlencode

from aiohttp import web

from headgate.admin.instance import Instance, InstanceHealth
from headgate.admin.monitor_answers import MonitorAnswers, fix_of
from headgate.admin.views import iso
from headgate.http.pages import json_page
from headgate.metrics import fleet as recorder
from headgate.metrics.catalogue import SECONDS
from headgate.metrics.fleet import History, Recorder
from headgate.metrics.snapshot import Labels
from headgate.model.outcome import Failure, OutcomeName, Reason, Refused
from headgate.model.policy import PolicyTable
from headgate.model.suppression_states import AWAY, OFF, ON, TopicSuppression
from headgate.model.text import counted, path_segment
from headgate.replays.registry import WaitingReplay

log = logging.getLogger("headgate.admin")

_LOOK_S = 10.0  # interval between looks for new reasons, also without requests
_MONITOR_S = 2.0
_LISTED = 10  # reasons of a rule; the others are counted
_FIRST_SEEN = 1000

Json = dict[str, Any]


class State(StrEnum):
    """State of the installation. DOWN: the gateway accepts no events."""

    OK = "ok"
    DEGRADED = "degraded"
    DOWN = "down"


class Severity(StrEnum):
    """Severity of a reason. CRITICAL: events are refused, lost or not read."""

    CRITICAL = "critical"
    WARNING = "warning"


class Rule(NamedTuple):
    """A condition that is a reason.

    Attributes:
        severity: Severity of its reasons.
        alert: Alert with the same condition; empty if there is none.
        limit: Threshold of the condition.
        span_s: Time over which it is measured, in seconds.
        more: Page that lists what is not listed.
    """

    severity: Severity
    alert: str = ""
    limit: float = 0.0
    span_s: float = 0.0
    more: str = "/console/log?level=warning"


_CRITICAL, _WARNING = Severity
_GROUPS, _CHANGES = "/console/groups", "/console/configuration"
_PRODUCERS, _TOPICS = "/console/producers?sort=rejects", "/console/topics"

# In the order of the reasons of one severity.
RULES: Mapping[str, Rule] = {
    "not_ready": Rule(_CRITICAL, "HeadgateGatewayNotReady"),
    "kafka": Rule(_CRITICAL, "HeadgateKafkaUnavailable"),
    "spool_stopped": Rule(_CRITICAL, "HeadgateSpoolTakesNothing"),
    "workers": Rule(_CRITICAL, "HeadgateWorkersMissing"),
    "refused": Rule(_CRITICAL, "HeadgateEventsRefused", 1.01, 120, _PRODUCERS),
    "offline": Rule(_CRITICAL, "HeadgatePartitionsOffline", more=_GROUPS),
    "aside": Rule(_CRITICAL, "HeadgateSpoolAside", more="/v1/spool?pretty"),
    "spool_fills": Rule(_CRITICAL, "HeadgateSpoolFills", 0.5),
    "spool_waits": Rule(_CRITICAL, "HeadgateSpoolWaits", 600),
    "stopped": Rule(_CRITICAL, "HeadgateGroupStopped", more=f"{_GROUPS}?state=STOP"),
    "stalled": Rule(_CRITICAL, "HeadgateGroupStalled", more=f"{_GROUPS}?state=STALL"),
    "not_obeyed": Rule(_CRITICAL, more=_GROUPS),
    "losing": Rule(_CRITICAL, "HeadgateRecordsWillBeLost", 6 * 3600, more=_GROUPS),
    "certificate_soon": Rule(_CRITICAL, "HeadgateCertificateExpiresSoon", 2 * 86400),
    "dependency": Rule(_WARNING),
    "redis": Rule(_WARNING, "HeadgateRedisUnavailable"),
    "not_suppressed": Rule(_WARNING, "HeadgateNothingSuppressed", more=_TOPICS),
    "monitor": Rule(_WARNING, "HeadgateMonitorDown"),
    "blind": Rule(_WARNING, "HeadgateMonitorIsBlind", 120),
    "rewound": Rule(_WARNING, "HeadgateGroupRewound", more=f"{_GROUPS}?state=REWIND"),
    "stuck": Rule(_WARNING, "HeadgateStuckCommit", more=_GROUPS),
    "behind": Rule(_WARNING, "HeadgateGroupFallsBehind", more=f"{_GROUPS}?state=WARN"),
    "new_lags": Rule(_WARNING, "HeadgateNewGroupLags", 10000, more=_GROUPS),
    "cold": Rule(_WARNING, "HeadgateColdReads", more=_GROUPS),
    "rogue": Rule(_WARNING, "HeadgateRogueReader", more=_GROUPS),
    "replicas": Rule(_WARNING, "HeadgateUnderReplicated", more=_GROUPS),
    "rejects": Rule(_WARNING, limit=0.1, span_s=300),
    "fail": Rule(_WARNING, "HeadgateRequestsFail", 0.05, 300),
    "slow": Rule(_WARNING, "HeadgateRequestsSlow", 1, 300),
    "budget": Rule(_WARNING, "HeadgateBudgetFills", 0.8),
    "unknown": Rule(_WARNING, "HeadgateUnknownOutcomes", span_s=300, more=_TOPICS),
    "bypassed": Rule(_WARNING, "HeadgateSuppressionBypassed", span_s=120),
    "identity": Rule(_WARNING, "HeadgateIdentityBypassed", span_s=120),
    "held": Rule(_WARNING, "HeadgateHeldEventsWait", 60, more=_TOPICS),
    "coalescer": Rule(_WARNING, "HeadgateCoalescerRestarts", span_s=300, more=_TOPICS),
    "rebuilt": Rule(_WARNING, "HeadgateProducerRebuilt", span_s=300),
    "restarted": Rule(_WARNING, "HeadgateWorkersRestart", span_s=900),
    "spooled": Rule(_WARNING),
    "replay_failed": Rule(_WARNING, "HeadgateReplayFailed", span_s=3600),
    "no_runner": Rule(_WARNING, "HeadgateNoReplayRunner", 60, more="/console/replays"),
    "reload": Rule(_WARNING, "HeadgateReloadRefused"),
    "certificate": Rule(_WARNING, "HeadgateCertificateExpires", 14 * 86400),
    "issuer": Rule(_WARNING, "HeadgateIssuerAway", span_s=1800),
}
HELD_LAG = 100_000  # records, the second condition of HeadgateHeldEventsWait
FEW_PER_S = 0.1  # fewer requests or rejects make no share
OUR_FAULTS = frozenset(
    {
        Reason.KAFKA_UNAVAILABLE,
        Reason.REDIS_UNAVAILABLE,
        Reason.BLOBS_UNAVAILABLE,
        Reason.ISSUER_UNAVAILABLE,
        Reason.BROKER_REFUSED,
        Reason.CLOCK_WRONG,
        Reason.INTERNAL,
        Reason.OVERLOADED,
    }
)
_ORDER = {name: number for number, name in enumerate(RULES)}
_SUMS = (  # rules of one counter, whose first label is the subject
    ("unknown", "headgate_unknown_outcome_total", "Outcomes of {} events of {} are unknown."),
    ("bypassed", "headgate_suppression_bypassed_total",
     "{} events were published without a lookup in Redis: {}."),
    ("identity", "headgate_identity_bypassed_total",
     "{} requests or events were not checked for repetition: {}."),
    ("coalescer", "headgate_coalescer_restarts_total",
     "The coalescer of a partition was restarted {} times on {}."),
    ("rebuilt", "headgate_producer_rebuilds_total",
     "The Kafka producer was replaced {} times on {}."),
)  # fmt: skip


class Facts(NamedTuple):
    """Everything that the verdict depends on.

    Attributes:
        health: Readiness of the instance.
        since: Last change of each dependency's state, in seconds since 1970.
        suppression: Suppression states by topic.
        refusing: Topics that refuse events while Redis is unavailable.
        gauges: The current value of each gauge.
        recent: Counters of the last hour.
        ends: Events of the last hours by outcome and reason.
        replays: Replays that need a runner.
        groups: Response of the monitor to `/v1/groups`, or the failure; None: it was not asked.
    """

    health: InstanceHealth
    since: Mapping[str, float]
    suppression: Mapping[str, TopicSuppression]
    refusing: Collection[str]
    gauges: Callable[[str], Mapping[Labels, float]]
    recent: History
    ends: History
    replays: Sequence[WaitingReplay] = ()
    groups: Json | Failure | None = None


class Cause(NamedTuple):
    """A reason for a state other than ok.

    Attributes:
        rule: Name of its rule.
        subject: Name of the group, topic, dependency, ... that it is about.
        what: The reason in a sentence.
        href: Page that explains it.
        detail: Further facts.
        since: Begin, in seconds since 1970; None if only the first sight of it is known.
        is_worse: Whether it is critical although its rule is not.
        cluster: Cluster of a group: another cluster may have one of the same name.
    """

    rule: str
    subject: str
    what: str
    href: str
    detail: str = ""
    since: float | None = None
    is_worse: bool = False
    cluster: str = ""

    @property
    def severity(self) -> Severity:
        return _CRITICAL if self.is_worse else RULES[self.rule].severity

    @property
    def key(self) -> tuple[str, str, str]:
        return self.rule, self.subject, self.cluster


class Verdict(NamedTuple):
    """State of the installation, since when (in seconds since 1970), and the worst causes first."""

    state: State
    since: float
    causes: Sequence[Cause]

    def page(self) -> Json:
        """Return the response of `/v1/status`."""
        return {
            "state": self.state,
            "since": iso(self.since),
            "reasons": [
                {
                    "what": cause.what,
                    "since": iso(cause.since or self.since),
                    "severity": cause.severity,
                    "subject": cause.subject,
                    "href": cause.href,
                }
                | ({"detail": cause.detail} if cause.detail else {})
                for cause in self.causes
            ],
        }


class FirstSeen:
    """Times at which causes were first seen. A cause that ends is forgotten; at most 1,000 stay."""

    def __init__(self) -> None:
        self._at: dict[object, float] = {}

    def see(self, keys: Collection[object], now_s: float) -> Mapping[object, float]:
        """Return the time of each key; forget all others."""
        self._at = {key: self._at.get(key, now_s) for key in islice(keys, _FIRST_SEEN)}
        return self._at


def verdict(
    causes: Sequence[Cause], first_seen: Mapping[object, float], now_s: float, ok_since: float
) -> Verdict:
    """Return the verdict.

    Args:
        causes: All causes, in any order.
        first_seen: Times for causes without a time of their own, by key.
        now_s: Current time, in seconds since 1970.
        ok_since: Time of the last cause, in seconds since 1970.
    """
    dated = [
        cause._replace(since=cause.since or first_seen.get(cause.key, now_s)) for cause in causes
    ]
    dated.sort(key=lambda cause: (*_rank(cause), cause.since or now_s, cause.subject))
    shown: list[Cause] = []
    for _, same in groupby(dated, key=_rank):
        listed = list(same)
        shown += listed[:_LISTED]
        if rest := listed[_LISTED:]:
            what = f"{counted(len(rest), 'more reason')} like the {_LISTED} before."
            href = RULES[rest[0].rule].more
            shown.append(rest[0]._replace(subject="", what=what, href=href, detail=""))
    if not dated:
        return Verdict(State.OK, ok_since, ())
    down = [cause for cause in dated if cause.rule == "not_ready"]
    since = min(cause.since or now_s for cause in down or dated)
    return Verdict(State.DOWN if down else State.DEGRADED, since, shown)


def _rank(cause: Cause) -> tuple[bool, int]:
    return cause.severity is not _CRITICAL, _ORDER[cause.rule]


# ---- what this gateway knows by itself


def own_causes(facts: Facts, now_s: float) -> Iterator[Cause]:
    """Yield the causes in the gateway's own figures."""
    yield from _of_health(facts)
    yield from _of_suppression(facts)
    yield from _of_spool(facts, now_s)
    yield from _of_requests(facts)
    yield from _of_counters(facts)
    yield from _of_installation(facts, now_s)
    for replay in facts.replays:
        seen_s = None if replay.seen_ms is None else replay.seen_ms / 1000
        if seen_s is None or now_s - seen_s > RULES["no_runner"].limit:
            what = f"Replay {replay.id} waits: no replay runner is active."
            href = f"/console/replays/{path_segment(replay.id)}"
            since = replay.created_ms / 1000 if seen_s is None else seen_s
            yield Cause("no_runner", replay.id, what, href, since=since)


def _of_health(facts: Facts) -> Iterator[Cause]:
    health, home = facts.health, "/console#dependencies"
    if not health.is_ready:
        yield Cause(
            "not_ready", "gateway", f"The gateway accepts no events: it is {health.status}.", home
        )
    up, wanted = health.workers["up"], health.workers["wanted"]
    if up < wanted:
        href = "/console/log?q=worker"
        yield Cause("workers", "workers", f"{up} of {wanted} workers are up.", href)
    for name, row in health.dependencies.items():
        if row["ok"]:
            continue
        kind = name.split()[0]
        rule = {"kafka": "kafka", "redis": "redis", "spool": "spool_stopped"}.get(kind)
        yield Cause(
            rule or "dependency",
            name,
            f"{name} is unavailable." if rule != "spool_stopped" else "The spool takes no events.",
            f"/console/log?{urlencode({'q': name})}",
            str(row["detail"]),
            facts.since.get(name),
            is_worse=bool(row["required"]),
        )


def _of_suppression(facts: Facts) -> Iterator[Cause]:
    for topic, now in facts.suppression.items():
        if now.state in (ON, OFF):
            continue
        is_away = now.state == AWAY
        refuses = is_away and topic in facts.refusing
        effect = "refuses events" if refuses else "publishes unchanged events"
        why = "Redis is unavailable" if is_away else f"suppression is in {now.state}"
        what = f"{topic} {effect}: {why}."
        yield Cause("not_suppressed", topic, what, _topic(topic), is_worse=refuses)


def _of_spool(facts: Facts, now_s: float) -> Iterator[Cause]:
    page, limit = "/v1/spool?pretty", _sum(facts, "headgate_spool_limit_bytes")
    ages = facts.gauges("headgate_spool_oldest_seconds").values()
    if spooled := _sum(facts, "headgate_spool_events"):
        oldest_s = max(ages, default=0.0)
        rule = "spool_waits" if oldest_s > RULES["spool_waits"].limit else "spooled"
        what = f"{counted(round(spooled), 'event')} wait on disk for Kafka."
        yield Cause(rule, "spool", what, page, since=now_s - oldest_s)
    share = _sum(facts, "headgate_spool_bytes") / limit if limit else 0.0
    if share > RULES["spool_fills"].limit:
        yield Cause("spool_fills", "spool", f"The spool is {_percent(share)} full.", page)
    for (topic,), count in facts.gauges("headgate_spool_aside_events").items():
        if count:
            what = f"{counted(round(count), 'spooled event')} of {topic} will not be published."
            yield Cause("aside", topic, what, page)


def _of_requests(facts: Facts) -> Iterator[Cause]:
    rule = RULES["refused"]
    ended = _increases(facts.ends, recorder.EVENTS, (3,), rule.span_s)
    limited = sum(_increases(facts.recent, recorder.LIMITED, (), rule.span_s).values())
    for (reason,), count in ended.items():
        if reason not in OUR_FAULTS:
            continue
        if count > (rule.limit * limited if reason == Reason.OVERLOADED else 0.0):
            what = f"Events are refused: {reason}."
            yield Cause("refused", reason, what, _PRODUCERS, f"{count:,.0f} in two minutes")
    rule = RULES["rejects"]
    outcomes = _increases(facts.ends, recorder.EVENTS, (2,), rule.span_s)
    rejected, total = outcomes.get((OutcomeName.REJECTED,), 0.0), sum(outcomes.values())
    if rejected > FEW_PER_S * rule.span_s and rejected / total > rule.limit:
        what = f"{_percent(rejected / total)} of the events were rejected in the last minutes."
        yield Cause("rejects", "rejects", what, _PRODUCERS)
    rule = RULES["fail"]
    answers = _increases(facts.recent, recorder.REQUESTS, (1,), rule.span_s)
    failed, total = answers.get(("5",), 0.0), sum(answers.values())
    if total > FEW_PER_S * rule.span_s and failed / total > rule.limit:
        what = f"{_percent(failed / total)} of the requests were answered 5xx in the last minutes."
        yield Cause("fail", "requests", what, _PRODUCERS)
    for route, (p99, count) in latencies(facts.recent).items():
        if p99 > RULES["slow"].limit and count > FEW_PER_S * RULES["slow"].span_s:
            what = f"One in a hundred accepted requests takes longer than {p99:.3g} s."
            yield Cause("slow", route, what, "/console#plot-outcomes", route)
    for unit in ("bytes", "events"):
        limit = _sum(facts, f"headgate_in_flight_limit_{unit}")
        share = _sum(facts, f"headgate_in_flight_{unit}") / limit if limit else 0.0
        if share > RULES["budget"].limit:
            what = f"{_percent(share)} of the {unit} that may be in flight are in flight."
            yield Cause("budget", unit, what, "/console#plot-outcomes")


def _of_counters(facts: Facts) -> Iterator[Cause]:
    for name, metric, text in _SUMS:
        table = _increases(facts.recent, metric, (0,), RULES[name].span_s)
        for (subject,), count in table.items():
            if round(count):
                topical = RULES[name].more == _TOPICS
                href = _topic(subject) if topical else RULES[name].more
                yield Cause(name, subject, text.format(f"{count:,.0f}", subject), href)
    restarts = _increases(facts.recent, recorder.RESTARTS, (), RULES["restarted"].span_s)
    if count := round(sum(restarts.values())):
        what = f"{counted(count, 'worker')} died in the last 15 minutes and started again."
        yield Cause("restarted", "workers", what, "/console/log?q=worker")
    failed = _increases(facts.recent, recorder.FAILED, (), RULES["replay_failed"].span_s)
    if count := round(sum(failed.values())):
        what = f"{counted(count, 'replay')} failed in the last hour."
        yield Cause("replay_failed", "replays", what, "/console/replays")
    span_s = RULES["issuer"].span_s
    fetches = _increases(facts.recent, recorder.KEY_FETCHES, (0,), span_s)
    if round(fetches.get(("failed",), 0)) and not round(fetches.get(("fetched",), 0)):
        what = "The keys of signed tokens cannot be fetched."
        yield Cause("issuer", "issuer", what, "/console/log?level=warning")
    held, lags = (facts.gauges(f"headgate_held_{what}") for what in ("oldest_seconds", "lag"))
    for labels in {**held, **lags}:
        topic, oldest_s, lag = labels[0], held.get(labels, 0.0), lags.get(labels, 0.0)
        if oldest_s > RULES["held"].limit or lag > HELD_LAG:
            detail = f"oldest {oldest_s:,.0f} s, lag {lag:,.0f} records"
            yield Cause("held", topic, f"Held events of {topic} wait.", _topic(topic), detail)


def _of_installation(facts: Facts, now_s: float) -> Iterator[Cause]:
    for kind, text in (("config", "configuration"), ("tls", "certificate")):
        if 0.0 in facts.gauges(f"headgate_{kind}_last_reload_successful").values():
            what = f"A new {text} was refused; the old one is active."
            yield Cause("reload", text, what, _CHANGES)
    for expiry in facts.gauges("headgate_certificate_expiry_timestamp_seconds").values():
        left_s = expiry - now_s
        for rule in ("certificate_soon", "certificate"):
            if left_s < RULES[rule].limit:
                end = f"expires in {left_s / 86_400:.1f} days" if left_s > 0 else "has expired"
                what = f"The certificate {end}."
                yield Cause(rule, "certificate", what, _CHANGES, str(iso(expiry)))
                break


# ---- what the monitor knows

_PARTITIONS = (
    ("offline", "offline", "are offline"),
    ("offline", "below_min_isr", "have too few replicas in sync and refuse writes"),
    ("replicas", "under_replicated", "lack replicas"),
)
_GROUP_STATES = {
    "STOP": ("stopped", "has lag and commits nothing"),
    "STALL": ("stalled", "commits the same offset again and again"),
    "REWIND": ("rewound", "went back to earlier offsets and has not caught up"),
    "WARN": ("behind", "falls behind: its lag never falls"),
}


def monitor_causes(answer: Json | Failure, now_s: float) -> Iterator[Cause]:
    """Yield the causes in the monitor's response, or that it cannot be asked."""
    if isinstance(answer, Failure):
        what = "Consumer groups and partitions are unknown: the monitor cannot be asked."
        detail = f"{answer.detail}. {fix_of(answer)}".rstrip(". ")
        yield Cause("monitor", "monitor", what, _GROUPS, detail)
        return
    for cluster in answer.get("clusters", ()):
        yield from _of_cluster(cluster, now_s)
    for group in answer.get("groups", ()):
        yield from _of_group(group)


def _of_cluster(cluster: Json, now_s: float) -> Iterator[Cause]:
    name, looked = cluster["cluster"], _seconds(cluster.get("looked_at"))
    if not cluster["ok"] or (looked is not None and now_s - looked > RULES["blind"].limit):
        what = f"The monitor cannot poll {name}."
        detail = "" if cluster["ok"] else cluster.get("detail", "")
        yield Cause("blind", name, what, _GROUPS, detail, looked)
    for rule, state, text in _PARTITIONS:
        if count := cluster.get("partitions", {}).get(state):
            what = f"{counted(count, 'partition')} of {name} {text}."
            yield Cause(rule, f"{name} {state}", what, _GROUPS)
    for rogue in cluster.get("rogue_readers", ()):
        topic = rogue["topic"]
        what = f"{topic} of {name} is read by a client that is in no consumer group."
        yield Cause("rogue", topic, what, _topic(topic), since=_seconds(rogue.get("since")))


def _of_group(group: Json) -> Iterator[Cause]:
    name, cluster, lag = group["group"], group["cluster"], group["lag"]
    href = f"{_GROUPS}/{path_segment(name)}"
    age_s = group.get("position_age_s")
    aged = "" if age_s is None else f"; the next record to read is {age_s:,.0f} s old"
    detail = f"lag {lag:,}{aged}{'; paused' if group.get('paused') else ''}"
    causes = [_GROUP_STATES.get(group["state"])]
    if group.get("not_obeyed"):
        causes.append(("not_obeyed", f"does not obey its pause: {group['not_obeyed']}"))
    if group.get("stuck_commit"):
        causes.append(("stuck", "has a commit below what is done"))
    loss_s = group.get("loss_in_s")
    if loss_s is not None and loss_s < RULES["losing"].limit:
        causes.append(("losing", f"loses unread records to retention in {loss_s:,.0f} s"))
    if group["probation"].get("admitted") is False and lag > RULES["new_lags"].limit:
        causes.append(("new_lags", "is new and does not keep up"))
    if group.get("heat") == "cold":
        causes.append(("cold", "reads from the brokers' disks"))
    for cause in causes:
        if cause is not None:
            rule, text = cause
            since = _seconds(group.get("still_since")) if rule in ("stopped", "stalled") else None
            what = f"Group {name} on {cluster} {text}."
            yield Cause(rule, name, what, href, detail, since, cluster=cluster)


# ---- figures


def latencies(recent: History, by: Collection[int] = (0,)) -> dict[str, tuple[float, float]]:
    """Return the 99th percentile and the number of accepted requests of the last minutes, by route.

    Args:
        recent: Counters of the last hour.
        by: (0,) by route; () for all routes together, as "".
    """
    table = _increases(recent, recorder.REQUESTS, (*by, 2), RULES["slow"].span_s, {1: "2"})
    buckets: dict[str, dict[int, float]] = {}
    for labels, count in table.items():
        buckets.setdefault(labels[0] if by else "", {})[int(labels[-1])] = count
    return {route: (_quantile(counts, 0.99), sum(counts.values()))
            for route, counts in buckets.items()}  # fmt: skip


def _quantile(counts: Mapping[int, float], share: float) -> float:
    """Return a quantile as Prometheus computes it, in seconds."""
    rank, seen = share * sum(counts.values()), 0.0
    for index, bound in enumerate(SECONDS):
        count = counts.get(index, 0.0)
        if count and seen + count >= rank:
            below = SECONDS[index - 1] if index else 0.0
            return below + (bound - below) * (rank - seen) / count
        seen += count
    return SECONDS[-1]


def _increases(
    history: History,
    metric: str,
    by: Collection[int],
    span_s: float,
    where: Mapping[int, Collection[str]] | None = None,
) -> dict[Labels, float]:
    points = history.read(metric, by, where, span_s)
    return {labels: sum(row) * points.step_s for labels, row in points.rows.items()}


def _sum(facts: Facts, name: str) -> float:
    return sum(facts.gauges(name).values())


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _topic(name: str) -> str:
    return f"/console/topics/{path_segment(name)}"


def _seconds(at: str | None) -> float | None:
    with suppress(ValueError):
        return None if at is None else datetime.fromisoformat(at).timestamp()
    return None


# ---- the running instance


class InstanceStatus:
    """The verdict on this instance.

    Args:
        instance: The instance.
        monitor: Client of the monitor.
        policies: Returns the policies in force.
        replays: Returns the replays that need a runner.
    """

    def __init__(
        self,
        instance: Instance,
        monitor: MonitorAnswers,
        policies: Callable[[], PolicyTable],
        replays: Callable[[], Sequence[WaitingReplay]],
    ) -> None:
        self._instance = instance
        self._monitor = monitor
        self._policies = policies
        self._replays = replays
        self._own, self._monitored, self._without = FirstSeen(), FirstSeen(), FirstSeen()
        self._ok_since = time.time()

    async def respond(self, request: web.Request) -> web.Response:
        """Respond with the verdict."""
        await self._instance.refresh()
        return json_page(request, (await self.judge(request))[0].page())

    async def judge(self, request: web.Request) -> tuple[Verdict, Json | Failure]:
        """Return the verdict, and the monitor's response to the caller, or its failure."""
        answer, now_s = await self._groups(request), time.time()
        try:
            causes = list(monitor_causes(answer, now_s))
        except (KeyError, TypeError, ValueError, AttributeError):
            answer = Failure(Reason.INTERNAL, "the monitor's answer is not of this version")
            causes = list(monitor_causes(answer, now_s))
        seen = self._without if isinstance(answer, Failure) else self._monitored
        own = self._look(now_s)
        times = {**self._see(self._own, own, now_s), **self._see(seen, causes, now_s)}
        return verdict([*own, *causes], times, now_s, self._ok_since), answer

    async def watch(self, _app: web.Application) -> Any:
        """Look at the gateway's own figures at intervals, so that each cause gets its time."""

        async def look() -> None:
            while True:
                await asyncio.sleep(_LOOK_S)
                try:
                    now_s = time.time()
                    self._see(self._own, self._look(now_s), now_s)
                except Exception:
                    log.exception("the state of the gateway cannot be read")

        task = asyncio.create_task(look(), name="status")
        yield
        task.cancel()
        await asyncio.wait([task])

    def _look(self, now_s: float) -> list[Cause]:
        instance, suppression = self._instance, self._instance.suppression()
        history: Recorder = instance.history
        facts = Facts(
            instance.health(),
            instance.since,
            suppression,
            self._policies().refusing(suppression),
            instance.figures.gauge,
            history.recent,
            history.whole,
            self._replays(),
        )
        return list(own_causes(facts, now_s))

    def _see(
        self, first_seen: FirstSeen, causes: Sequence[Cause], now_s: float
    ) -> Mapping[object, float]:
        if causes:
            self._ok_since = now_s
        return first_seen.see([cause.key for cause in causes], now_s)

    async def _groups(self, request: web.Request) -> Json | Failure:
        try:
            async with asyncio.timeout(_MONITOR_S):
                return await self._monitor.groups(request)
        except Refused as refused:
            return refused.failure
        except TimeoutError:
            detail = f"the monitor did not answer within {_MONITOR_S:g} s"
            return Failure(Reason.MONITOR_UNAVAILABLE, detail)
