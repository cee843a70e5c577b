"""Producers that are not configured: the busiest are known by name, in bounded memory."""

import time

from headgate.metrics import snapshot
from headgate.metrics.fleet import Fleet
from headgate.metrics.meter import Labels, Meter
from headgate.metrics.series import UnconfiguredProducers
from headgate.metrics.snapshot import MAX_UNCONFIGURED, Pair, Unconfigured
from headgate.model.outcome import Outcome, OutcomeName


def test_a_busy_name_is_there_however_many_others_come() -> None:
    found = UnconfiguredProducers()
    for number in range(5000):
        found.add(f"once-{number}", 1, float(number))
        if number % 20 == 0:
            found.add("busy", 10, float(number))
    names = found.collect()
    assert len(names) == MAX_UNCONFIGURED
    assert names["busy"].events >= 2500
    assert names["busy"].last_seen == 4980


def test_a_meter_counts_them_beside_the_series_that_they_share() -> None:
    meter = Meter(Labels({"shop"}, {"orders"}.__contains__), time.time)
    for producer, times in (("shop", 5), ("cart", 2), ("cart", 2), ("basket", 1)):
        outcomes = [Outcome(OutcomeName.PUBLISHED, 0, 0, b"k")] * times
        meter.account(producer, "orders", outcomes, [1] * times)
    collected = snapshot.decode(meter.snapshot())
    assert {name: one.events for name, one in collected.unconfigured.items()} == {
        "cart": 4,
        "basket": 1,
    }
    assert sum(collected.details[Pair("other", "orders")].windows.popitem()[1].ends.values()) == 5


def test_workers_together_and_those_that_died() -> None:
    fleet = Fleet()
    for worker, events in ((1, 3), (2, 4)):
        unconfigured = {
            "cart": Unconfigured(events, float(worker)),
            f"only-{worker}": Unconfigured(1, 9.0),
        }
        fleet.update(worker, snapshot.Snapshot(unconfigured=unconfigured))
    fleet.retire(1)
    fleet.update(2, snapshot.Snapshot(), has_details=False)
    found = fleet.total().unconfigured
    assert found["cart"] == Unconfigured(7, 2.0)
    assert set(found) == {"cart", "only-1", "only-2"}


def test_merging_keeps_the_busiest() -> None:
    one = snapshot.Snapshot(
        unconfigured={f"a-{n}": Unconfigured(n, 0.0) for n in range(MAX_UNCONFIGURED)}
    )
    other = snapshot.Snapshot(
        unconfigured={f"b-{n}": Unconfigured(n, 0.0) for n in range(MAX_UNCONFIGURED)}
    )
    merged = snapshot.merge(one, other).unconfigured
    assert len(merged) == MAX_UNCONFIGURED
    assert min(row.events for row in merged.values()) == MAX_UNCONFIGURED // 2
