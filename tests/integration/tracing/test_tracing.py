"""Spans of a real gateway, with Kafka and Redis, at a collector."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from aiohttp import ClientSession

from headgate.model.trace import read_parent
from headgate.tracing.exporter import MAX_WAITING
from support.clients.http_client import JSON, Answer, exchange, post
from support.kafka.kafka_log import LogRecord, read_log
from support.network.otlp_receiver import OtlpReceiver, ReceivedSpan
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually, free_port

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

TIMEOUT_S = 4.0  # of the collector that hangs; an event takes a hundredth of it
CLIENTS = 16
SPAN = "00f067aa0ba902b7"
CONFIG = """
[http]
request_timeout_ms = 20000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 20000
metadata_refresh_ms = 300
[redis]
url = "{redis}"
namespace = "{topic}"
quarantine_ms = 1
timeout_ms = 10000
[tracing]
endpoint = "{endpoint}"
sample_one_in = {one_in}
service_name = "front-door"
headers = ["x-tenant: blue"]
timeout_ms = {timeout_ms}
[producers.shop]
[topics."{topic}"]
key = ["/id"]
kind = "state"
suppress = "raw"
[topics."plain.{topic}"]
key = ["/id"]
"""


class World(NamedTuple):
    """A gateway that is traced."""

    broker: RunningBroker
    gateway: Gateway
    topic: str

    def post(self, topic: str, document: object, trace: str = "", flags: str = "01") -> Answer:
        """trace: the caller's; none: there is no caller's."""
        given = {"traceparent": f"00-{trace}-{SPAN}-{flags}"} if trace else {}
        body = json.dumps(document).encode()
        return post(self.gateway.port, topic, body, {**JSON, "Headgate-Producer": "shop", **given})

    async def post_many(self, topic: str, count: int) -> list[float]:
        """From several clients. Returns how long each took, in s."""
        url, numbers, took = f"{self.gateway.url}/v1/topics/{topic}/events", iter(range(count)), []

        async def client(session: ClientSession) -> None:
            for number in numbers:
                began = time.monotonic()
                async with session.post(url, json={"id": number}) as answer:
                    assert answer.status == 201, await answer.text()
                took.append(time.monotonic() - began)

        async with ClientSession() as session:
            await asyncio.gather(*(client(session) for _ in range(CLIENTS)))
        return took

    def records(self, topic: str) -> list[LogRecord]:
        return read_log(self.broker.bootstrap, topic)

    def spans_counted(self, result: str) -> float:
        """From /metrics."""
        answer = exchange(self.gateway.management_port, "GET", "/metrics", {}, b"")
        start = f'headgate_trace_spans_total{{result="{result}"}} '
        lines = answer.body.decode().splitlines()
        return sum(float(line.removeprefix(start)) for line in lines if line.startswith(start))

    def suppresses(self) -> bool:
        """Return whether the quarantine of the new namespace is over in every worker."""
        answer = exchange(self.gateway.management_port, "GET", "/metrics", {}, b"")
        name = f'headgate_suppression_state{{state="on",topic="{self.topic}"}}'
        return f"{name} 1" in answer.body.decode()

    def said(self, text: str) -> list[dict[str, Any]]:
        """The log's lines that begin so."""
        lines = [json.loads(line) for line in self.gateway.log().splitlines()]
        return [line for line in lines if line["text"].startswith(text)]


Start = Callable[..., World]


def produced(receiver: OtlpReceiver) -> list[ReceivedSpan]:
    """Those of records. Now and then the topic is announced in Redis, which has a span, too. What
    was not answered in time is sent again, so a span may come twice."""
    found = {one.span_id: one for one in [*receiver.spans] if one.name.startswith("produce ")}
    return [*found.values()]


@pytest.fixture
def start(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    topic_name: str,
    start_gateway: Callable[..., Gateway],
) -> Start:
    def started(endpoint: str, one_in: int = 0, workers: int = 1, timeout_s: float = 0.5) -> World:
        for name in (topic_name, f"plain.{topic_name}"):
            kafka.create_topic(name)
        config = CONFIG.format(
            bootstrap=kafka.bootstrap, redis=redis_server.url, topic=topic_name,
            endpoint=endpoint, one_in=one_in, timeout_ms=round(1000 * timeout_s),
        )  # fmt: skip
        gateway = start_gateway(config, "--workers", str(workers))
        return World(kafka, gateway, topic_name)

    return started


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver().running() as running:
        yield running


