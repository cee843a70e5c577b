"""Both producers of the Python client: batches, room, flush and close."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import httpx
import pytest

from headgate_client import (
    AsyncBufferedProducer,
    AsyncClient,
    BufferedProducer,
    BufferFullError,
    Buffering,
    Client,
    ClosedError,
    Event,
    InvalidEventError,
    Limits,
    Observer,
    Outcome,
    Retry,
)
from headgate_client.testing import FailEvents, FakeGateway, Lose, Refuse
from headgate_client.wire import ClientOptions

TOPIC = "orders"
AT_ONCE = Retry(first_wait_s=0)
OPTIONS: ClientOptions = {"retry": AT_ONCE, "observer": Observer()}
IDLE = Buffering(linger_s=3600)  # nothing goes before it is flushed


class Silent(httpx.BaseTransport):
    """Answers nothing until it is let go."""

    def __init__(self, under: httpx.BaseTransport) -> None:
        self.asked, self.let_go = threading.Event(), threading.Event()
        self._under = under

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.set()
        assert self.let_go.wait(60)
        return self._under.handle_request(request)


class AsyncSilent(httpx.AsyncBaseTransport):
    """Answers nothing, ever."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


class Ends(Observer):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_outcomes(self, topic: str, outcomes: Sequence[Outcome]) -> None:
        self.names += [getattr(one, "reason", one.name) for one in outcomes]


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway(dedupe=True)


def test_events_go_in_batches_and_have_their_outcomes(gateway: FakeGateway) -> None:
    gateway.next(Refuse("overloaded"), Lose(is_written=True), FailEvents("kafka_unavailable"))
    limits = Limits(max_events=100)
    with (
        Client(gateway.url, transport=gateway.transport, limits=limits, **OPTIONS) as client,
        BufferedProducer(client, buffering=IDLE) as producer,
    ):
        pending = [producer.send(TOPIC, Event(value=n, key=str(n % 7))) for n in range(250)]
        assert producer.flush(60)
        assert producer.events == 0
    assert {one.result(0).succeeded for one in pending} == {True}
    assert sorted(str(one.value) for one in gateway.records(TOPIC)) == sorted(map(str, range(250)))
    for key in range(7):
        values = [int(str(one.value)) for one in gateway.records(TOPIC) if one.key == str(key)]
        assert values == sorted(values)


async def test_events_go_in_batches_from_a_loop_too(gateway: FakeGateway) -> None:
    gateway.next(Refuse("overloaded"), Lose(is_written=True), FailEvents("kafka_unavailable"))
    async with (
        AsyncClient(gateway.url, transport=gateway.transport, **OPTIONS) as client,
        AsyncBufferedProducer(client, buffering=IDLE) as producer,
    ):
        pending = [await producer.send(TOPIC, Event(value=n, key=str(n % 7))) for n in range(250)]
        assert await producer.flush(60)
        assert producer.events == 0
    assert {one.result().succeeded for one in pending} == {True}
    assert len(gateway.records(TOPIC)) == 250


def test_an_event_waits_no_longer_than_it_lingers(gateway: FakeGateway) -> None:
    with (
        Client(gateway.url, transport=gateway.transport, **OPTIONS) as client,
        BufferedProducer(client, buffering=Buffering(linger_s=0.001)) as producer,
    ):
        assert producer.send(TOPIC, 1).result(60).name == "published"


def test_a_full_request_does_not_linger(gateway: FakeGateway) -> None:
    limits = Limits(max_events=2)
    with (
        Client(gateway.url, transport=gateway.transport, limits=limits, **OPTIONS) as client,
        BufferedProducer(client, buffering=IDLE) as producer,
    ):
        first, second = producer.send(TOPIC, 1), producer.send(TOPIC, 2)
        assert first.result(60).name == second.result(60).name == "published"


def test_there_is_room_for_so_many_events(gateway: FakeGateway) -> None:
    silent = Silent(gateway.transport)
    buffering = Buffering(linger_s=0, max_events=2)
    with (
        Client(gateway.url, transport=silent, **OPTIONS) as client,
        BufferedProducer(client, buffering=buffering, when_full="raise") as producer,
    ):
        for number in range(2):
            producer.send(TOPIC, number)
        with pytest.raises(BufferFullError):
            producer.send(TOPIC, 3)
        silent.let_go.set()
        assert producer.flush(60)
        producer.send(TOPIC, 3)
    assert [one.value for one in gateway.records(TOPIC)] == [0, 1, 3]


def test_a_sender_waits_for_room(gateway: FakeGateway) -> None:
    silent = Silent(gateway.transport)
    with (
        Client(gateway.url, transport=silent, **OPTIONS) as client,
        BufferedProducer(client, buffering=Buffering(linger_s=0, max_events=1)) as producer,
    ):
        producer.send(TOPIC, 0)
        with pytest.raises(BufferFullError):
            producer.send(TOPIC, 1, timeout_s=0.01)
        assert silent.asked.wait(60)
        threading.Timer(0.01, silent.let_go.set).start()
        producer.send(TOPIC, 1, timeout_s=60)
    assert len(gateway.records(TOPIC)) == 2


