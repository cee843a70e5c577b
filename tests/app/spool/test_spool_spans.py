"""A spooled event keeps its trace, and has a span for its way back to Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from headgate.model.outcome import Failure, OutcomeName, Reason
from headgate.spool.draining import DrainSpans
from headgate.tracing.spans import LaterSpans, Span
from support.gateway.spool_world import UNKNOWN, SpoolWorld, names

TRACE, SPAN, OTHER = "4b" * 16, "0a" * 8, "0b" * 8
TOO_LARGE = Failure(Reason.TOO_LARGE, "no")


def context(span: str, flags: str = "01") -> bytes:
    return f"00-{TRACE}-{span}-{flags}".encode()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SpoolWorld]:
    made = SpoolWorld(tmp_path / "spool")
    await made.live()
    yield made
    await made.end()


def traced(world: SpoolWorld) -> list[Span]:
    """What is drained from now on has its spans here."""
    found, numbers = list[Span](), count(1)
    later = LaterSpans(
        lambda digits: f"{next(numbers):0{digits}x}", lambda: world.now_ms * 10**6, found.extend
    )
    world.spans = world.draining._spans = DrainSpans(later)
    return found


async def test_a_request_has_one_span_however_many_events_it_has(world: SpoolWorld) -> None:
    spans = traced(world)
    world.away()
    one = world.post("orders", *[{"id": 1, "n": n} for n in range(3)], traceparent=context(SPAN))
    world.post("orders", {"id": 1}, traceparent=context(OTHER), tracestate=b"v=1")
    world.post("orders", {"id": 1}, traceparent=context("0c" * 8, "00"))
    world.post("orders", {"id": 1})
    await world.writing.write()
    assert names(one) == [OutcomeName.SPOOLED] * 3
    assert spans == []
    world.now_ms += 5000
    world.back()
    await world.drain()
    assert [one.name for one in spans] == ["drain orders"] * 2
    assert [(one.trace_id, one.parent_id) for one in spans] == [(TRACE, SPAN), (TRACE, OTHER)]
    assert spans[0].attributes["messaging.batch.message_count"] == 3
    assert spans[0].attributes["headgate.spooled_ms"] == world.now_ms - 5000
    assert spans[1].attributes["messaging.kafka.offset"] == 3
    assert spans[1].state == "v=1"
    kept = [dict(one.record.headers).get("traceparent") for one in world.landed]
    assert kept[:4] == [context(SPAN)] * 3 + [context(OTHER)]
    assert world.spans is not None
    assert world.spans._open == {}


@pytest.mark.parametrize(
    ("failure", "at_once", "in_the_end"),
    [(UNKNOWN, [], [""]), (TOO_LARGE, ["too_large"], ["too_large"])],
)
async def test_a_span_goes_on_until_kafka_has_said_something_final(
    world: SpoolWorld, failure: Failure, at_once: list[str], in_the_end: list[str]
) -> None:
    spans = traced(world)
    world.away()
    world.post("orders", {"id": 1}, traceparent=context(SPAN))
    await world.writing.write()
    world.back()
    world.now_s += 1.0
    await world.draining.turn()
    (partition,) = [number for number, waiting in world.lanes.queues.items() if waiting]
    world.lanes.hand_over(partition, 1)
    world.lanes.fail(partition, failure)
    assert [one.error for one in spans] == at_once
    await world.drain()
    assert [one.error for one in spans] == in_the_end
    assert world.spans is not None
    assert world.spans._open == {}
