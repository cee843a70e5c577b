"""Cases of the alerts of gateway."""

from __future__ import annotations

from support.alerts.case import Case, counts, over

_UNKNOWN = 'headgate_unknown_outcome_total{topic="t",instance="a"}'
_HELD_AGE, _HELD_LAG = 'headgate_held_oldest_seconds{topic="t"}', 'headgate_held_lag{topic="t"}'
_ASIDE = 'headgate_spool_aside_events{topic="t",instance="a"}'
_OUTCOMES = 'producer_outcome:headgate_events:ratio_rate5m{producer="p",outcome="%s"}'
_UNCHANGED = _OUTCOMES % "unchanged"
_EVENTS = 'producer_topic:headgate_events:rate5m{producer="p",topic="t"}'
_OVER_QUOTA = 'headgate_quota_rejected_total{producer="p",instance="a"}'
_REFUSED = 'headgate_events_total{producer="p",topic="t",reason="%s",outcome="rejected"}'
_LIMITED = 'headgate_producer_limited_total{producer="p",topic="t"}'
_FAILED = 'instance:headgate_requests_failed:ratio_rate5m{instance="a"}'
_P99 = 'route:headgate_accepted_request_seconds:p99_rate5m{route="/r"}'
_ACCEPTED = 'headgate_request_seconds_count{instance="a",route="/r",status="201"}'
_FETCHES = 'headgate_issuer_keys_fetches_total{instance="a",result="%s"}'
_EXPIRY = 'headgate_certificate_expiry_timestamp_seconds{instance="a"}'
_RESTARTS = 'headgate_worker_restarts_total{instance="a"}'
_FACTS = 'headgate_facts_total{topic="t",result="%s"}'
_RELOADED = 'headgate_%s_last_reload_successful{instance="a"}'
_REBUILT = 'headgate_producer_rebuilds_total{cluster="c",reason="fenced",instance="a"}'
_COALESCED = 'headgate_coalescer_restarts_total{topic="t",reason="timeout",instance="a"}'
_SHARD = 'headgate_dependency_up{instance="a",dependency="redis %s"}'
_REDIS = 'headgate_dependency_up{instance="%s",dependency="%s"}'
_TOP_KEY = 'headgate_top_key_share{producer="p",topic="t",instance="a"}'

