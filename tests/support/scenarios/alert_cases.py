"""For each alert: series at which it fires, and series at which it must keep silent.

The values are promtool's: `0+10x30` is 0, 10, ... for 31 minutes, `_` is no value, `1x90` the same
value 91 times. What counts is the minute `at`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Series = dict[str, str]  # name and labels -> values, one a minute


class Case(NamedTuple):
    """at: minutes since 1970, which is when promtool begins."""

    alert: str
    fires: Series
    silent: Series
    at: int = 30


def _state(state: str, at: int = 30) -> tuple[Series, Series]:
    """A group in a state, and in it no longer than the alert forgives."""
    name = f'headgate_group_state{{group="g",state="{state}"}}'
    return {name: "1x90"}, {name: f"0x{at - 2} 1x90"}


def _over(name: str, bad: float, good: float) -> tuple[Series, Series]:
    return {name: f"{bad:g}x120"}, {name: f"{good:g}x120"}


def _counts(name: str) -> tuple[Series, Series]:
    """It goes on counting, and it counted once, long ago."""
    return {name: "0+5x120"}, {name: "7x120"}


_REGRESSIONS = 'headgate_commit_regressions_total{group="g",topic="t"}'
_UNKNOWN = 'headgate_unknown_outcome_total{topic="t",instance="a"}'
_LOST = 'headgate_mirror_lost_offsets_total{topic="t",partition="0"}'
_GAPS = 'headgate_mirror_gaps_total{topic="t",partition="0"}'
_FOREIGN = 'headgate_mirror_foreign_total{topic="t",partition="0"}'
_PROBATION, _LAG = 'headgate_group_probation{group="g"}', 'headgate_group_lag{group="g",topic="t"}'
_RUNNER = 'headgate_replay_runner{cluster="c",instance="%s"}'
_RUNNER_WROTE = 'headgate_replay_timestamp_seconds{cluster="c",instance="%s"}'
_MIRROR_WROTE = 'headgate_mirror_timestamp_seconds{cluster="c",instance="a"}'
_OLDEST = 'headgate_replay_oldest_seconds{cluster="c"}'
_REMAINING = 'headgate_replay_remaining_offsets{cluster="c"}'
_HELD_AGE, _HELD_LAG = 'headgate_held_oldest_seconds{topic="t"}', 'headgate_held_lag{topic="t"}'
_ASIDE = 'headgate_spool_aside_total{topic="t"}'
_OUTCOMES = 'producer_outcome:headgate_events:ratio_rate5m{producer="p",outcome="%s"}'
_UNCHANGED = _OUTCOMES % "unchanged"
_FETCHES = 'headgate_issuer_keys_fetches_total{instance="a",result="%s"}'
_EXPIRY = 'headgate_certificate_expiry_timestamp_seconds{instance="a"}'
_RESTARTS = 'headgate_worker_restarts_total{instance="a"}'
_FACTS = 'headgate_facts_total{topic="t",result="%s"}'
_FAILED = 'headgate_replays_failed_total{instance="%s"}'
_SHARD = 'headgate_dependency_up{instance="a",dependency="redis %s"}'
_CLOCK = "0+60x120"  # a file that is written every minute

CASES = (
    Case("HeadgateStuckCommit", *_over('headgate_group_stuck_commits{group="g"}', 1, 0)),
    Case("HeadgateGroupRewound", *_state("REWIND")),
    Case("HeadgateGroupStopped", *_state("STOP")),
    Case("HeadgateGroupStalled", *_state("STALL")),
    Case("HeadgateGroupFallsBehind", *_state("WARN")),
    Case("HeadgateCommitsGoBack", *_counts(_REGRESSIONS), at=90),
    Case("HeadgateCommitsGoBack", {_REGRESSIONS: "_x80 1x40"}, {_REGRESSIONS: "1x120"}, at=90),
    Case("HeadgateRecordsWillBeLost", *_over('headgate_group_loss_seconds{group="g"}', 3600, 1e6)),
    Case(
        "HeadgateNewGroupLags",
        {_PROBATION: "1x60", _LAG: "20000x60"},
        {_PROBATION: "0x60", _LAG: "20000x60"},
    ),
    Case("HeadgateNewGroupLags", {_PROBATION: "1x60", _LAG: "20000x60"}, {_PROBATION: "1x60"}),
    Case(
        "HeadgateColdReads",
        *_over('headgate_group_heat{group="g",heat="cold"}', 1, 0),
    ),
    Case(
        "HeadgateRogueReader",
        *_over('headgate_unexplained_bytes_per_second{cluster="c",topic="t"}', 2e6, 1e5),
    ),
    Case("HeadgateIdleMembers", *_over('headgate_group_idle_members{group="g"}', 2, 0), at=90),
    Case(
        "HeadgatePartitionsOffline",
        {'headgate_cluster_partitions{cluster="c",state="offline"}': "1x60"},
        {'headgate_cluster_partitions{cluster="c",state="under_replicated"}': "1x60"},
    ),
    Case(
        "HeadgateUnderReplicated",
        *_over('headgate_cluster_partitions{cluster="c",state="under_replicated"}', 3, 0),
    ),
    Case("HeadgateMonitorDown", *_over('up{job="headgate-monitor",instance="m"}', 0, 1)),
    Case(
        "HeadgateMonitorDown",
        {'up{job="headgate",instance="a"}': "1x60"},
        {'up{job="headgate-monitor",instance="m"}': "1x60"},
    ),
    Case(
        "HeadgateMonitorIsBlind", *_over('headgate_monitor_look_age_seconds{cluster="c"}', 200, 10)
    ),
    Case(
        "HeadgateMonitorMissesCommits",
        *_over('headgate_monitor_follows_commits{cluster="c"}', 0, 1),
    ),
    Case("HeadgateUnknownOutcomes", *_counts(_UNKNOWN)),
    # The first ones of a topic: the series is born with them.
    Case("HeadgateUnknownOutcomes", {_UNKNOWN: "_x26 9x30"}, {_UNKNOWN: "9x60"}),
    Case(
        "HeadgateSuppressionBypassed",
        *_counts('headgate_suppression_bypassed_total{reason="redis_slow"}'),
    ),
    Case(
        "HeadgateNothingSuppressed",
        {'headgate_suppression_state{topic="t",state="quarantine"}': "2x60"},
        {'headgate_suppression_state{topic="t",state="on"}': "2x60"},
    ),
    Case(
        "HeadgateIdentityBypassed",
        *_counts('headgate_identity_bypassed_total{reason="redis_timeout"}'),
    ),
    Case("HeadgateGatewayDown", *_over('up{job="headgate",instance="a"}', 0, 1)),
    Case(
        "HeadgateGatewayDown",
        {'up{job="another",instance="a"}': "1x60"},
        {'up{job="headgate",instance="a"}': "1x60"},
    ),
    Case("HeadgateGatewayNotReady", *_over('headgate_ready{instance="a"}', 0, 1)),
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
    # One of several servers.
    Case(
        "HeadgateRedisUnavailable",
        {_SHARD % "redis-1:6379/0": "1x60", _SHARD % "redis-2:6379/0": "0x60"},
        {_SHARD % "redis-1:6379/0": "1x60", _SHARD % "redis-2:6379/0": "1x60"},
    ),
    Case(
        "HeadgateEventsRefused",
        {'headgate_events_total{topic="t",reason="overloaded",outcome="failed"}': "0+3x60"},
        {'headgate_events_total{topic="t",reason="too_large",outcome="failed"}': "0+3x60"},
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
    Case("HeadgateProducerRejected", *_over(_OUTCOMES % "rejected", 0.8, 0.2)),
    Case("HeadgateProducerRejected", {_OUTCOMES % "rejected": "1x60"}, {_UNCHANGED: "1x60"}),
    Case(
        "HeadgateReloadRefused",
        {'headgate_config_reloads_total{result="refused",instance="a"}': "0x25 1x60"},
        {'headgate_config_reloads_total{result="applied",instance="a"}': "0x25 1x60"},
    ),
    Case(
        "HeadgateReloadRefused",
        {'headgate_tls_reloads_total{result="refused",instance="a"}': "0x25 1x60"},
        {'headgate_tls_reloads_total{result="applied",instance="a"}': "0x25 1x60"},
    ),
    Case("HeadgateCertificateExpires", *_over(_EXPIRY, 13 * 86400, 20 * 86400)),
    # It falls due while Prometheus watches: promtool begins in 1970.
    Case(
        "HeadgateCertificateExpires",
        {_EXPIRY: f"{14 * 86400 + 600}x60"},
        {_EXPIRY: f"{14 * 86400 + 3000}x60"},
    ),
    # It failed once and was fetched again; it fails, and nothing else happens.
    Case(
        "HeadgateIssuerAway",
        {_FETCHES % "failed": "0+1x60", _FETCHES % "fetched": "7x60"},
        {_FETCHES % "failed": "0+1x60", _FETCHES % "fetched": "0+5x60"},
        at=45,
    ),
    # It was never there since the start.
    Case("HeadgateIssuerAway", {_FETCHES % "failed": "_x20 3x60"}, {_FETCHES % "failed": "3x60"}),
    Case(
        "HeadgateProducerRebuilt",
        *_counts('headgate_producer_rebuilds_total{cluster="c",reason="fenced"}'),
    ),
    Case(
        "HeadgateEventLoopHeldUp",
        *_over('headgate_event_loop_stall_seconds{instance="a"}', 0.2, 0.01),
    ),
    Case("HeadgateHeldEventsWait", *_over(_HELD_AGE, 90, 5)),
    Case("HeadgateHeldEventsWait", *_over(_HELD_LAG, 2e5, 10)),
    Case("HeadgateSpoolWaits", *_over('headgate_spool_oldest_seconds{topic="t"}', 700, 30)),
    Case(
        "HeadgateSpoolFills", *_over('instance:headgate_spool_bytes:ratio{instance="a"}', 0.6, 0.2)
    ),
    Case(
        "HeadgateSpoolTakesNothing",
        {'headgate_dependency_up{instance="a",dependency="spool"}': "0x60"},
        {'headgate_dependency_up{instance="a",dependency="kafka main"}': "0x60"},
    ),
    Case("HeadgateSpoolAside", *_counts(_ASIDE), at=90),
    Case("HeadgateSpoolAside", {_ASIDE: "_x80 1x40"}, {_ASIDE: "1x120"}, at=90),
    Case(
        "HeadgateCoalescerRestarts",
        *_counts('headgate_coalescer_restarts_total{topic="t",reason="timeout"}'),
    ),
    Case(
        "HeadgateHotKey", *_over('headgate_top_key_share{producer="p",topic="t"}', 0.4, 0.1), at=60
    ),
    Case(
        "HeadgateWorkersMissing",
        {'headgate_workers{state="up"}': "1x60", 'headgate_workers{state="wanted"}': "2x60"},
        {'headgate_workers{state="up"}': "2x60", 'headgate_workers{state="wanted"}': "2x60"},
    ),
    Case("HeadgateWorkersRestart", {_RESTARTS: "0x25 1x60"}, {_RESTARTS: "0x5 1x60"}),
    Case("HeadgateFactsDropped", *_counts(_FACTS % "full"), at=60),
    Case("HeadgateFactsDropped", {_FACTS % "no_topic": "0+9x60"}, {_FACTS % "written": "0+9x60"}),
    Case("HeadgateMirrorLost", *_counts(_LOST), at=90),
    Case("HeadgateMirrorGap", *_counts(_GAPS), at=90),
    Case("HeadgateMirrorForeign", *_counts(_FOREIGN), at=90),
    # Found when the topic was mirrored for the first time: the series is born with it.
    Case("HeadgateMirrorForeign", {_FOREIGN: "_x80 1x40"}, {_FOREIGN: "0x120"}, at=90),
    Case("HeadgateMirrorSilent", {_MIRROR_WROTE: "0+60x20 1200x60"}, {_MIRROR_WROTE: _CLOCK}),
    Case("HeadgateMirrorSilent", {_MIRROR_WROTE: "0+60x15 _x60"}, {_MIRROR_WROTE: _CLOCK}),
    Case(
        "HeadgateMirrorBehind",
        *_over('headgate_mirror_lag_seconds{topic="t",partition="0"}', 100, 20),
    ),
    Case(
        "HeadgateMirrorSkips",
        {'headgate_mirror_topic_skipped{topic="t",reason="settings"}': "1x60"},
        {'headgate_mirror_topic_skipped{topic="t",reason="settings"}': "1x5 _x55"},
    ),
    # Another process has the lease, and that is the only one.
    Case(
        "HeadgateNoReplayRunner",
        {_RUNNER % "a": "0x60", _RUNNER_WROTE % "a": _CLOCK},
        {_RUNNER % "a": "1x60", _RUNNER_WROTE % "a": _CLOCK},
    ),
    # Dead: its file says 1 for good. Another runner has taken over, and the dead one does no harm.
    Case(
        "HeadgateNoReplayRunner",
        {_RUNNER % "a": "1x60", _RUNNER_WROTE % "a": "0+60x15 900x60"},
        {
            _RUNNER % "a": "1x60",
            _RUNNER_WROTE % "a": "0+60x15 900x60",
            _RUNNER % "b": "0x15 1x60",
            _RUNNER_WROTE % "b": _CLOCK,
        },
    ),
    # Gone with its host, or never there.
    Case(
        "HeadgateNoReplayRunner", {_RUNNER % "a": "1x15 _x60", _RUNNER_WROTE % "a": "0+60x15"}, {}
    ),
    Case(
        "HeadgateReplayStuck",
        {_OLDEST: "4000+60x90", _REMAINING: "500x90"},
        {_OLDEST: "4000+60x90", _REMAINING: "5000-10x90"},
        at=60,
    ),
    Case("HeadgateReplayFailed", {_FAILED % "a": "0x70 1x20"}, {_FAILED % "a": "2x5 3x90"}, at=80),
    # Another gateway was started since, and has seen nothing of it.
    Case(
        "HeadgateReplayFailed",
        {_FAILED % "a": "2x70 3x20", _FAILED % "b": "_x75 0x20"},
        {_FAILED % "a": "2x70 _x20", _FAILED % "b": "_x75 0x20"},
        at=80,
    ),
)


def rule_tests(alert: str, rules: str) -> dict[str, Any]:
    """The cases of an alert as promtool reads them. rules: path of a file with the alert."""
    groups = []
    for case in [case for case in CASES if case.alert == alert]:
        firing = f'count(ALERTS{{alertname="{case.alert}",alertstate="firing"}})'
        for series, count in ((case.fires, 1), (case.silent, 0)):
            expected = [{"labels": "{}", "value": count}] if count else []
            groups.append(
                {
                    "name": f"{case.alert} {'fires' if count else 'is silent'}",
                    "interval": "1m",
                    "input_series": [
                        {"series": name, "values": values} for name, values in series.items()
                    ],
                    "promql_expr_test": [
                        {
                            "expr": firing,
                            "eval_time": f"{case.at}m",
                            "exp_samples": expected,
                        }
                    ],
                }
            )
    return {"rule_files": [rules], "evaluation_interval": "1m", "tests": groups}