async def test_a_trace_goes_through_the_gateway(start: Start, receiver: OtlpReceiver) -> None:
    world = start(receiver.endpoint)
    await eventually(world.suppresses, 30)
    first, second, unsampled, batch = (f"{number:032x}" for number in (1, 2, 3, 4))
    answer = world.post(world.topic, {"id": 1}, first)
    assert answer.status == 201
    assert world.post(world.topic, {"id": 1}, second).body.count(b"unchanged") == 1
    assert world.post(world.topic, {"id": 2}, unsampled, flags="00").status == 201
    assert world.post(world.topic, {"id": 3}).status == 201
    assert world.post(world.topic, [{"id": n} for n in range(10, 60)], batch).status == 200
    await eventually(lambda: {"POST", "produce"} <= set(receiver.of(batch)))

    spans = receiver.of(first)
    request, reserve, produce = (spans[name] for name in ("POST", "reserve", "produce"))
    assert (request.name, request.parent_id) == ("POST /v1/topics/{topic}/events", SPAN)
    assert reserve.parent_id == produce.parent_id == request.span_id
    assert request.began_ns <= reserve.began_ns <= reserve.ended_ns <= produce.began_ns
    assert produce.began_ns < produce.ended_ns <= request.ended_ns
    assert abs(time.time_ns() - request.ended_ns) < 120e9
    assert request.resource["service.name"] == "front-door"
    assert request.attributes["headgate.request_id"] == answer.headers["x-request-id"]
    assert request.attributes["headgate.producer"] == "shop"
    assert produce.attributes["messaging.kafka.offset"] == json.loads(answer.body)["offset"]

    assert set(receiver.of(second)) == {"POST", "reserve"}
    assert receiver.of(second)["reserve"].attributes["headgate.unchanged"] == 1
    assert receiver.of(batch)["produce"].attributes["messaging.batch.message_count"] == 50
    assert {one.trace_id for one in receiver.spans} == {first, second, batch}
    assert {one.get("x-tenant") for one in receiver.requests} == {"blue"}

    sent = {one.key: one.header("traceparent") for one in world.records(world.topic)}
    continued = read_parent(sent[b"1"])
    assert continued is not None
    assert (continued.trace_id, continued.span_id) == (first, produce.span_id)
    assert sent[b"2"] == f"00-{unsampled}-{SPAN}-00".encode(), "as it came"
    assert sent[b"3"] is None
    contexts = {sent[str(number).encode()] for number in range(10, 60)}
    assert contexts == {f"00-{batch}-{receiver.of(batch)['produce'].span_id}-01".encode()}
    exported = len(receiver.spans)
    await eventually(lambda: world.spans_counted("exported") == exported)


async def test_one_in_so_many_begins_here(start: Start, receiver: OtlpReceiver) -> None:
    world = start(receiver.endpoint, one_in=4, workers=2)
    plain = f"plain.{world.topic}"
    await world.post_many(plain, 400)
    sent = [one.header("traceparent") for one in world.records(plain)]
    traced = [one for one in sent if one is not None]
    assert 50 <= len(traced) <= 150, "about one in four of 400"
    await eventually(lambda: len(produced(receiver)) == len(traced))
    contexts = {f"00-{one.trace_id}-{one.span_id}-01".encode() for one in produced(receiver)}
    assert contexts == set(traced)
    roots = {one.parent_id for one in receiver.spans if one.name.startswith("POST")}
    assert roots == {""}


async def test_without_its_collector_the_gateway_goes_on(start: Start) -> None:
    port = free_port()
    world = start(f"http://127.0.0.1:{port}", one_in=1)
    plain = f"plain.{world.topic}"
    for number in range(50):
        assert world.post(plain, {"id": number}).status == 201
    await eventually(lambda: world.said("span collector is not available"))
    for number in range(50):
        assert world.post(plain, {"id": number}).status == 201
    with OtlpReceiver(port).running() as receiver:
        receiver.status = 503
        await eventually(lambda: receiver.requests, deadline_s=40)
        receiver.status = 200
        await eventually(lambda: len(produced(receiver)) == 100, deadline_s=40)
        assert receiver.problems == []
        assert world.spans_counted("dropped") == 0
        (back,) = await eventually(lambda: world.said("span collector answers again"))
        assert back["away_s"] > 0
        world.post(plain, {"id": 1})
        world.gateway.stop()
        assert len(produced(receiver)) == 101, "the last ones are sent at the end"
    assert len(world.said("span collector is not available")) == 1
    assert world.gateway.exit_code == 0


async def test_a_hanging_collector_holds_nobody_up(start: Start, receiver: OtlpReceiver) -> None:
    world = start(receiver.endpoint, one_in=1, timeout_s=TIMEOUT_S)
    receiver.answers.clear()
    enough = MAX_WAITING // 2 + 10  # each has two spans at least
    took = await world.post_many(f"plain.{world.topic}", enough)
    assert sorted(took)[len(took) * 9 // 10] < TIMEOUT_S, "none waits for the collector's timeout"
    await eventually(lambda: world.spans_counted("dropped") > 0)
    await eventually(lambda: world.said("span collector is not available"))
    receiver.answers.set()
    await eventually(lambda: len(produced(receiver)) > MAX_WAITING // 4, deadline_s=60)
    assert len(world.said("span collector is not available")) == 1