async def test_a_sender_in_a_loop_waits_for_room(gateway: FakeGateway) -> None:
    silent = AsyncSilent()
    async with AsyncClient(gateway.url, transport=silent, **OPTIONS) as client:
        full = Buffering(linger_s=0, max_events=1)
        producer = AsyncBufferedProducer(client, buffering=full)
        await producer.send(TOPIC, 0)
        with pytest.raises(BufferFullError):
            await producer.send(TOPIC, 1, timeout_s=0.01)
        waiting = asyncio.create_task(producer.send(TOPIC, 1))
        await silent.asked.wait()
        await producer.close(0)
        with pytest.raises(ClosedError):
            await waiting


def test_an_event_that_never_fits_is_refused(gateway: FakeGateway) -> None:
    with (
        Client(gateway.url, transport=gateway.transport) as client,
        BufferedProducer(client, buffering=Buffering(max_bytes=1000)) as producer,
        pytest.raises(InvalidEventError, match="max_bytes"),
    ):
        producer.send(TOPIC, "x" * 1000)


def test_what_is_left_when_time_is_over_has_an_honest_end(gateway: FakeGateway) -> None:
    silent, ends = Silent(gateway.transport), Ends()
    client = Client(gateway.url, transport=silent, retry=AT_ONCE, observer=ends)
    producer = BufferedProducer(client, buffering=Buffering(linger_s=0))
    posted = producer.send(TOPIC, Event(value=1, key="a"))
    assert silent.asked.wait(60)
    waiting = producer.send(TOPIC, Event(value=2, key="a"))
    assert not producer.close(0)
    silent.let_go.set()
    assert (posted.result(0).name, waiting.result(0).name) == ("unknown", "rejected")
    assert ends.names == ["no_answer", "not_sent"]
    with pytest.raises(ClosedError):
        producer.send(TOPIC, 3)


async def test_what_is_left_in_a_loop_has_an_honest_end(gateway: FakeGateway) -> None:
    silent, ends = AsyncSilent(), Ends()
    client = AsyncClient(gateway.url, transport=silent, retry=AT_ONCE, observer=ends)
    producer = AsyncBufferedProducer(client, buffering=Buffering(linger_s=0))
    await producer.send(TOPIC, Event(value=1, key="a"))
    await silent.asked.wait()
    waiting = await producer.send(TOPIC, Event(value=2, key="a"))
    assert not await producer.close(0)
    assert ends.names == ["no_answer", "not_sent"]
    assert (await waiting).name == "rejected"
    with pytest.raises(ClosedError):
        await producer.send(TOPIC, 3)


def test_a_failing_key_holds_no_other_up(gateway: FakeGateway) -> None:
    gateway.next(FailEvents("blobs_unavailable", lambda record, place: record.key == "bad"))
    slow = Retry(first_wait_s=3600, longest_wait_s=3600, patience_s=7200)
    with Client(gateway.url, transport=gateway.transport, retry=slow) as client:
        producer = BufferedProducer(client, buffering=IDLE)
        for key in ("bad", "good"):
            producer.send(TOPIC, Event(value=1, key=key))
        producer.flush(0.0)
        producer.send(TOPIC, Event(value=2, key="bad"))
        assert producer.send(TOPIC, Event(value=2, key="good")).result(60).name == "published"
        producer.flush(0.0)
        producer.close(0)
    assert [(one.key, one.value) for one in gateway.records(TOPIC)] == [("good", 1), ("good", 2)]


def test_events_without_a_key_are_apart_where_their_lane_is_told(gateway: FakeGateway) -> None:
    gateway.next(FailEvents("blobs_unavailable", lambda record, place: record.value == ["bad"]))
    slow = Retry(first_wait_s=3600, longest_wait_s=3600, patience_s=7200)
    with Client(gateway.url, transport=gateway.transport, retry=slow) as client:
        producer = BufferedProducer(
            client, buffering=IDLE, ordering_key=lambda topic, value: str(value)
        )
        producer.send(TOPIC, ["bad"])
        producer.flush(0.0)
        ended = producer.send(TOPIC, ["good"])
        producer.flush(0.0)
        assert ended.result(60).name == "published"
        producer.close(0)


def test_what_an_observer_raises_costs_no_event(gateway: FakeGateway) -> None:
    class Broken(Observer):
        def on_outcomes(self, topic: str, outcomes: Sequence[Outcome]) -> None:
            raise RuntimeError

    with (
        Client(gateway.url, transport=gateway.transport, observer=Broken()) as client,
        BufferedProducer(client, buffering=Buffering(linger_s=0)) as producer,
    ):
        for number in range(3):
            assert producer.send(TOPIC, number).result(60).succeeded
