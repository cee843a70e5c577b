"""Requests on both ways through HTTP have their spans, and only those that are sampled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from headgate.metrics.meter import Meter
from headgate.model.outcome import Failure, Reason
from headgate.model.trace import read_parent
from headgate.tracing.spans import Span, Traces
from support.gateway.data_plane_world import DataPort, PromptRoom, data_port
from support.gateway.meters import a_meter, exemplars, requests

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
JSON = {"Content-Type": "application/json"}
CORS = {"Origin": "http://gateway"}
LONG = {"Content-Encoding": "identity"}
# Whatever is unusual takes aiohttp's way; what a browser sends, has an answer of its own there.
WAYS = pytest.mark.parametrize(
    "way", [("", {}), ("", LONG), ("", CORS)], ids=["short", "long", "browser"]
)
Way = tuple[str, dict[str, str]]
ROUTE = "/v1/topics/{topic}/events"


class World:
    """A traced data port. spans: by the first word of their names."""

    def __init__(self, port: DataPort, spans: list[Span], figures: Meter) -> None:
        self.port = port
        self.every = spans
        self.figures = figures

    @property
    def spans(self) -> dict[str, Span]:
        return {one.name.split()[0]: one for one in self.every}

    def record_headers(self) -> dict[str, bytes]:
        """Of the newest record."""
        every = [one for log in self.port.room.lanes.logs.values() for one in log]
        return dict(max(every, key=lambda one: one.event_id or "").record.headers)


@asynccontextmanager
async def traced(one_in: int = 0) -> AsyncIterator[World]:
    numbers, found, room, figures = count(1), list[Span](), PromptRoom(), a_meter()
    traces = Traces(
        one_in,
        lambda: 0.5,
        lambda digits: f"{next(numbers):0{digits}x}",
        lambda: int(asyncio.get_running_loop().time() * 1e9),
        found.extend,
        lambda: None,
    )
    room.build(traces=traces)
    async with data_port(room, requests=figures, traces=traces) as port:
        yield World(port, found, figures)
        assert traces.is_idle, "nothing is left of a request that was answered"


@WAYS
async def test_the_spans_of_an_event(way: Way) -> None:
    async with traced() as world:
        headers = {**JSON, **way[1], **SAMPLED, "tracestate": "v=1", "X-Request-Id": "r-1"}
        answer = await world.port.post("deals", b'{"id": 1}', headers, way[0])
        assert answer.status == 201
        request, reserve, produce = (world.spans[one] for one in ("POST", "reserve", "produce"))
        assert {(one.trace_id, one.state) for one in world.every} == {(TRACE, "v=1")}
        assert (request.parent_id, request.name) == (SPAN, f"POST {ROUTE}")
        assert reserve.parent_id == produce.parent_id == request.span_id
        sent = read_parent(world.record_headers()["traceparent"])
        assert sent is not None
        assert (sent.trace_id, sent.span_id, sent.is_sampled) == (TRACE, produce.span_id, True)
        assert request.attributes["http.response.status_code"] == 201
        assert request.attributes["headgate.request_id"] == "r-1"
        assert answer.headers["x-request-id"] == "r-1"
        assert request.attributes["headgate.published"] == 1
        assert produce.attributes["messaging.kafka.offset"] == 0
        assert [one.name for one in produce.moments] == ["handed over to the producer"]
        assert reserve.attributes["headgate.events"] == 1
        times = (request.began_ns, reserve.began_ns, reserve.ended_ns, produce.began_ns)
        assert list(times) == sorted(times)
        assert produce.began_ns <= produce.ended_ns <= request.ended_ns
        assert exemplars(world.figures) == [(ROUTE, 201, TRACE)]


@WAYS
@pytest.mark.parametrize("header", [None, SAMPLED["traceparent"][:-2] + "00", "00-1"])
async def test_what_is_not_sampled_is_as_it_was(way: Way, header: str | None) -> None:
    async with traced() as world:
        given = {} if header is None else {"traceparent": header}
        answer = await world.port.post("deals", b'{"id": 1}', {**JSON, **way[1], **given}, way[0])
        assert answer.status == 201
        assert world.every == []
        sent = world.record_headers().get("traceparent")
        assert sent == (None if header is None else header.encode())
        assert requests(world.figures) == {(ROUTE, 201): 1}
        assert exemplars(world.figures) == []


@WAYS
async def test_a_trace_may_begin_here(way: Way) -> None:
    async with traced(one_in=1) as world:
        assert (
            await world.port.post("orders", b'{"id": 1}', {**JSON, **way[1]}, way[0])
        ).status == 201
        assert world.spans["POST"].parent_id == ""
        sent = read_parent(world.record_headers()["traceparent"])
        assert sent is not None
        assert sent.span_id == world.spans["produce"].span_id


@WAYS
async def test_what_is_unchanged_has_no_produce_span(way: Way) -> None:
    async with traced() as world:
        headers = {**JSON, **way[1]}
        assert (await world.port.post("deals", b'{"id": 1}', headers, way[0])).status == 201
        answer = await world.port.post("deals", b'{"id": 1}', {**headers, **SAMPLED}, way[0])
        assert answer.status == 200
        assert set(world.spans) == {"POST", "reserve"}
        assert world.spans["reserve"].attributes["headgate.unchanged"] == 1


@WAYS
async def test_a_batch_has_one_span_of_each_kind(way: Way) -> None:
    async with traced() as world:
        body = b"[" + b",".join(b'{"id": %d}' % number for number in range(20)) + b"]"
        answer = await world.port.post("orders", body, {**JSON, **way[1], **SAMPLED}, way[0])
        assert answer.status == 200
        assert len(world.every) == 2
        assert world.spans["produce"].attributes["messaging.batch.message_count"] == 20
        assert world.spans["POST"].attributes["headgate.published"] == 20


@WAYS
async def test_a_refused_request_has_a_span_and_its_line_the_trace_id(
    way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with traced() as world:
        headers = {**JSON, **way[1], **SAMPLED}
        for topic, body, status in (
            ("nowhere", b"{}", 404), ("orders", b"{", 400), ("orders", b"{}", 422),
        ):  # fmt: skip
            assert (await world.port.post(topic, body, headers, way[0])).status == status
        await world.port.post("orders", b"{", {**JSON, **way[1]}, way[0])
        codes = [one.attributes["http.response.status_code"] for one in world.every]
        assert codes == [404, 400, 422]
        assert not any(one.error for one in world.every)
        lines = [vars(one).get("trace_id") for one in caplog.records]
        assert lines == [TRACE, TRACE, TRACE, None]


@WAYS
async def test_a_failure_of_ours_is_an_error(way: Way) -> None:
    async with traced() as world:
        for partition in range(100):
            failure = Failure(Reason.KAFKA_UNAVAILABLE, "away")
            world.port.room.lanes.refusing[partition] = failure
        answer = await world.port.post(
            "orders", b'{"id": 1}', {**JSON, **way[1], **SAMPLED}, way[0]
        )
        assert answer.status == 503
        (span,) = world.every
        assert (span.error, span.attributes["headgate.reasons"]) == ("503", "kafka_unavailable")


async def test_confluents_paths_are_traced_and_pages_are_not() -> None:
    async with traced(one_in=1) as world:
        v2 = {"Content-Type": "application/vnd.kafka.json.v2+json", **SAMPLED}
        body = b'{"records": [{"key": 1, "value": {"id": 1}}]}'
        assert (await world.port.ask("POST", "/topics/orders", v2, body)).status == 200
        assert world.spans["POST"].name == "POST /topics/{topic}"
        sent = read_parent(world.record_headers()["traceparent"])
        assert sent is not None
        assert (sent.trace_id, sent.span_id) == (TRACE, world.spans["produce"].span_id)
        before = len(world.every)
        for page in ("/live", "/ready", "/topics"):
            await world.port.ask("GET", page)
        assert len(world.every) == before
        assert (await world.port.ask("POST", "/nothing", {}, b"")).status == 404
        assert world.every[-1].name == "POST"


async def test_requests_side_by_side_do_not_mix() -> None:
    async with traced() as world:

        async def post(number: int) -> Any:
            trace = f"{number:032x}"
            given = {"traceparent": f"00-{trace}-{SPAN}-01"} if number % 2 else {}
            way = LONG if number % 3 else {}
            body = b'{"id": %d}' % number if number % 5 else b"{}"
            return number, (await world.port.post("deals", body, {**JSON, **given, **way})).status

        answers = dict(await asyncio.gather(*(post(number) for number in range(1, 61))))
        spans = {int(one.trace_id, 16): one for one in world.every if one.name[:4] == "POST"}
        assert set(spans) == {number for number in answers if number % 2}
        for number, one in spans.items():
            assert one.attributes["http.response.status_code"] == answers[number]
        shown = {(int(trace, 16), status) for _, status, trace in exemplars(world.figures)}
        assert {status for _, status in shown} == set(answers.values())
        assert shown <= {(number, status) for number, status in answers.items() if number % 2}
        produced = {int(one.trace_id, 16) for one in world.every if one.name[:7] == "produce"}
        assert produced == {number for number in spans if number % 5}