CASES = (
    Case("HeadgateUnknownOutcomes", *counts(_UNKNOWN)),
    # The first ones of a topic: the series is born with them.
    Case("HeadgateUnknownOutcomes", {_UNKNOWN: "_x26 9x30"}, {_UNKNOWN: "9x60"}),
    # Once, at this moment; once, ten minutes ago.
    Case("HeadgateUnknownOutcomes", {_UNKNOWN: "0x29 9x30"}, {_UNKNOWN: "0x19 9x40"}),
    # For ten minutes; for three, which are over.
    Case(
        "HeadgateSuppressionBypassed",
        {'headgate_suppression_bypassed_total{reason="redis_slow"}': "0x20 0+3x10 30x30"},
        {'headgate_suppression_bypassed_total{reason="redis_slow"}': "0x22 3 6 9 9x30"},
        at=28,
    ),
    Case(
        "HeadgateNothingSuppressed",
        {'headgate_suppression_state{topic="t",state="quarantine"}': "2x60"},
        {'headgate_suppression_state{topic="t",state="on"}': "2x60"},
    ),
    # For ten minutes; for three, which are over.
    Case(
        "HeadgateIdentityBypassed",
        {'headgate_identity_bypassed_total{reason="redis_timeout"}': "0x20 0+3x10 30x30"},
        {'headgate_identity_bypassed_total{reason="redis_timeout"}': "0x22 3 6 9 9x30"},
        at=28,
    ),
    Case("HeadgateGatewayDown", *over('up{job="headgate",instance="a"}', 0, 1)),
    Case(
        "HeadgateGatewayDown",
        {'up{job="another",instance="a"}': "1x60"},
        {'up{job="headgate",instance="a"}': "1x60"},
    ),
    Case("HeadgateGatewayNotReady", *over('headgate_ready{instance="a"}', 0, 1)),
    Case(
        "HeadgateKafkaUnavailable",
        {'headgate_dependency_up{instance="a",dependency="kafka main"}': "0x60"},
        {'headgate_dependency_up{instance="a",dependency="redis"}': "0x60"},
    ),
    Case(
        "HeadgateRedisUnavailable",
        {'headgate_dependency_up{instance="a",dependency="redis identity"}': "0x60"},
        {'headgate_dependency_up{instance="a",dependency="kafka main"}': "0x60"},
    ),
    # Both dependencies on one server: one alert.
    Case(
        "HeadgateRedisUnavailable",
        {_SHARD % "redis-1:6379/0": "0x60", _SHARD % "identity redis-1:6379/0": "0x60"},
        {_SHARD % "redis-1:6379/0": "1x60", _SHARD % "identity redis-1:6379/0": "1x60"},
    ),
    # One of several servers.
    Case(
        "HeadgateRedisUnavailable",
        {_SHARD % "redis-1:6379/0": "1x60", _SHARD % "redis-2:6379/0": "0x60"},
        {_SHARD % "redis-1:6379/0": "1x60", _SHARD % "redis-2:6379/0": "1x60"},
    ),
    # One of two gateways; both.
    Case(
        "HeadgateRedisSplit",
        {_REDIS % ("a", "redis"): "0x60", _REDIS % ("b", "redis"): "1x60"},
        {_REDIS % ("a", "redis"): "0x60", _REDIS % ("b", "redis"): "0x60"},
    ),
    # One of two servers; the one for Idempotency-Keys, without which no `unchanged` is wrong.
    Case(
        "HeadgateRedisSplit",
        {
            _REDIS % ("a", "redis redis-1:6379/0"): "1x60",
            _REDIS % ("b", "redis redis-1:6379/0"): "0x60",
            _REDIS % ("a", "redis redis-2:6379/0"): "1x60",
            _REDIS % ("b", "redis redis-2:6379/0"): "1x60",
        },
        {_REDIS % ("a", "redis identity"): "0x60", _REDIS % ("b", "redis identity"): "1x60"},
    ),
    Case(
        "HeadgateEventsRefused",
        {'headgate_events_total{topic="t",reason="overloaded",outcome="failed"}': "0+3x60"},
        {'headgate_events_total{topic="t",reason="too_large",outcome="failed"}': "0+3x60"},
    ),
    Case(
        "HeadgateEventsRefused",
        {_REFUSED % "kafka_unavailable": "0+3x60", _LIMITED: "0+3x60"},
        {_REFUSED % "quota_exceeded": "0+3x60", _LIMITED: "0+3x60"},
    ),
    # An outage of ten minutes, and one of three that is over.
    Case(
        "HeadgateEventsRefused",
        {_REFUSED % "kafka_unavailable": "0x20 0+3x10 30x30"},
        {_REFUSED % "kafka_unavailable": "0x22 3 6 9 9x30"},
        at=28,
    ),
    # Some, and all, of the refused events are above the limit of their own producer.
    Case(
        "HeadgateEventsRefused",
        {_REFUSED % "overloaded": "0+4x60", _LIMITED: "0+3x60"},
        {_REFUSED % "overloaded": "0+3x60", _LIMITED: "0+3x60"},
    ),
    Case("HeadgateRequestsFail", *over(_FAILED, 0.06, 0.04)),
    # It is over sooner than the alert's time.
    Case("HeadgateRequestsFail", {_FAILED: "1x60"}, {_FAILED: "0x24 1x60"}),
    Case(
        "HeadgateRequestsSlow",
        {_P99: "1.5x60", _ACCEPTED: "0+60x60"},
        {_P99: "0.9x60", _ACCEPTED: "0+60x60"},
    ),
    # Many slow requests, and a few.
    Case(
        "HeadgateRequestsSlow",
        {_P99: "1.5x60", _ACCEPTED: "0+7x60"},
        {_P99: "1.5x60", _ACCEPTED: "0+5x60"},
    ),
    Case(
        "HeadgateBudgetFills",
        {'instance:headgate_in_flight_bytes:ratio{instance="a"}': "0.95x60"},
        {'instance:headgate_in_flight_bytes:ratio{instance="a"}': "0.5x60"},
    ),
    Case(
        "HeadgateBudgetFills",
        {'instance:headgate_in_flight_events:ratio{instance="a"}': "0.95x60"},
        {'instance:headgate_in_flight_events:ratio{instance="a"}': "0.1x26 0.95x30"},
    ),
    Case("HeadgateProducerRejected", *over(_OUTCOMES % "rejected", 0.8, 0.2)),
    Case("HeadgateProducerRejected", {_OUTCOMES % "rejected": "1x60"}, {_UNCHANGED: "1x60"}),
    # Above and below a twentieth of its events, in 60 and 6 a minute.
    Case(
        "HeadgateProducerOverQuota",
        {_OVER_QUOTA: "0+60x60", _EVENTS: "10x60"},
        {_OVER_QUOTA: "0+6x60", _EVENTS: "10x60"},
    ),
    # It is over sooner than the alert's time.
    Case(
        "HeadgateProducerOverQuota",
        {_OVER_QUOTA: "0+60x60", _EVENTS: "10x60"},
        {_OVER_QUOTA: "0x20 0+60x60", _EVENTS: "10x60"},
    ),
    # Refused two hours ago, and nothing was mended since; refused, then mended.
    Case(
        "HeadgateReloadRefused",
        {_RELOADED % "config": "1x20 0x160"},
        {_RELOADED % "config": "1x20 0x20 1x140"},
        at=140,
    ),
    Case(
        "HeadgateReloadRefused",
        {_RELOADED % "config": "1x160", _RELOADED % "tls": "1x20 0x160"},
        {_RELOADED % "config": "1x160", _RELOADED % "tls": "1x20 0x20 1x140"},
        at=140,
    ),
    # Both: one alert.
    Case(
        "HeadgateReloadRefused",
        {_RELOADED % "config": "0x60", _RELOADED % "tls": "0x60"},
        {_RELOADED % "config": "1x60", _RELOADED % "tls": "1x60"},
    ),
    Case("HeadgateCertificateExpires", *over(_EXPIRY, 13 * 86400, 20 * 86400)),
    # It falls due while Prometheus watches: promtool begins in 1970.
    Case(
        "HeadgateCertificateExpires",
        {_EXPIRY: f"{14 * 86400 + 600}x60"},
        {_EXPIRY: f"{14 * 86400 + 3000}x60"},
    ),
    # The second alert has less time, and stays when the certificate has expired.
    Case("HeadgateCertificateExpiresSoon", *over(_EXPIRY, 86400, 3 * 86400)),
    Case("HeadgateCertificateExpiresSoon", *over(_EXPIRY, 60, 3 * 86400)),
    # It failed once and was fetched again; it fails, and nothing else happens.
    Case(
        "HeadgateIssuerAway",
        {_FETCHES % "failed": "0+1x60", _FETCHES % "fetched": "7x60"},
        {_FETCHES % "failed": "0+1x60", _FETCHES % "fetched": "0+5x60"},
        at=45,
    ),
    # It was never there since the start.
    Case("HeadgateIssuerAway", {_FETCHES % "failed": "_x20 3x60"}, {_FETCHES % "failed": "3x60"}),
    Case("HeadgateProducerRebuilt", *counts(_REBUILT)),
    # Every four minutes; in one outage, which is over. The same with a new series.
    Case(
        "HeadgateProducerRebuilt", {_REBUILT: "0x13 1x3 2x3 3x3 4x3 5x30"}, {_REBUILT: "0x19 1x40"}
    ),
    Case(
        "HeadgateProducerRebuilt", {_REBUILT: "_x13 1x3 2x3 3x3 4x3 5x30"}, {_REBUILT: "_x19 1x40"}
    ),
    Case(
        "HeadgateEventLoopHeldUp",
        *over('headgate_event_loop_stall_seconds{instance="a"}', 0.2, 0.01),
    ),
    Case("HeadgateHeldEventsWait", *over(_HELD_AGE, 90, 5)),
    Case("HeadgateHeldEventsWait", *over(_HELD_LAG, 2e5, 10)),
    Case("HeadgateSpoolWaits", *over('headgate_spool_oldest_seconds{topic="t"}', 700, 30)),
    Case(
        "HeadgateSpoolFills", *over('instance:headgate_spool_bytes:ratio{instance="a"}', 0.6, 0.2)
    ),
    Case(
        "HeadgateSpoolTakesNothing",
        {'headgate_dependency_up{instance="a",dependency="spool"}': "0x60"},
        {'headgate_dependency_up{instance="a",dependency="kafka main"}': "0x60"},
    ),
    # Events that were set aside three hours ago; then they were dropped, and the gateway restarted.
    Case("HeadgateSpoolAside", {_ASIDE: "_x20 7x200"}, {_ASIDE: "_x20 7x60 _x120"}, at=200),
    Case("HeadgateCoalescerRestarts", *counts(_COALESCED)),
    Case("HeadgateCoalescerRestarts", {_COALESCED: "0+1x60"}, {_COALESCED: "0x19 1x40"}),
    Case("HeadgateCoalescerRestarts", {_COALESCED: "_x13 1+1x60"}, {_COALESCED: "_x19 1x40"}),
    Case(
        "HeadgateHotKey",
        {_TOP_KEY: "0.4x60", _EVENTS: "10x60"},
        {_TOP_KEY: "0.1x60", _EVENTS: "10x60"},
        at=60,
    ),
    # A single event, whose key stays in the figure.
    Case(
        "HeadgateHotKey",
        {_TOP_KEY: "1x60", _EVENTS: "2x60"},
        {_TOP_KEY: "1x60", _EVENTS: "0x10 0.003x5 0x45"},
        at=60,
    ),
    Case(
        "HeadgateWorkersMissing",
        {'headgate_workers{state="up"}': "1x60", 'headgate_workers{state="wanted"}': "2x60"},
        {'headgate_workers{state="up"}': "2x60", 'headgate_workers{state="wanted"}': "2x60"},
    ),
    Case("HeadgateWorkersRestart", {_RESTARTS: "0x25 1x60"}, {_RESTARTS: "0x5 1x60"}),
    Case("HeadgateFactsDropped", *counts(_FACTS % "full"), at=60),
    Case("HeadgateFactsDropped", {_FACTS % "full": "_x13 1+1x60"}, {_FACTS % "full": "_x19 1x40"}),
    Case("HeadgateFactsDropped", {_FACTS % "no_topic": "0+9x60"}, {_FACTS % "written": "0+9x60"}),
)
