"""What is kept for plots: of the whole instance, of pairs, of partitions; and how much memory."""

import tracemalloc

import pytest

from headgate.metrics import fleet as recorder
from headgate.metrics.fleet import Fleet, Recorder
from headgate.metrics.snapshot import Buckets, Snapshot

EVENTS = "headgate_events_total"


def fleet_of(**tables: dict[tuple[str, ...], float]) -> Fleet:
    fleet = Fleet()
    events = tables.get("events", {})
    sizes = {(row[0], row[1]): Buckets([1], 600) for row in events}
    counters = {EVENTS: events, recorder.RECORDS_WRITTEN: tables.get("records", {})}
    gauges = {"headgate_held_lag": tables.get("lag", {})}
    fleet.update(1, Snapshot(counters, gauges, {"headgate_event_bytes": sizes}))
    return fleet


def test_each_scale_has_its_own() -> None:
    kept = Recorder()
    fleet = fleet_of(
        events={
            ("shop", "deals", "published", ""): 60,
            ("shop", "orders", "published", ""): 60,
            ("web", "deals", "rejected", "too_large"): 600,
        },
        records={("deals", "3"): 60},
        lag={("deals",): 4, ("orders",): 5},
    )
    kept.note(600, fleet)
    whole = kept.whole.read(EVENTS, by=(2, 3)).rows
    assert whole == {("published", ""): [12.0], ("rejected", "too_large"): [60.0]}
    assert kept.whole.read("headgate_held_lag").rows == {(): [9.0]}
    assert kept.pairs.read(EVENTS, by=(0,)).rows == {("shop",): [2.0], ("web",): [10.0]}
    assert kept.pairs.read(recorder.BYTES, by=(1,)).rows == {
        ("deals",): [20.0],
        ("orders",): [10.0],
    }
    assert kept.pairs.read("headgate_held_lag", by=(0,)).rows == {
        ("deals",): [4.0],
        ("orders",): [5.0],
    }
    assert kept.partitions.read(recorder.RECORDS_WRITTEN, by=(1,)).rows == {("3",): [1.0]}


def test_a_dead_workers_counters_do_not_move_the_plots() -> None:
    kept = Recorder()
    fleet = fleet_of(events={("shop", "deals", "published", ""): 60})
    kept.note(600, fleet)
    fleet.retire(1)
    kept.note(660, fleet)
    assert kept.pairs.read(EVENTS, by=(0,)).rows == {("shop",): [1.0, 0.0]}


@pytest.mark.parametrize("name", ["whole", "pairs", "partitions"])
def test_the_memory_is_what_is_said(name: str) -> None:
    """Texts of labels are the longest that a configuration may bring in practice."""
    history = getattr(Recorder(), name)
    count = 500
    table = {(f"{n:060}", f"{n:061}", "published", ""): 1.0 for n in range(count)}
    tracemalloc.start()
    history.note(600, {EVENTS: {tuple(map(str, row)): n for row, n in table.items()}}, {})
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    bounds = {"whole": 2, "pairs": 12, "partitions": 8}
    assert used / count * history.max_series <= bounds[name] * 1_048_576
