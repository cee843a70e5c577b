"""A histogram's buckets have the newest traced request each; only OpenMetrics shows them."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from headgate.http.pages import prefers_openmetrics
from headgate.metrics.exposition import render, render_openmetrics
from headgate.metrics.fleet import Fleet
from headgate.metrics.meter import Labels, Meter
from headgate.metrics.snapshot import decode
from headgate.model.outcome import Outcome, OutcomeName

ROUTE = "/v1/topics/{topic}/events"


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def metered(clock: Clock) -> Meter:
    return Meter(Labels({"shop"}, lambda topic: True), clock)


def exemplars(text: bytes) -> dict[str, tuple[str, float, float]]:
    """By bucket: trace id, value, time."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            if sample.exemplar is not None:
                assert sample.name == "headgate_request_seconds_bucket"
                shown = sample.exemplar
                place = (shown.labels["trace_id"], shown.value, float(shown.timestamp or 0))
                found[sample.labels["le"]] = place
    return found


def test_the_newest_of_each_bucket_of_all_workers() -> None:
    clock, fleet = Clock(), Fleet()
    for worker, seconds in ((1, 0.003), (2, 0.004), (1, 0.7), (2, 99.0)):
        meter = metered(clock)
        clock.now += 1
        meter.request(ROUTE, 201, seconds)
        meter.exemplar(ROUTE, 201, seconds, f"trace-{clock.now:.0f}")
        number = worker + 10 * int(clock.now)
        fleet.update(number, decode(meter.snapshot()))
        if worker == 1:
            fleet.retire(number)
    text = render_openmetrics(fleet.total(), clock.now)
    assert exemplars(text) == {
        "0.005": ("trace-1700000002", 0.004, 1_700_000_002.0),
        "1.0": ("trace-1700000003", 0.7, 1_700_000_003.0),
        "+Inf": ("trace-1700000004", 99.0, 1_700_000_004.0),
    }


def test_who_merges_them_in_another_order_sees_the_same() -> None:
    clock, fleets = Clock(), (Fleet(), Fleet())
    snapshots = []
    for _ in range(2):
        meter = metered(clock)
        clock.now += 1
        meter.request(ROUTE, 201, 0.003)
        meter.exemplar(ROUTE, 201, 0.003, f"trace-{clock.now:.0f}")
        snapshots.append(meter.snapshot())
    for fleet, order in zip(fleets, (snapshots, snapshots[::-1]), strict=True):
        for number, one in enumerate(order):
            fleet.update(number, decode(one))
    one, other = (render_openmetrics(fleet.total(), clock.now) for fleet in fleets)
    assert exemplars(one) == exemplars(other) != {}


def test_a_request_that_was_not_counted_is_no_example() -> None:
    meter = metered(Clock())
    meter.exemplar(ROUTE, 201, 0.003, "t")
    assert exemplars(render_openmetrics(meter.collect(), 0.0)) == {}


def test_plain_text_is_as_it_was() -> None:
    meters = [metered(Clock()) for _ in range(2)]
    for meter in meters:
        meter.request(ROUTE, 201, 0.003)
        meter.account("shop", "orders", [Outcome(OutcomeName.PUBLISHED)], [10])
    meters[0].exemplar(ROUTE, 201, 0.003, "t")
    with_exemplar, without = (
        [line for line in render(one.collect(), 0.0).splitlines() if b"headgate_worker" not in line]
        for one in meters
    )
    assert with_exemplar == without
    (second,) = (line for line in without if b'_seconds_bucket{le="1",' in line)
    assert second.endswith(b"} 1.0")


def test_openmetrics_says_the_same_figures() -> None:
    meter = metered(Clock())
    meter.request(ROUTE, 201, 0.003)
    meter.account("shop", "orders", [Outcome(OutcomeName.PUBLISHED)], [10])
    snapshot = meter.collect()
    families = {
        one.name: one
        for one in text_string_to_metric_families(render_openmetrics(snapshot, 0.0).decode())
    }
    (events,) = families["headgate_events"].samples
    assert (events.name, events.value) == ("headgate_events_total", 1.0)
    plain = {line.split(b"{")[0].split(b" ")[0] for line in render(snapshot, 0.0).splitlines()}
    shown = {one.name.encode() for family in families.values() for one in family.samples}
    assert plain - {b"#"} == shown


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False), ("*/*", False), ("text/plain", False), ("text/html,*/*;q=0.8", False),
        ("application/openmetrics-text", True), ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
         "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", True),
        ("text/plain;version=0.0.4;q=1,application/openmetrics-text;q=0.5", False),
        ("application/openmetrics-text ; q=0.6 , text/plain;q=0.5", True),
        ("application/openmetrics-text;q=x", False), (";;,,=", False),
    ],
)  # fmt: skip
def test_the_accept_header_decides(accept: str, wanted: bool) -> None:
    assert prefers_openmetrics(accept) is wanted
