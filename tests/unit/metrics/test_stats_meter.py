"""The meter counts every event once, with bounded labels."""

import ast
import asyncio
import re

import pytest

from headgate.metrics import sketches, snapshot
from headgate.metrics.catalogue import METRICS, MetricKind
from headgate.metrics.exposition import render
from headgate.metrics.meter import (
    FOLD_EVENTS,
    MAX_KNOWN,
    MAX_PAIRS,
    HeldFigures,
    Labels,
    Meter,
    Peaks,
    Tasks,
)
from headgate.metrics.snapshot import REJECTS_KEPT, WINDOW_S, Pair, recent
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason
from headgate.model.suppression_states import AWAY, ON, QUARANTINE, TopicSuppression, state_rows
from support.root import ROOT

NOW = 1_700_000_000.0
MISSING = Failure(Reason.MISSING_KEY, "no /id")


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def meter(clock: Clock) -> Meter:
    return Meter(Labels({"shop"}, {"orders", "deals"}.__contains__), clock)


def published(key: bytes | None = b"k") -> Outcome:
    return Outcome(OutcomeName.PUBLISHED, 0, 1, key, "id")


def rejected(key: bytes | None = None) -> Outcome:
    return Outcome(OutcomeName.REJECTED, key=key, failure=MISSING)


def test_events_are_counted_by_outcome_and_reason(meter: Meter) -> None:
    outcomes = [
        published(),
        Outcome(OutcomeName.UNCHANGED, 0, 1, b"k"),
        rejected(),
        published(None),
    ]
    meter.account("shop", "orders", outcomes, [10, 20, 30, 40])
    collected = meter.collect()
    assert collected.counters["headgate_events_total"] == {
        ("shop", "orders", "published", ""): 2,
        ("shop", "orders", "unchanged", ""): 1,
        ("shop", "orders", "rejected", "missing_key"): 1,
    }
    assert collected.counters["headgate_suppressed_bytes_total"] == {("shop", "orders"): 20}
    assert collected.counters["headgate_keyless_total"] == {("shop", "orders"): 1}
    sizes = collected.histograms["headgate_event_bytes"][("shop", "orders")]
    assert sizes.counts[0] == 4
    assert sizes.sum == 100


def test_a_size_on_a_bucket_bound_belongs_to_that_bucket(meter: Meter) -> None:
    bounds = METRICS["headgate_event_bytes"].buckets
    meter.account("shop", "orders", [published()] * 3, [64, 65, 2**31 - 1])
    counts = meter.collect().histograms["headgate_event_bytes"][("shop", "orders")].counts
    assert bounds[0] == 64
    assert (counts[0], counts[1], counts[-1]) == (1, 1, 1)


def test_a_body_of_gigabytes_is_counted_with_all_that_came_with_it(meter: Meter) -> None:
    meter.account("shop", "orders", [published()] * 2, [100, 5 * 2**30])
    found = meter.collect().histograms["headgate_event_bytes"][("shop", "orders")]
    assert (found.counts[-1], found.sum) == (1, 100 + 5 * 2**30)


def test_unknown_ends_are_counted_by_topic(meter: Meter) -> None:
    unknown = Outcome(OutcomeName.UNKNOWN, key=b"k", failure=Failure(Reason.UNKNOWN, "late"))
    meter.account("shop", "orders", [unknown], [1])
    meter.account("nobody", "orders", [unknown], [1])
    counters = meter.collect().counters
    assert counters["headgate_unknown_outcome_total"] == {("orders",): 2}


def test_producers_and_topics_outside_the_configuration_are_other(meter: Meter) -> None:
    for number in range(5000):
        meter.account(f"p{number}", f"t{number}", [published()], [1])
        meter.quota_rejected(f"p{number}", 1)
    collected = meter.collect()
    assert collected.counters["headgate_events_total"] == {
        ("other", "other", "published", ""): 5000
    }
    assert collected.counters["headgate_quota_rejected_total"] == {("other",): 5000}
    assert list(collected.details) == [Pair("other", "other")]
    assert len(meter._known) <= MAX_KNOWN


