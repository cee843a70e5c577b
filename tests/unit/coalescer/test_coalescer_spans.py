"""A coalesced event keeps its trace, and has a span until it is in its topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from headgate.coalescer.decisions import WindowDecision, WindowVerdict
from headgate.coalescer.traced import TracedDecisions
from headgate.coalescer.windows import HeldEvent, Window, packed
from headgate.ingest.gate import Compiler
from headgate.model.route import Route
from headgate.tracing.spans import LaterSpans, Span
from support.gateway.fakes import policy, topic_state

TRACE = "4b" * 16
NOW_NS = 9_000_000_000


class Decided:
    """`base.Decisions` that say what they are told to. heard: (call, token)."""

    def __init__(self, *verdicts: WindowVerdict) -> None:
        self.verdicts = verdicts
        self.heard: list[tuple[object, ...]] = []

    async def reserve(self, route: Route, windows: Sequence[Window]) -> list[WindowDecision]:
        return [WindowDecision(verdict, verdict.name, 2) for verdict in self.verdicts]

    def settle(self, decided: WindowDecision, offset: int) -> None:
        self.heard.append(("settle", decided.token, offset))

    def give_up(self, decided: WindowDecision, certain: bool) -> None:
        self.heard.append(("give up", decided.token, certain))

    def has_unreserved(self, route: Route) -> bool:
        return True

    def distrust(self, route: Route) -> None:
        self.heard.append(("distrust",))


class World:
    def __init__(self, *verdicts: WindowVerdict) -> None:
        self.spans, self.under = list[Span](), Decided(*verdicts)
        later = LaterSpans(lambda digits: "e" * digits, lambda: NOW_NS, self.spans.extend)
        self.decisions = TracedDecisions(self.under, later)
        self.route = Compiler(128, "ns")(policy(kind="state", key=("/id",)), topic_state())

    async def ask(self, *windows: Window) -> list[WindowDecision]:
        return await self.decisions.reserve(self.route, windows)


def held(number: int, flags: str = "01") -> HeldEvent:
    context = f"00-{TRACE}-{number:016x}-{flags}".encode()
    headers = packed([("traceparent", context), ("tracestate", b"v=1")])
    return HeldEvent(0, b"k", b"{}", headers, 0, number * 1000, "p", False, None, 100)


def window(*events: HeldEvent) -> Window:
    made = Window(events[0])
    for event in events[1:]:
        made.take(event)
    return made


async def test_the_newest_event_has_a_span_until_it_is_committed() -> None:
    world = World(WindowVerdict.PUBLISH)
    (decided,) = await world.ask(window(held(1), held(2), held(3)))
    assert world.spans == []
    world.decisions.settle(decided, 7)
    (span,) = world.spans
    assert (span.name, span.trace_id) == (f"coalesce {world.route.topic}", TRACE)
    assert (span.parent_id, span.state) == (f"{3:016x}", "v=1")
    assert (span.began_ns, span.ended_ns) == (3_000_000_000, NOW_NS)
    assert span.attributes["headgate.superseded"] == 2
    assert span.attributes["messaging.kafka.offset"] == 7
    assert span.attributes["messaging.destination.partition.id"] == "2"
    assert world.under.heard == [("settle", "PUBLISH", 7)]


@pytest.mark.parametrize("certain", [True, False])
async def test_what_is_not_committed_says_so(certain: bool) -> None:
    world = World(WindowVerdict.PUBLISH)
    (decided,) = await world.ask(window(held(1)))
    world.decisions.give_up(decided, certain)
    assert [one.error for one in world.spans] == ["not committed"]
    assert world.under.heard == [("give up", "PUBLISH", certain)]


async def test_what_is_unchanged_ends_at_once_and_what_waits_is_asked_again() -> None:
    world = World(WindowVerdict.UNCHANGED, WindowVerdict.WAIT)
    found = await world.ask(window(held(1)), window(held(2)))
    assert [one.token for one in found] == ["UNCHANGED", "WAIT"]
    (span,) = world.spans
    assert (span.parent_id, span.attributes["headgate.unchanged"]) == (f"{1:016x}", 1)


async def test_what_is_not_sampled_passes() -> None:
    world = World(WindowVerdict.PUBLISH)
    (decided,) = await world.ask(window(held(1, "00")))
    assert decided.token == "PUBLISH"
    world.decisions.settle(decided, 1)
    world.decisions.give_up(decided, True)
    world.decisions.distrust(cast(Route, None))
    assert world.decisions.has_unreserved(cast(Route, None))
    calls = [one[0] for one in world.under.heard]
    assert (calls, world.spans) == (["settle", "give up", "distrust"], [])
