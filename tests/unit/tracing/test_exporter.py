"""Spans reach the collector, or are counted; nobody waits for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import orjson
import pytest

from headgate.tracing.exporter import (
    BATCH,
    EVERY_S,
    MAX_WAITING,
    Answer,
    Exporter,
    rejected,
    request,
)
from headgate.tracing.spans import Moment, Span, SpanKind
from support.virtual_time import run_in_virtual_time

FINE = Answer(200, b"{}")
Answers = Callable[[], Awaitable[Answer]]


def span(number: int = 1, **changes: object) -> Span:
    attributes = {"a": "b", "n": 1 << 60}
    plain = Span("POST", SpanKind.SERVER, "ab" * 16, f"{number:016x}", "", "", 1, 2, attributes)
    return plain._replace(**changes)  # type: ignore[arg-type]


class World:
    """An exporter and a collector that answers as it is told. came: the spans' ids, by request."""

    def __init__(self) -> None:
        self.answers: Answers = self.fine
        self.came: list[list[str]] = []
        self.counted: Counter[str] = Counter()
        clock = asyncio.get_running_loop().time
        self.exporter = Exporter({"service.name": "x"}, self.post, self.spans, clock)

    async def fine(self) -> Answer:
        return FINE

    async def post(self, body: bytes) -> Answer:
        found = orjson.loads(body)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        self.came.append([one["spanId"] for one in found])
        return await self.answers()

    def spans(self, result: str, count: int) -> None:
        self.counted[result] += count

    async def run(self, seconds: float) -> None:
        task = asyncio.create_task(self.exporter.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.wait([task])


def test_they_go_together_and_in_order() -> None:
    async def work() -> None:
        world = World()
        for number in range(BATCH + 3):
            world.exporter.take([span(number)])
        await world.run(EVERY_S / 2)
        assert [len(one) for one in world.came] == [BATCH, 3], "a full batch waits for nothing"
        assert world.came[1] == [f"{BATCH + number:016x}" for number in range(3)]
        world.exporter.take([span(), span()])
        await world.run(EVERY_S * 1.5)
        assert len(world.came[2]) == 2
        assert +world.counted == {"exported": BATCH + 5}

    run_in_virtual_time(work())


@pytest.mark.parametrize("failure", [OSError("no route"), TimeoutError(), 429, 503])
def test_while_it_is_away_they_wait_and_the_rest_is_counted(
    failure: OSError | int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def work() -> None:
        world = World()

        async def away() -> Answer:
            if isinstance(failure, int):
                return Answer(failure, b"")
            raise failure

        world.answers = away
        for number in range(MAX_WAITING + 10):
            world.exporter.take([span(number)])
        assert +world.counted == {"dropped": 10}
        await world.run(100.0)
        assert 5 <= len(world.came) <= 12, "pauses grow"
        assert {tuple(one) for one in world.came} == {tuple(world.came[0])}
        world.answers = world.fine
        await world.run(31.0)
        assert +world.counted == {"dropped": 10, "exported": MAX_WAITING}

    run_in_virtual_time(work())
    said = [(one.levelname, one.getMessage()[:33]) for one in caplog.records]
    assert said == [
        ("WARNING", "span collector is not available: "), ("INFO", "span collector answers again"),
    ]  # fmt: skip
    assert 100 <= caplog.records[1].__dict__["away_s"] <= 131


def test_what_it_refuses_is_not_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        world = World()

        async def refuse() -> Answer:
            return Answer(401, b"who are you?")

        world.answers = refuse
        for _ in range(2):
            world.exporter.take([span()])
            await world.run(EVERY_S * 1.5)
        assert +world.counted == {"refused": 2}

    run_in_virtual_time(work())
    assert [one.getMessage() for one in caplog.records] == [
        "span collector is not available: it refuses spans: 401 who are you?"
    ]


@pytest.mark.parametrize(("refused", "counted"), [("2", 2), ("-2", 0), ("7", 3)])
def test_spans_that_the_collector_rejects_are_counted(refused: str, counted: int) -> None:
    async def work() -> None:
        world = World()

        async def partly() -> Answer:
            partial = {"rejectedSpans": refused, "errorMessage": "no"}
            return Answer(200, orjson.dumps({"partialSuccess": partial}))

        world.answers = partly
        world.exporter.take([span(1), span(2), span(3)])
        await world.run(EVERY_S * 1.5)
        assert +world.counted == +Counter({"refused": counted, "exported": 3 - counted})

    run_in_virtual_time(work())


@pytest.mark.parametrize(("asked_s", "waited_s"), [(0, 1), (20, 20), (1e9, 300)])
def test_it_may_ask_to_be_left_alone_for_a_while(asked_s: float, waited_s: float) -> None:
    async def work() -> None:
        world, times = World(), list[float]()

        async def busy() -> Answer:
            times.append(asyncio.get_running_loop().time())
            return FINE if len(times) > 1 else Answer(429, b"", asked_s)

        world.answers = busy
        world.exporter.take([span()])
        await world.run(500.0)
        assert times[1] - times[0] == pytest.approx(waited_s)
        assert +world.counted == {"exported": 1}

    run_in_virtual_time(work())


def test_what_cannot_be_encoded_holds_nothing_up() -> None:
    async def work() -> None:
        world = World()
        world.exporter.take([span(1, name="\udcff"), span(2)])
        await world.run(EVERY_S * 1.5)
        world.exporter.take([span(3)])
        await world.run(EVERY_S * 1.5)
        assert +world.counted == {"dropped": 2, "exported": 1}

    run_in_virtual_time(work())


def test_the_last_ones_are_sent_at_the_end_but_nobody_waits_for_long() -> None:
    async def work() -> None:
        world = World()
        world.exporter.take([span(1)])
        await world.exporter.close()
        assert +world.counted == {"exported": 1}

        async def never() -> Answer:
            await asyncio.sleep(3600)
            return FINE

        world.answers = never
        world.exporter.take([span(2), span(3)])
        before = asyncio.get_running_loop().time()
        await world.exporter.close()
        assert asyncio.get_running_loop().time() - before < 5
        assert +world.counted == {"exported": 1, "dropped": 2}

    run_in_virtual_time(work())


def test_a_request_is_as_the_specification_has_it() -> None:
    below = span(
        2, kind=SpanKind.PRODUCER, parent_id="c" * 16, state="v=1", error="unknown",
        moments=(Moment("handed over", 7),),
    )  # fmt: skip
    (whole,) = orjson.loads(request({"service.name": "shop"}, [span(parent_id="d" * 16), below]))[
        "resourceSpans"
    ]
    (name,) = whole["resource"]["attributes"]
    assert name == {"key": "service.name", "value": {"stringValue": "shop"}}
    first, second = whole["scopeSpans"][0]["spans"]
    assert first == {
        "traceId": "ab" * 16, "spanId": "0" * 15 + "1", "parentSpanId": "d" * 16, "name": "POST",
        "kind": 2, "flags": 0x301, "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        "attributes": [
            {"key": "a", "value": {"stringValue": "b"}},
            {"key": "n", "value": {"intValue": str(1 << 60)}},
        ],
    }  # fmt: skip
    assert (second["flags"], second["traceState"], second["kind"]) == (0x101, "v=1", 4)
    assert second["status"] == {"code": 2, "message": "unknown"}
    assert second["events"] == [{"name": "handed over", "timeUnixNano": "7"}]


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (b"", 0), (b"{}", 0), (b"[]", 0), (b"not JSON", 0), (b'{"partialSuccess":null}', 0),
        (b'{"partialSuccess":{}}', 0), (b'{"partialSuccess":{"rejectedSpans":"7"}}', 7),
        (b'{"partialSuccess":{"rejectedSpans":7}}', 7), (b'{"partialSuccess":[1]}', 0),
        (b'{"partialSuccess":{"rejectedSpans":"x"}}', 0),
        (b'{"partialSuccess":{"rejectedSpans":-3}}', 0),
        (b'{"partialSuccess":{"rejectedSpans":"-3"}}', 0),
        (b'{"partialSuccess":{"rejectedSpans":1e308}}', 9),
        (b'{"partialSuccess":{"rejectedSpans":"99999999999999999999999"}}', 9),
        (b'{"partialSuccess":{"rejectedSpans":null}}', 0),
        (b'{"partialSuccess":{"rejectedSpans":NaN}}', 0),
        (b'{"partialSuccess":{"rejectedSpans":[7]}}', 0),
    ],
)  # fmt: skip
def test_any_answer_is_read(answer: bytes, count: int) -> None:
    assert rejected(answer, 9) == count