def test_pairs_are_bounded_even_when_the_configuration_is_not(clock: Clock) -> None:
    meter = Meter(Labels({"shop"}, lambda _topic: True), clock)
    for number in range(MAX_PAIRS + 50):
        meter.account("shop", f"t{number}", [published()], [1])
    details = meter.collect().details
    assert len(details) == MAX_PAIRS + 1
    assert Pair("other", "other") in details


def test_a_reload_names_new_producers_and_keeps_old_figures(meter: Meter) -> None:
    meter.account("shop", "orders", [published()], [1])
    meter.relabel(Labels({"till"}, {"orders"}.__contains__))
    meter.account("shop", "orders", [published()], [1])
    meter.account("till", "orders", [published()], [1])
    assert meter.collect().counters["headgate_events_total"] == {
        ("shop", "orders", "published", ""): 1,
        ("other", "orders", "published", ""): 1,
        ("till", "orders", "published", ""): 1,
    }


def test_folding_between_snapshots_loses_nothing(meter: Meter) -> None:
    requests = FOLD_EVENTS * 2 // 7 + 1
    for _ in range(requests):
        meter.account("shop", "orders", [published()] * 7, [100] * 7)
    collected = meter.collect()
    assert collected.counters["headgate_events_total"] == {
        ("shop", "orders", "published", ""): requests * 7
    }
    window = recent(collected.details[Pair("shop", "orders")], NOW)
    assert window.ends == {("published", ""): requests * 7}
    assert window.bytes == requests * 700


def test_what_waits_to_be_folded_is_bounded_without_snapshots(meter: Meter) -> None:
    for _ in range(FOLD_EVENTS * 3):
        meter.account("shop", "orders", [published()], [1])
    (series,) = meter._series.values()
    assert sum(series.ended.values()) == FOLD_EVENTS * 3
    assert meter._ended == []


