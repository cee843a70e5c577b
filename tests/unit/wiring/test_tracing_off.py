"""Without a collector there are no traces, so each stage finds None in a request's slot."""

from __future__ import annotations

from contextlib import AsyncExitStack

from headgate.config.settings import TracingSettings
from headgate.model.publish import Ticket
from headgate.wiring.parts import tracing_of
from support.gateway.meters import a_meter
from support.gateway.room import Room


def test_without_a_collector_there_are_neither_traces_nor_later_spans() -> None:
    tracing = tracing_of(TracingSettings(), a_meter())
    assert tracing.traces is None
    assert tracing.later is None


def test_then_neither_a_ticket_nor_its_events_have_a_trace() -> None:
    assert Ticket("orders", "shop", "r-1", 0.0).trace is None
    room = Room()
    ticket = room.post("orders", b'{"id": 1}')
    (publish,) = ticket.publishes
    assert publish.common is not None
    assert publish.common.trace is None


async def test_with_a_collector_requests_and_later_steps_are_traced() -> None:
    tracing = tracing_of(TracingSettings(endpoint="http://127.0.0.1:1"), a_meter())
    assert tracing.traces is not None
    assert tracing.later is not None
    async with AsyncExitStack() as closing:
        tracing.start(closing)
