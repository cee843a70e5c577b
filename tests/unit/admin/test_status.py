"""The verdict: each cause alone, several together, their order, and the times of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from headgate.admin.instance import InstanceHealth
from headgate.admin.status import (
    FEW_PER_S,
    HELD_LAG,
    OUR_FAULTS,
    RULES,
    Cause,
    Facts,
    FirstSeen,
    Severity,
    State,
    Verdict,
    latencies,
    monitor_causes,
    own_causes,
    verdict,
)
from headgate.metrics.catalogue import METRICS
from headgate.metrics.fleet import EVENTS, Fleet, Recorder
from headgate.metrics.meter import Labels, Meter
from headgate.metrics.snapshot import Snapshot
from headgate.model.outcome import Failure, Reason
from headgate.model.suppression_states import AWAY, ON, QUARANTINE, TopicSuppression
from headgate.replays.registry import WaitingReplay
from support.root import ROOT

NOW = 1_790_000_000.0
DAY_S = 86_400.0
CRITICAL, WARNING = Severity
Json = dict[str, Any]


def cluster(**more: Any) -> Json:
    healthy = {"offline": 0, "below_min_isr": 0, "under_replicated": 0}
    at = "2026-09-21T14:13:20Z"  # NOW
    return {"cluster": "main", "ok": True, "detail": "", "looked_at": at,
            "partitions": {**healthy, **more.pop("partitions", {})}, "rogue_readers": [],
            **more}  # fmt: skip


def group(state: str = "OK", name: str = "billing", **more: Any) -> Json:
    return {"group": name, "cluster": "main", "state": state, "lag": 0, "stuck_commit": False,
            "position_age_s": None, "loss_in_s": None, "heat": "hot",
            "probation": {"admitted": True}, **more}  # fmt: skip


@dataclass
class Installation:
    """All is well in it until a test changes something."""

    is_ready: bool = True
    workers: int = 2
    dependencies: Json = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    suppression: dict[str, TopicSuppression] = field(default_factory=dict)
    refusing: frozenset[str] = frozenset()
    gauges: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    counters: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    requests: list[tuple[int, str, float]] = field(default_factory=list)
    replays: tuple[WaitingReplay, ...] = ()
    clusters: list[Json] = field(default_factory=lambda: [cluster()])
    groups: list[Json] = field(default_factory=lambda: [group()])
    failure: Failure | None = None

    def causes(self) -> list[Cause]:
        recorder, fleet = Recorder(), Fleet()
        recorder.note(NOW - 10, fleet)
        meter = Meter(Labels((), lambda _: True), lambda: NOW)
        for count, status, seconds in self.requests:
            for _ in range(count):
                meter.request("/events", int(status), seconds)
        fleet.update(1, meter.collect())
        fleet.update(2, Snapshot(counters=self.counters))
        recorder.note(NOW, fleet)
        status = "ready" if self.is_ready else "not ready"
        health = InstanceHealth(
            self.is_ready, status, self.dependencies, {"up": self.workers, "wanted": 2}
        )

        def gauges(name: str) -> Mapping[tuple[str, ...], float]:
            assert name in METRICS, name
            return self.gauges.get(name, {})

        assert self.counters.keys() <= METRICS.keys()
        answer = self.failure or {"clusters": self.clusters, "groups": self.groups}
        facts = Facts(
            health, self.since, self.suppression, self.refusing, gauges, recorder.recent,
            recorder.whole, self.replays,
        )  # fmt: skip
        return [*own_causes(facts, NOW), *monitor_causes(answer, NOW)]

    def verdict(self) -> Verdict:
        return verdict(self.causes(), {}, NOW, NOW - 60)


def dependency(name: str, is_required: bool = False) -> Callable[[Installation], None]:
    def change(it: Installation) -> None:
        it.dependencies[name] = {"ok": False, "required": is_required, "detail": "no answer"}
        it.since[name] = NOW - 100

    return change


def gauge(name: str, value: float, *labels: str) -> Callable[[Installation], None]:
    return lambda it: it.gauges.setdefault(name, {}).update({labels: value})


def counter(name: str, value: float, *labels: str) -> Callable[[Installation], None]:
    return lambda it: it.counters.setdefault(name, {}).update({labels: value})


def both(*changes: Callable[[Installation], None]) -> Callable[[Installation], None]:
    def change(it: Installation) -> None:
        for each in changes:
            each(it)

    return change


def sets(**values: Any) -> Callable[[Installation], None]:
    def change(it: Installation) -> None:
        for name, value in values.items():
            setattr(it, name, value)

    return change


def ended(count: int, outcome: str, reason: str = "") -> Callable[[Installation], None]:
    return counter(EVENTS, count, "shop", "orders", outcome, reason)


def suppressed(state: str, refusing: str = "") -> Callable[[Installation], None]:
    states = {"deals": TopicSuppression(state)}
    return sets(suppression=states, refusing=frozenset([refusing]))


def of_groups(*rows: Json) -> Callable[[Installation], None]:
    return sets(groups=list(rows))


def of_cluster(**more: Any) -> Callable[[Installation], None]:
    return sets(clusters=[cluster(**more)])


NO_MONITOR = Failure(Reason.MONITOR_UNAVAILABLE, "no monitor answers: start `headgate monitor`")
EXPIRY = "headgate_certificate_expiry_timestamp_seconds"

# A change of the installation; the rules of its causes, their severity, subject and page.
ALONE = {
    "not ready": (sets(is_ready=False), "not_ready", CRITICAL, "gateway", "/console#dependencies"),
    "worker": (sets(workers=1), "workers", CRITICAL, "workers", "/console/log?q=worker"),
    "kafka": (dependency("kafka main", True), "kafka", CRITICAL, "kafka main",
              "/console/log?q=kafka+main"),
    "kafka, spooled": (dependency("kafka main"), "kafka", CRITICAL, "kafka main",
                       "/console/log?q=kafka+main"),
    "redis": (dependency("redis"), "redis", WARNING, "redis", "/console/log?q=redis"),
    "redis, required": (dependency("redis", True), "redis", CRITICAL, "redis",
                        "/console/log?q=redis"),
    "blobs": (dependency("blobs"), "dependency", WARNING, "blobs", "/console/log?q=blobs"),
    "spool": (dependency("spool"), "spool_stopped", CRITICAL, "spool", "/console/log?q=spool"),
    "quarantine": (suppressed(QUARANTINE), "not_suppressed", WARNING, "deals",
                   "/console/topics/deals"),
    "away": (suppressed(AWAY), "not_suppressed", WARNING, "deals", "/console/topics/deals"),
    "away, refusing": (suppressed(AWAY, "deals"), "not_suppressed", CRITICAL, "deals",
                       "/console/topics/deals"),
    "spooled": (gauge("headgate_spool_events", 3, "orders"), "spooled", WARNING, "spool",
                "/v1/spool?pretty"),
    "spool waits": (both(gauge("headgate_spool_events", 3, "orders"),
                         gauge("headgate_spool_oldest_seconds", 601, "orders")),
                    "spool_waits", CRITICAL, "spool", "/v1/spool?pretty"),
    "spool fills": (both(gauge("headgate_spool_bytes", 51, "orders"),
                         gauge("headgate_spool_limit_bytes", 100)),
                    "spool_fills", CRITICAL, "spool", "/v1/spool?pretty"),
    "aside": (gauge("headgate_spool_aside_events", 1, "orders"), "aside", CRITICAL, "orders",
              "/v1/spool?pretty"),
    "refused": (ended(1, "rejected", "kafka_unavailable"), "refused", CRITICAL,
                "kafka_unavailable", "/console/producers?sort=rejects"),
    "overloaded": (ended(5, "rejected", "overloaded"), "refused", CRITICAL, "overloaded",
                   "/console/producers?sort=rejects"),
    "rejects": (both(ended(300, "published"), ended(40, "rejected", "malformed")), "rejects",
                WARNING, "rejects", "/console/producers?sort=rejects"),
    "5xx": (sets(requests=[(60, "201", 0.01), (4, "503", 0.01)]), "fail", WARNING, "requests",
            "/console/producers?sort=rejects"),
    "slow": (sets(requests=[(60, "201", 0.01), (4, "201", 3.0)]), "slow", WARNING, "/events",
             "/console#plot-outcomes"),
    "budget": (both(gauge("headgate_in_flight_bytes", 81), gauge("headgate_in_flight_limit_bytes",
               100)), "budget", WARNING, "bytes", "/console#plot-outcomes"),
    "unknown": (counter("headgate_unknown_outcome_total", 1, "orders"), "unknown", WARNING,
                "orders", "/console/topics/orders"),
    "bypassed": (counter("headgate_suppression_bypassed_total", 1, "away"), "bypassed", WARNING,
                 "away", "/console/log?level=warning"),
    "identity": (counter("headgate_identity_bypassed_total", 1, "away"), "identity", WARNING,
                 "away", "/console/log?level=warning"),
    "coalescer": (counter("headgate_coalescer_restarts_total", 1, "deals", "timeout"), "coalescer",
                  WARNING, "deals", "/console/topics/deals"),
    "rebuilt": (counter("headgate_producer_rebuilds_total", 1, "main", "fenced"), "rebuilt",
                WARNING, "main", "/console/log?level=warning"),
    "restarted": (counter("headgate_worker_restarts_total", 1), "restarted", WARNING, "workers",
                  "/console/log?q=worker"),
    "held": (gauge("headgate_held_oldest_seconds", 61, "deals"), "held", WARNING, "deals",
             "/console/topics/deals"),
    "held lag": (gauge("headgate_held_lag", HELD_LAG + 1, "deals"), "held", WARNING, "deals",
                 "/console/topics/deals"),
    "reload": (gauge("headgate_config_last_reload_successful", 0), "reload", WARNING,
               "configuration", "/console/configuration"),
    "tls reload": (gauge("headgate_tls_last_reload_successful", 0), "reload", WARNING,
                   "certificate", "/console/configuration"),
    "certificate": (gauge(EXPIRY, NOW + 13 * DAY_S), "certificate", WARNING, "certificate",
                    "/console/configuration"),
    "certificate soon": (gauge(EXPIRY, NOW + DAY_S), "certificate_soon", CRITICAL, "certificate",
                         "/console/configuration"),
    "certificate expired": (gauge(EXPIRY, NOW - DAY_S), "certificate_soon", CRITICAL,
                            "certificate", "/console/configuration"),
    "issuer": (counter("headgate_issuer_keys_fetches_total", 1, "failed"), "issuer", WARNING,
               "issuer", "/console/log?level=warning"),
    "replay failed": (counter("headgate_replays_failed_total", 1), "replay_failed", WARNING,
                      "replays", "/console/replays"),
    "no runner": (sets(replays=(WaitingReplay("r1", 1_789_999_000_000, None),)), "no_runner",
                  WARNING, "r1", "/console/replays/r1"),
    "silent runner": (sets(replays=(WaitingReplay("r1", 1_789_999_000_000, 1_789_999_900_000),)),
                      "no_runner", WARNING, "r1", "/console/replays/r1"),
    "no monitor": (sets(failure=NO_MONITOR), "monitor", WARNING, "monitor", "/console/groups"),
    "blind": (of_cluster(ok=False, detail="no broker"), "blind", WARNING, "main",
              "/console/groups"),
    "blind for long": (of_cluster(looked_at="2026-09-21T14:11:00Z"), "blind", WARNING, "main",
                       "/console/groups"),
    "offline": (of_cluster(partitions={"offline": 2}), "offline", CRITICAL, "main offline",
                "/console/groups"),
    "below min.isr": (of_cluster(partitions={"below_min_isr": 1}), "offline", CRITICAL,
                      "main below_min_isr", "/console/groups"),
    "replicas": (of_cluster(partitions={"under_replicated": 1}), "replicas", WARNING,
                 "main under_replicated", "/console/groups"),
    "rogue": (of_cluster(rogue_readers=[{"topic": "orders", "since": "2026-09-21T14:00:00Z"}]),
              "rogue", WARNING, "orders", "/console/topics/orders"),
    "STOP": (of_groups(group("STOP", "a/b c")), "stopped", CRITICAL, "a/b c",
             "/console/groups/a%2Fb%20c"),
    "pause": (of_groups(group(not_obeyed="1 member does not use a pause store", paused=True)),
              "not_obeyed", CRITICAL, "billing", "/console/groups/billing"),
    "STALL": (of_groups(group("STALL")), "stalled", CRITICAL, "billing",
              "/console/groups/billing"),
    "REWIND": (of_groups(group("REWIND")), "rewound", WARNING, "billing",
               "/console/groups/billing"),
    "WARN": (of_groups(group("WARN")), "behind", WARNING, "billing", "/console/groups/billing"),
    "stuck commit": (of_groups(group(stuck_commit=True)), "stuck", WARNING, "billing",
                     "/console/groups/billing"),
    "loses records": (of_groups(group(loss_in_s=6 * 3600 - 1)), "losing", CRITICAL, "billing",
                      "/console/groups/billing"),
    "new group": (of_groups(group(lag=10_001, probation={"admitted": False})), "new_lags", WARNING,
                  "billing", "/console/groups/billing"),
    "cold": (of_groups(group(heat="cold")), "cold", WARNING, "billing",
             "/console/groups/billing"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_each_cause_alone(name: str) -> None:
    change, rule, severity, subject, href = ALONE[name]
    it = Installation()
    change(it)
    found = it.verdict()
    assert found.state is (State.DOWN if rule == "not_ready" else State.DEGRADED)
    assert [(each.rule, each.severity, each.subject, each.href) for each in found.causes] == [
        (rule, severity, subject, href)
    ]
    reason = found.page()["reasons"][0]
    assert reason.keys() - {"detail"} == {"what", "since", "severity", "subject", "href"}
    assert reason["what"].endswith(".")
    assert reason["since"].endswith("Z")


def test_every_rule_has_a_row() -> None:
    assert {row[1] for row in ALONE.values()} == set(RULES)


FINE = {
    "other states": sets(suppression={"deals": TopicSuppression(ON)}),
    "no rejects to speak of": both(ended(3, "published"), ended(3, "rejected", "malformed")),
    "rejects below the limit": both(ended(900, "published"), ended(90, "rejected", "malformed")),
    "the limit of a producer": both(
        ended(100, "published"), ended(5, "rejected", "overloaded"),
        counter("headgate_producer_limited_total", 5, "shop", "orders"),
    ),
    "few slow requests": sets(requests=[(10, "201", 3.0)]),
    "few failed requests": sets(requests=[(10, "503", 0.01)]),
    "slow refusals": sets(requests=[(60, "201", 0.01), (60, "400", 3.0)]),
    "a young certificate": gauge(EXPIRY, NOW + 15 * DAY_S),
    "keys fetched after a failure": both(
        counter("headgate_issuer_keys_fetches_total", 1, "failed"),
        counter("headgate_issuer_keys_fetches_total", 1, "fetched"),
    ),
    "a replay with a runner": sets(
        replays=(WaitingReplay("r1", 1_789_999_000_000, 1_789_999_990_000),)
    ),
    "a new group without lag": of_groups(group(probation={"admitted": False})),
    "no group": of_groups(),
    "reloaded": gauge("headgate_config_last_reload_successful", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_all_is_well(name: str) -> None:
    it = Installation()
    FINE[name](it)
    assert it.verdict() == Verdict(State.OK, NOW - 60, ())


def test_the_worst_comes_first_and_the_oldest_of_equals() -> None:
    it = Installation()
    both(dependency("redis"), dependency("kafka main", True), sets(is_ready=False),
         of_groups(group("WARN", "search"), group("STOP", "billing")), suppressed(AWAY),
         gauge("headgate_config_last_reload_successful", 0))(it)  # fmt: skip
    times = {("stopped", "billing", "main"): NOW - 5000}
    found = verdict(it.causes(), times, NOW, NOW)
    assert found.state is State.DOWN
    rules = [each.rule for each in found.causes]
    assert rules == [
        "not_ready", "kafka", "stopped", "redis", "not_suppressed", "behind", "reload",
    ]  # fmt: skip
    assert [each.severity for each in found.causes] == [CRITICAL] * 3 + [WARNING] * 4
    two = Installation(groups=[group("STOP", "a"), group("STOP", "b")])
    times = {("stopped", "b", "main"): NOW - 5000}
    assert [each.subject for each in verdict(two.causes(), times, NOW, NOW).causes] == ["b", "a"]


def test_many_causes_of_a_rule_are_counted() -> None:
    states = {f"topic-{number:03}": TopicSuppression(AWAY) for number in range(500)}
    it = Installation(suppression=states)
    dependency("redis")(it)
    found = it.verdict()
    assert len(found.causes) == 1 + 10 + 1
    assert found.causes[-1].what == "490 more reasons like the 10 before."
    assert found.causes[-1].href == "/console/topics"


def test_a_state_begins_with_its_oldest_cause() -> None:
    it = Installation()
    both(dependency("redis"), of_groups(group("STOP")))(it)
    times = {("stopped", "billing", "main"): NOW - 5000}
    assert verdict(it.causes(), times, NOW, NOW).since == NOW - 5000
    it.is_ready = False
    times |= {("not_ready", "gateway", ""): NOW - 7}
    found = verdict(it.causes(), times, NOW, NOW)
    assert (found.state, found.since) == (State.DOWN, NOW - 7)


def test_times_of_their_own_are_kept() -> None:
    it = Installation()
    both(dependency("redis"), gauge("headgate_spool_events", 3, "orders"),
         gauge("headgate_spool_oldest_seconds", 30, "orders"))(it)  # fmt: skip
    since = {each.rule: each.since for each in it.verdict().causes}
    assert since == {"redis": NOW - 100, "spooled": NOW - 30}


def test_a_group_has_stopped_since_its_last_commit() -> None:
    row = group("STOP", lag=6, position_age_s=90.0, still_since="2026-09-21T14:00:00.000Z")
    [cause] = Installation(groups=[row]).verdict().causes
    assert (cause.since, cause.detail) == (NOW - 800, "lag 6; the next record to read is 90 s old")
    row = group("WARN", lag=6, still_since="2026-09-21T14:00:00.000Z", paused=True)
    [cause] = Installation(groups=[row]).verdict().causes
    assert (cause.since, cause.detail) == (NOW, "lag 6; paused")


def test_the_first_sight_is_kept_and_forgotten() -> None:
    seen = FirstSeen()
    assert seen.see(["a"], 1.0) == {"a": 1.0}
    assert seen.see(["a", "b"], 2.0) == {"a": 1.0, "b": 2.0}
    assert seen.see(["b"], 3.0) == {"b": 2.0}
    assert seen.see(["a", "b"], 4.0) == {"a": 4.0, "b": 2.0}
    assert len(seen.see([str(number) for number in range(5000)], 5.0)) == 1000


def test_a_monitor_that_cannot_be_asked_says_why() -> None:
    [cause] = monitor_causes(NO_MONITOR, NOW)
    assert cause.what == "Consumer groups and partitions are unknown: the monitor cannot be asked."
    assert cause.detail == "no monitor answers: start `headgate monitor`"
    [cause] = monitor_causes(Failure(Reason.FORBIDDEN, "this needs the role 'view'"), NOW)
    assert "give yourself the role view" in cause.detail


def test_latencies_are_those_of_prometheus() -> None:
    it = Recorder()
    meter = Meter(Labels((), lambda _: True), lambda: NOW)
    fleet = Fleet()
    it.note(NOW - 10, fleet)
    for seconds, count in ((0.003, 50), (0.3, 50)):
        for _ in range(count):
            meter.request("/events", 201, seconds)
    fleet.update(1, meter.collect())
    it.note(NOW, fleet)
    p99, count = latencies(it.recent)["/events"]
    assert p99 == pytest.approx(0.25 + 0.25 * 49 / 50, abs=1e-3)
    assert count == pytest.approx(100, abs=0.01)
    assert latencies(it.recent, ())[""][0] == pytest.approx(p99)


# ---- the alerts have the same conditions


def alerts() -> dict[str, Json]:
    text = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()
    groups = yaml.safe_load(text)["groups"]
    return {rule["alert"]: rule for each in groups for rule in each["rules"]}


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.alert])
def test_a_rule_has_the_severity_and_the_threshold_of_its_alert(name: str) -> None:
    rule, alert = RULES[name], alerts()[RULES[name].alert]
    assert alert["labels"]["severity"] == ("page" if rule.severity is CRITICAL else "warn")
    products = re.findall(
        r"[<>] (?:bool )?([\d.]+)(?: \* ([\d.]+))?|([\d.]+) \* sum", alert["expr"]
    )
    limits = {float(one or three) * float(two or 1) for one, two, three in products}
    if rule.limit:
        assert rule.limit in limits
    spans = {"2m": 120, "5m": 300, "15m": 900, "30m": 1800, "1h": 3600}
    ranges = {spans[each] for each in re.findall(r"(?:\[|rate)(\d+[mh])\]?", alert["expr"])
              if each in spans}  # fmt: skip
    if rule.span_s:
        assert rule.span_s in ranges


def test_the_other_thresholds_are_those_of_the_alerts() -> None:
    known = alerts()
    assert f"headgate_held_lag > {HELD_LAG}" in known["HeadgateHeldEventsWait"]["expr"]
    assert f"> {FEW_PER_S}" in known["HeadgateRequestsSlow"]["expr"]
    refused = known["HeadgateEventsRefused"]["expr"]
    named = re.search(r'reason=~"([^"]+)"', refused)
    assert named is not None
    assert {*named[1].split("|"), "overloaded"} == OUR_FAULTS


def test_each_alert_that_warns_is_a_rule() -> None:
    # only Prometheus knows these
    elsewhere = re.compile("Mirror|GatewayDown|RedisSplit|ReplayStuck")
    warning = {
        name
        for name, alert in alerts().items()
        if alert["labels"]["severity"] != "info" and not elsewhere.search(name)
    }
    assert warning == {rule.alert for rule in RULES.values() if rule.alert}
