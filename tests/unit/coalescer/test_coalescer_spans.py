"""A coalesced event keeps its trace, and has a span until it is in its topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from headgate.backends.base import Suppression, Verdicts
from headgate.coalescer.decisions import Decisions, Digests, Turns, WindowDecision, WindowVerdict
from headgate.coalescer.windows import HeldEvent, Window, packed
from headgate.ingest.gate import Compiler
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Publish, Stage
from headgate.offload.helper_process import HelperProcess
from headgate.tracing.spans import LaterSpans, Span
from support.gateway.fakes import policy, topic_state

TRACE = "4b" * 16
NOW_NS = 9_000_000_000


class World:
    """Decisions over a suppression that answers at once, as the test says."""

    def __init__(self, *verdicts: WindowVerdict) -> None:
        self.spans, self.ends = list[Span](), list[tuple[object, ...]]()
        self._verdicts = iter(verdicts)
        later = LaterSpans(lambda digits: "e" * digits, lambda: NOW_NS, self.spans.extend)
        digests = Digests(cast(HelperProcess, None), lambda topic, why: None, Turns())
        self.decisions = Decisions(digests, self._connect, Turns(), later)
        options = policy(kind="state", key=("/id",), suppress="raw")
        self.route = Compiler(128, "ns")(options, topic_state())

    def _connect(self, verdicts: Verdicts) -> Suppression:
        self._listener = verdicts
        return cast(Suppression, self)

    async def ask(self, *windows: Window) -> list[WindowDecision]:
        return await self.decisions.reserve(self.route, windows)

    # ---- base.Suppression

    def reserve(self, publish: Publish) -> None:
        verdict = next(self._verdicts)
        publish.advance(Stage.QUEUED)
        if verdict is WindowVerdict.PUBLISH:
            self._listener.publish(publish)
            return
        publish.advance(Stage.ENDED)
        if verdict is WindowVerdict.UNCHANGED:
            self._listener.unchanged(publish, 1)
        else:
            self._listener.refused(publish, Failure(Reason.REDIS_UNAVAILABLE, "away"))

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        self.ends.append(("settle", base_offset))

    def ended(self, publish: Publish, certain: bool) -> None:
        self.ends.append(("give up", certain))


def held(number: int, flags: str = "01", key: bytes = b"k") -> HeldEvent:
    context = f"00-{TRACE}-{number:016x}-{flags}".encode()
    headers = packed([("traceparent", context), ("tracestate", b"v=1")])
    return HeldEvent(0, key, b"{}", headers, 0, number * 1000, "p", False, None, 100)


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
    assert world.ends == [("settle", 7)]


@pytest.mark.parametrize("certain", [True, False])
async def test_what_is_not_committed_says_so(certain: bool) -> None:
    world = World(WindowVerdict.PUBLISH)
    (decided,) = await world.ask(window(held(1)))
    world.decisions.give_up(decided, certain)
    assert [span.error for span in world.spans] == ["not committed"]
    assert world.ends == [("give up", certain)]


async def test_what_is_unchanged_ends_at_once_and_what_waits_is_asked_again() -> None:
    world = World(WindowVerdict.UNCHANGED, WindowVerdict.WAIT)
    decisions = await world.ask(window(held(1)), window(held(2, key=b"j")))
    assert [decided.verdict.name for decided in decisions] == ["UNCHANGED", "WAIT"]
    (span,) = world.spans
    assert (span.parent_id, span.attributes["headgate.unchanged"]) == (f"{1:016x}", 1)


async def test_what_is_not_sampled_has_no_span() -> None:
    world = World(WindowVerdict.PUBLISH, WindowVerdict.PUBLISH)
    settled, given_up = await world.ask(window(held(1, "00")), window(held(2, "00", b"j")))
    world.decisions.settle(settled, 1)
    world.decisions.give_up(given_up, True)
    assert (world.ends, world.spans) == ([("settle", 1), ("give up", True)], [])
