"""Without a collector, tracing puts nothing between the parts: it costs nothing because nothing of
it is there."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from headgate.config.settings import TracingSettings
from headgate.http.traced import TracedFront, TracedRequests
from headgate.metrics.meter import Labels, Meter
from headgate.wiring.tracing import tracing_of


def meter() -> Meter:
    return Meter(Labels(set(), lambda topic: True), lambda: 0.0)


@pytest.mark.parametrize("part", ["lanes", "suppression", "requests", "reports", "front"])
def test_each_part_stays_what_it_is(part: str) -> None:
    given: Any = object()
    assert getattr(tracing_of(TracingSettings(), meter()), part)(given) is given


def test_pages_are_answered_by_the_data_plane_itself() -> None:
    given: Any = object()
    assert tracing_of(TracingSettings(), meter()).answer(given, given) is given


def test_the_spool_and_the_coalescer_know_nothing_of_it() -> None:
    assert tracing_of(TracingSettings(), meter()).later is None


async def test_with_a_collector_they_are_measured() -> None:
    tracing = tracing_of(TracingSettings(endpoint="http://127.0.0.1:1"), meter())
    given: Any = object()
    assert isinstance(tracing.front(given), TracedFront)
    assert isinstance(tracing.requests(given), TracedRequests)
    assert tracing.lanes(given) is not given
    assert tracing.suppression(given) is not given
    assert tracing.later is not None
    async with AsyncExitStack() as closing:
        tracing.start(closing)
