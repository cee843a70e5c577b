"""Metric cardinality: names that clients choose make no series of their own."""

from __future__ import annotations

import time

from headgate.config.settings import ProducerSettings
from headgate.metrics.catalogue import OTHER
from headgate.metrics.exposition import render
from headgate.metrics.meter import MAX_PAIRS, Labels, Meter
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason, rejected
from support.gateway.data_plane_world import data_port
from support.gateway.meters import requests


def series(meter: Meter) -> list[str]:
    lines = render(meter.collect(), time.time()).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def a_meter(topics: frozenset[str] = frozenset(("orders",))) -> Meter:
    return Meter(Labels({"shop": ProducerSettings()}, topics.__contains__), time.time)


def test_metric_cardinality_of_producers_topics_keys_and_reasons() -> None:
    meter = a_meter()
    published = Outcome(OutcomeName.PUBLISHED, 0, 1, b"k", "e", records=1)
    meter.account("shop", "orders", [published], [10])
    meter.account("x", "y", [published, rejected(Failure(Reason.MALFORMED, "why"))], [10, 0])
    before = len(series(meter))
    for number in range(3000):
        meter.account(f"producer-{number}", f"topic-{number}", [published], [10])
        meter.account(
            "shop", "orders", [Outcome(OutcomeName.PUBLISHED, 0, 1, b"k-%d" % number)], [10]
        )
        failure = Failure(Reason.MALFORMED, f"detail {number}")
        meter.account(f"producer-{number}", "orders", [rejected(failure)], [0])
    lines = series(meter)
    assert len(lines) < before + 100
    assert not [line for line in lines if "producer-" in line or "topic-" in line or "k-1" in line]
    assert any(f'producer="{OTHER}"' in line for line in lines)


def test_metric_cardinality_of_topics_that_a_glob_matches() -> None:
    """Those exist, so they have names; there is a limit to them, too."""
    names = frozenset(f"orders.{number}" for number in range(MAX_PAIRS + 500))
    meter = a_meter(names)
    for name in sorted(names):
        meter.account("shop", name, [Outcome(OutcomeName.PUBLISHED, 0, 1, b"k")], [10])
    shown = {line.split('topic="')[1].split('"')[0] for line in series(meter) if 'topic="' in line}
    assert MAX_PAIRS // 2 < len(shown) <= MAX_PAIRS + 1


async def test_metric_cardinality_of_paths_and_methods() -> None:
    """A route's label is its template; whatever has none is not counted by its path."""
    meter = a_meter()
    async with data_port(requests=meter) as port:
        for number in range(20):
            await port.post(f"topic-{number}", b"{}", {"Content-Type": "application/json"})
            await port.ask("GET", f"/nothing/{number}")
            await port.ask("GET", f"/topics/t-{number}")
            await port.ask(f"M{number}", "/live")
    seen = requests(meter)
    assert seen
    assert not [
        route
        for route, _ in seen
        if any(one.isdigit() for one in route.replace("/v1/", "").replace("/v3/", ""))
    ]