def test_keys_are_told_to_the_hour_in_which_they_came(meter: Meter, clock: Clock) -> None:
    for key in (b"first", b"second"):
        meter.account("shop", "orders", [published(key)] * FOLD_EVENTS, [3] * FOLD_EVENTS)
        clock.now += WINDOW_S  # and no snapshot is taken meanwhile
    windows = meter.collect().details[Pair("shop", "orders")].windows
    first = int(NOW // WINDOW_S)
    for number, key in ((first, "first"), (first + 1, "second")):
        sketched = windows[number].sketched
        assert sketches.top_events(sketched, 5) == [(key, FOLD_EVENTS)]
        assert sketches.top_bytes(sketched, 5) == [(key, 3 * FOLD_EVENTS)]


def test_keys_that_wait_are_bounded_without_snapshots(meter: Meter) -> None:
    total = FOLD_EVENTS * 5
    for number in range(0, total, 10):
        keys = [b"%d" % key for key in range(number, number + 10)]
        meter.account("shop", "orders", [published(key) for key in keys], [1] * 10)
    (series,) = meter._series.values()
    assert len(series._keys) <= 2 * FOLD_EVENTS
    sketched = recent(meter.collect().details[Pair("shop", "orders")], NOW).sketched
    assert sketches.keyed_events(sketched) == total
    assert abs(sketches.cardinality(sketched) - total) < total / 20


def test_outcomes_and_sizes_of_different_length_are_refused_at_once(meter: Meter) -> None:
    with pytest.raises(ValueError, match="2 outcomes, but 1 sizes"):
        meter.account("shop", "orders", [published()] * 2, [1])
    assert "headgate_events_total" not in meter.collect().counters


def test_the_newest_rejects_are_kept_with_what_helps(meter: Meter, clock: Clock) -> None:
    for number in range(REJECTS_KEPT + 5):
        clock.now = NOW + number
        key = b"\xff%d" % number
        meter.account("shop", "orders", [rejected(key)], [number], f"request-{number}")
    rejects = meter.collect().details[Pair("shop", "orders")].rejects
    assert len(rejects) == REJECTS_KEPT
    last = rejects[-1]
    assert (last.at, last.reason, last.size) == (NOW + 24, "missing_key", 24)
    assert (last.detail, last.key) == ("no /id", "\\xff24")
    assert last.request_id == "request-24"


def test_keys_of_any_length_and_bytes_are_sketched_apart(meter: Meter) -> None:
    keys = [b"x" * 5000 + b"1", b"x" * 5000 + b"2", b"\xff\xfe", b"\\xff"]
    meter.account("shop", "orders", [published(key) for key in keys], [1, 2, 3, 4])
    sketched = recent(meter.collect().details[Pair("shop", "orders")], NOW).sketched
    assert sketches.cardinality(sketched) == 4
    top = sketches.top_bytes(sketched, 10)
    assert [hot.weight for hot in top] == [4, 3, 2, 1]
    assert max(len(hot.key) for hot in top) < 250


def test_keys_that_look_the_same_are_counted_together(meter: Meter) -> None:
    keys = [b"\xff", b"\\xff", b"\xff"]
    meter.account("shop", "orders", [published(key) for key in keys], [1, 2, 4])
    sketched = recent(meter.collect().details[Pair("shop", "orders")], NOW).sketched
    assert sketches.top_events(sketched, 5) == [("\\xff", 3)]
    assert sketches.top_bytes(sketched, 5) == [("\\xff", 7)]


def test_windows_show_the_last_hour_or_two_only(meter: Meter, clock: Clock) -> None:
    meter.account("shop", "orders", [published(b"old")], [1])
    meter.collect()  # as the parent does every second: a fold counts into one window
    clock.now += 2 * WINDOW_S
    meter.account("shop", "orders", [published(b"new")], [1])
    detail = meter.collect().details[Pair("shop", "orders")]
    assert [hot.key for hot in sketches.top_events(recent(detail, clock.now).sketched, 5)] == [
        "new"
    ]
    assert recent(detail, clock.now + 2 * WINDOW_S).ends == {}


def test_requests_acknowledgements_and_rebuilds(meter: Meter) -> None:
    meter.request("/v1/topics/{topic}/events", 201, 0.001)
    meter.request("/v1/topics/{topic}/events", 201, 99.0)
    meter.acknowledged("orders", 3, 0.004, 17, 1700)
    meter.acknowledged("orders", 4, 0.004, 1, 100)
    meter.rebuilt("main", "out_of_order")
    meter.bypassed("breaker", 5)
    collected = meter.collect()
    requests = collected.histograms["headgate_request_seconds"]
    row = requests[("/v1/topics/{topic}/events", "201")]
    assert (row.counts[0], row.counts[-1], sum(row.counts)) == (1, 1, 2)
    assert sum(collected.histograms["headgate_ack_seconds"][("orders",)].counts) == 2
    assert collected.counters["headgate_acknowledged_records_total"] == {("orders",): 18}
    records = {("orders", "3"): 17, ("orders", "4"): 1}
    assert collected.counters["headgate_partition_records_total"] == records
    sizes = {("orders", "3"): 1700, ("orders", "4"): 100}
    assert collected.counters["headgate_partition_bytes_total"] == sizes
    assert collected.counters["headgate_producer_rebuilds_total"] == {("main", "out_of_order"): 1}
    assert collected.counters["headgate_suppression_bypassed_total"] == {("breaker",): 5}


def test_gauges_are_read_when_a_snapshot_is_taken(meter: Meter) -> None:
    meter.watch(lambda: [("orders", 3, 12, 999)], lambda: (5, 500))
    meter.loop_stall(0.25)
    gauges = meter.collect().gauges
    assert gauges["headgate_lane_depth"] == {("orders", "3"): 12}
    assert gauges["headgate_in_flight_events"] == {(): 5}
    assert gauges["headgate_in_flight_bytes"] == {(): 500}
    assert gauges["headgate_event_loop_stall_seconds"] == {(): 0.25}
    assert gauges["headgate_worker_memory_bytes"][()] > 1_000_000


async def test_tasks_are_counted_now_and_then() -> None:
    now = 100.0
    tasks = Tasks(lambda: now)
    before = tasks.count()
    async with asyncio.TaskGroup() as group:
        ending = asyncio.Event()
        for _ in range(5):
            group.create_task(ending.wait())
        assert tasks.count() == before
        now += 15
        assert tasks.count() == before + 5
        ending.set()


def test_there_are_no_tasks_without_a_loop() -> None:
    assert Tasks(lambda: 100.0).count() == 0


def test_stalls_are_forgotten_after_a_minute() -> None:
    peaks = Peaks()
    peaks.note(NOW, 0.5)
    peaks.note(NOW + 0.1, 0.2)
    assert peaks.largest(NOW + 59) == 0.5
    assert peaks.largest(NOW + 61) == 0.0
    for second in range(1000):
        peaks.note(NOW + second, 0.1)
    assert len(peaks._by_second) <= 60


def test_every_state_of_a_suppressing_topic_is_shown(meter: Meter) -> None:
    """Also those that it is not in: an alert ends when its value is 0, not when it is gone."""
    states = {"orders": TopicSuppression(QUARANTINE, 3.0), "deals": TopicSuppression(ON)}
    meter.watch_suppression(lambda: state_rows(states))
    gauges = meter.collect(with_details=False).gauges["headgate_suppression_state"]
    assert gauges == {
        ("orders", "on"): 0, ("orders", "quarantine"): 1, ("orders", "away"): 0,
        ("deals", "on"): 1, ("deals", "quarantine"): 0, ("deals", "away"): 0,
    }  # fmt: skip
    lines = render(meter.collect(), NOW).decode().splitlines()
    assert 'headgate_suppression_state{state="quarantine",topic="orders"} 1.0' in lines
    states["orders"] = TopicSuppression(AWAY)
    both = snapshot.merge(meter.collect(), meter.collect()).gauges["headgate_suppression_state"]
    assert both["orders", "away"] == 2  # two workers
    assert both["orders", "quarantine"] == 0


def test_suppressing_topics_without_a_name_of_their_own_are_other(meter: Meter) -> None:
    states = {f"t{number}": TopicSuppression(ON) for number in range(3)}
    meter.watch_suppression(lambda: state_rows(states))
    gauges = meter.collect().gauges["headgate_suppression_state"]
    assert gauges == {("other", "on"): 3, ("other", "quarantine"): 0, ("other", "away"): 0}


def test_a_snapshot_survives_the_wire(meter: Meter) -> None:
    meter.account("shop", "orders", [published(), rejected()], [10, 20])
    meter.request("/live", 200, 0.1)
    assert snapshot.decode(snapshot.encode(meter.collect())).details == meter.collect().details


# The modules that produce metrics. Others, such as `metrics/fleet.py`, read them.
PRODUCERS = (
    "metrics/meter.py", "metrics/exposition.py", "metrics/build.py", "supervisor/overview.py",
    "supervisor/parent.py", "supervisor/monitor_process.py", "replays/service.py",
    "monitor/monitor.py",
)  # fmt: skip


def named_in(module: str) -> set[str]:
    """The metrics that a module of the gateway names."""
    tree = ast.parse((ROOT / "gateway" / "headgate" / module).read_text())
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return {text for text in texts if re.fullmatch(r"headgate_[a-z_]+", str(text))}


def test_what_is_declared_is_produced_and_what_is_produced_is_declared() -> None:
    assert set[str]().union(*map(named_in, PRODUCERS)) == METRICS.keys()


def count_everything(meter: Meter) -> None:
    """Give each metric of a meter a value."""
    unknown = Outcome(OutcomeName.UNKNOWN, key=b"k", failure=Failure(Reason.UNKNOWN, "late"))
    meter.account("shop", "orders", [published(), rejected(), published(None)], [10, 20, 5])
    meter.account("shop", "orders", [Outcome(OutcomeName.UNCHANGED, 0, 0, b"k")], [10])
    meter.account("shop", "orders", [unknown, limited("share")], [1, 1])
    meter.oversized("shop", "orders", "chunk")
    meter.coalesced("shop", "orders", OutcomeName.SUPERSEDED, 1, 10)
    meter.facts("orders", "written", 1)
    meter.owner_restarted("orders", "internal")
    meter.drained("orders", 1)
    meter.repeated("orders", 1)
    meter.set_aside("orders", 1)
    meter.request("/live", 200, 0.1)
    meter.acknowledged("orders", 0, 0.1, 1, 10)
    meter.rebuilt("main", "fatal")
    meter.bypassed("breaker", 1)
    meter.canonical_fallback("orders", "not_json")
    meter.identity_bypassed("backlog", 1)
    meter.spans("exported", 1)
    meter.keys_fetched("ok")
    meter.quota_rejected("shop", 1)
    meter.watch(lambda: [("orders", 3, 12, 999)], lambda: (5, 500))
    meter.watch_held(lambda: {"orders": HeldFigures(1, 10, 0.5, 3)})
    meter.watch_spool(lambda: {"orders": (1, 10, 0.5)})
    meter.watch_suppression(lambda: state_rows({"orders": TopicSuppression(ON)}))


def test_what_a_meter_counts_has_the_declared_kind_and_labels(meter: Meter) -> None:
    count_everything(meter)
    collected = meter.collect()
    tables = {**collected.counters, **collected.gauges, **collected.histograms}
    assert {name for name, values in tables.items() if values} == named_in("metrics/meter.py")
    for name, values in tables.items():
        assert {len(labels) for labels in values} == {len(METRICS[name].labels)}, name
    assert {METRICS[name].kind for name in collected.counters} == {MetricKind.COUNTER}
    assert {METRICS[name].kind for name in collected.histograms} == {MetricKind.HISTOGRAM}
    assert {METRICS[name].kind for name in collected.gauges} == {MetricKind.SUM, MetricKind.MAX}


def test_the_text_shows_what_was_counted(meter: Meter) -> None:
    meter.account("shop", "orders", [published(b"a")] * 3 + [published(b"b")], [100] * 4)
    meter.request("/live", 200, 0.1)
    lines = render(meter.collect(), NOW).decode().splitlines()
    assert (
        'headgate_events_total{outcome="published",producer="shop",reason="",topic="orders"} 4.0'
        in lines
    )
    assert 'headgate_event_bytes_bucket{le="256",producer="shop",topic="orders"} 4.0' in lines
    assert 'headgate_event_bytes_count{producer="shop",topic="orders"} 4.0' in lines
    assert 'headgate_request_seconds_bucket{le="0.1",route="/live",status="200"} 1.0' in lines
    assert 'headgate_key_cardinality{producer="shop",topic="orders"} 2.0' in lines
    assert 'headgate_top_key_share{producer="shop",topic="orders"} 0.75' in lines


def limited(limit: str | None, producer: str | None = None) -> Outcome:
    """An event that the gateway refused for lack of room."""
    figures = {name: text for name, text in (("limit", limit), ("producer", producer)) if text}
    failure = Failure(Reason.OVERLOADED, "too much", figures or None)
    return Outcome(OutcomeName.REJECTED, failure=failure)


def test_events_above_a_limit_of_their_own_producer_are_counted_apart(meter: Meter) -> None:
    of_producer = [
        limited("max_in_flight_events", "shop"),
        limited("in_flight_max_bytes", "shop"),
        limited("share"),
    ]
    of_instance = [limited("in_flight_max_bytes"), limited("blobs.uploads"), limited(None)]
    meter.account("shop", "orders", [*of_producer, *of_instance, rejected()], [1] * 7)
    counters = meter.collect().counters
    assert counters["headgate_producer_limited_total"] == {("shop", "orders"): 3}
    assert counters["headgate_events_total"]["shop", "orders", "rejected", "overloaded"] == 6
