"""Workers' snapshots merged say the same as one worker that had seen everything."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.metrics import sketches
from headgate.metrics.fleet import Fleet, Rates, Volume
from headgate.metrics.meter import Labels, Meter
from headgate.metrics.snapshot import Pair, Snapshot, decode, encode, merge, recent
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason

NOW = 1_700_000_000.0
PAIR = Pair("shop", "orders")
ENDS = (
    (OutcomeName.PUBLISHED, None),
    (OutcomeName.UNCHANGED, None),
    (OutcomeName.REJECTED, Failure(Reason.TOO_LARGE, "too large")),
    (OutcomeName.UNKNOWN, Failure(Reason.UNKNOWN, "late")),
)


def new_meter() -> Meter:
    labels = Labels({"shop", "till"}, {"orders", "deals"}.__contains__)
    return Meter(labels, lambda: NOW)


def wire(figures: Snapshot) -> Snapshot:
    return decode(encode(figures))


events = st.tuples(
    st.sampled_from(["shop", "till", "stranger"]),
    st.sampled_from(["orders", "deals", "made-up"]),
    st.sampled_from(ENDS),
    st.one_of(st.none(), st.integers(0, 40).map(lambda number: b"key-%d" % number)),
    st.integers(0, 2_000_000),
    st.integers(0, 2),
)


@given(st.lists(events, max_size=200))
@settings(deadline=None, max_examples=60)
def test_three_workers_merged_equal_one_that_saw_everything(
    rows: list[tuple[str, str, tuple[OutcomeName, Failure | None], bytes | None, int, int]],
) -> None:
    workers, alone = [new_meter() for _ in range(3)], new_meter()
    for producer, topic, (name, failure), key, size, worker in rows:
        outcome = Outcome(name, 0, 0, key, "id", failure)
        for meter in (workers[worker], alone):
            meter.account(producer, topic, [outcome], [size])
            meter.request("/events", 200, size / 1e6)
            meter.bypassed("breaker", 1)
    merged = Snapshot()
    for meter in workers:
        merged = merge(merged, wire(meter.collect()))
    expected = wire(alone.collect())
    for figures in (merged, expected):
        del figures.counters["headgate_worker_cpu_seconds_total"]
    assert merged.counters == expected.counters
    assert merged.details.keys() == expected.details.keys()
    for name, values in expected.histograms.items():
        assert merged.histograms[name].keys() == values.keys()
        for labels, buckets in values.items():
            assert merged.histograms[name][labels].counts == buckets.counts
            assert merged.histograms[name][labels].sum == pytest.approx(buckets.sum)
    for pair, detail in expected.details.items():
        ours, theirs = recent(merged.details[pair], NOW), recent(detail, NOW)
        assert (ours.ends, ours.bytes) == (theirs.ends, theirs.bytes)
        # with so few keys and events the sketches are exact
        one, other = ours.sketched, theirs.sketched
        assert sketches.cardinality(one) == sketches.cardinality(other)
        assert sketches.top_events(one, 50) == sketches.top_events(other, 50)
        assert sketches.top_bytes(one, 50) == sketches.top_bytes(other, 50)
        assert sketches.quantiles(one) == sketches.quantiles(other)


def test_sketches_of_many_keys_stay_within_their_error_after_merging() -> None:
    """40,000 keys over two workers, one key with 10 % of the events and 60 % of the bytes."""
    workers = [new_meter(), new_meter()]
    seen: Counter[bytes] = Counter()
    for start in range(0, 40_000, 50):
        keys = [b"%d" % number for number in range(start, start + 45)] + [b"hot"] * 5
        seen.update(keys)
        sizes = [(key == b"hot" and 10_000) or 700 + start % 100 for key in keys]
        outcomes = [Outcome(OutcomeName.PUBLISHED, 0, 0, key) for key in keys]
        workers[start % 100 // 50].account("shop", "orders", outcomes, sizes)
    merged = merge(wire(workers[0].collect()), wire(workers[1].collect()))
    sketched = recent(merged.details[PAIR], NOW).sketched
    assert sketches.cardinality(sketched) == pytest.approx(len(seen), rel=0.05)
    total = seen.total()
    assert sketches.keyed_events(sketched) == total
    (hot,) = sketches.top_events(sketched, 1)
    assert hot.key == "hot"
    assert hot.weight == pytest.approx(seen[b"hot"], abs=0.007 * total)
    (heavy,) = sketches.top_bytes(sketched, 1)
    assert heavy.key == "hot"
    assert heavy.weight / sketches.keyed_bytes(sketched) == pytest.approx(0.6, abs=0.02)
    sizes = sketches.quantiles(sketched)
    assert sizes is not None
    assert 700 <= sizes.p50 <= 800
    assert sizes.p99 == sizes.max == 10_000


def test_rejects_of_all_workers_are_kept_newest_last() -> None:
    clock = iter(NOW + step for step in range(100))
    labels = Labels({"shop"}, {"orders"}.__contains__)
    ticking = [Meter(labels, lambda: next(clock)) for _ in range(2)]
    for number in range(40):
        bad = Outcome(OutcomeName.REJECTED, failure=Failure(Reason.MALFORMED, str(number)))
        ticking[number % 2].account("shop", "orders", [bad], [1])
    merged = merge(ticking[0].collect(), ticking[1].collect())
    assert [each.detail for each in merged.details[PAIR].rejects] == [
        str(number) for number in range(20, 40)
    ]


def test_gauges_add_or_take_the_largest() -> None:
    busy, idle = new_meter(), new_meter()
    busy.watch(lambda: [("orders", 0, 7, 70)], lambda: (3, 30))
    idle.watch(lambda: [("orders", 0, 1, 10)], lambda: (1, 10))
    busy.loop_stall(0.5)
    idle.loop_stall(0.1)
    gauges = merge(busy.collect(), idle.collect()).gauges
    assert gauges["headgate_lane_depth"] == {("orders", "0"): 8}
    assert gauges["headgate_in_flight_events"] == {(): 4}
    assert gauges["headgate_event_loop_stall_seconds"] == {(): 0.5}


def test_merging_changes_neither_side() -> None:
    one, other = new_meter(), new_meter()
    for meter in (one, other):
        meter.account("shop", "orders", [Outcome(OutcomeName.PUBLISHED, 0, 0, b"k")], [10])
        meter.request("/events", 200, 0.1)
    left, right = one.collect(), other.collect()
    before = encode(left), encode(right)
    merge(left, right)
    assert (encode(left), encode(right)) == before


def published(meter: Meter, count: int) -> None:
    outcomes = [Outcome(OutcomeName.PUBLISHED, 0, 0, b"k")] * count
    meter.account("shop", "orders", outcomes, [100] * count)


def total_events(fleet: Fleet) -> float:
    return sum(fleet.total().counters.get("headgate_events_total", {}).values())


def test_counters_stay_when_a_worker_dies_and_its_gauges_go() -> None:
    fleet, first, second = Fleet(), new_meter(), new_meter()
    first.watch(lambda: [("orders", 0, 7, 70)], lambda: (3, 30))
    published(first, 10)
    published(second, 5)
    fleet.update(101, first.collect())
    fleet.update(102, second.collect())
    assert total_events(fleet) == 15
    fleet.retire(101)
    assert total_events(fleet) == 15
    assert fleet.total().gauges["headgate_lane_depth"] == {}
    fleet.update(103, new_meter().collect())
    published(second, 1)
    fleet.update(102, second.collect())
    assert total_events(fleet) == 16
    window = recent(fleet.total().details[PAIR], NOW)
    assert window.ends == {("published", ""): 16}


def test_a_reading_without_details_keeps_the_last_ones() -> None:
    fleet, meter = Fleet(), new_meter()
    published(meter, 3)
    fleet.update(1, meter.collect())
    published(meter, 3)
    fleet.update(1, meter.collect(with_details=False), has_details=False)
    assert total_events(fleet) == 6
    assert recent(fleet.total().details[PAIR], NOW).ends == {("published", ""): 3}


def test_rates_are_over_the_last_minute() -> None:
    rates = Rates()
    assert rates.rate(PAIR) == Volume(0, 0)
    for second in range(200):
        events = float(min(second, 100) * 10)
        rates.note(second, {PAIR: Volume(events, events * 100)} if second else {})
        if second == 50:
            assert rates.rate(PAIR) == Volume(10, 1000)
        if second == 130:
            assert rates.rate(PAIR) == Volume(5, 500)
    assert rates.rate(PAIR) == Volume(0, 0)
    assert rates.rate(Pair("nobody", "nothing")) == Volume(0, 0)


def test_the_last_use_of_a_token_is_the_latest_of_all_workers() -> None:
    first, second = Snapshot(tokens={"aa": 10.0, "bb": 5.0}), Snapshot(tokens={"aa": 12.0})
    assert merge(wire(first), wire(second)).tokens == {"aa": 12.0, "bb": 5.0}


def test_a_reading_without_details_and_the_end_of_a_worker_keep_the_uses_of_tokens() -> None:
    fleet = Fleet()
    fleet.update(1, Snapshot(tokens={"aa": 10.0}))
    fleet.update(1, Snapshot(), has_details=False)
    assert fleet.total().tokens == {"aa": 10.0}
    fleet.retire(1)
    assert fleet.total().tokens == {"aa": 10.0}
