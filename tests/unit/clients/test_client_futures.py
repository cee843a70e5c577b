"""The futures of both Python producers: what they are, who resolves them, and when nobody can."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate_client import (
    AsyncBufferedProducer,
    AsyncClient,
    BufferedProducer,
    BufferFullError,
    Buffering,
    Client,
    ClosedError,
    Event,
    Limits,
    Observer,
    Outcome,
    Retry,
)
from headgate_client.testing import FailEvents, FakeGateway, Fault, Lose, Refuse
from support.root import ROOT

TOPIC = "orders"
AT_ONCE = Retry(first_wait_s=0)
SLOW = Retry(first_wait_s=3600, longest_wait_s=3600, patience_s=7200)
DEADLINE_S = 60.0
Pending = concurrent.futures.Future[Outcome]


class Hanging(httpx.AsyncBaseTransport):
    """Never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


def one_thread(linger_s: float = 0.0, **more: Any) -> Buffering:
    return Buffering(linger_s=linger_s, in_flight=1, **more)


def test_futures_are_those_of_the_standard_library(gateway: FakeGateway) -> None:
    with (
        Client(gateway.url, transport=gateway.transport) as client,
        BufferedProducer(client) as producer,
    ):
        pending = [producer.send(TOPIC, number) for number in range(10)]
        assert all(isinstance(one, concurrent.futures.Future) for one in pending)
        done, rest = concurrent.futures.wait(pending, DEADLINE_S)
        assert (len(done), rest) == (10, set())
        assert {one.result().name for one in concurrent.futures.as_completed(pending)} == {
            "published"
        }


async def test_a_loop_can_await_a_future_of_the_threads(gateway: FakeGateway) -> None:
    with Client(gateway.url, transport=gateway.transport) as client:
        producer = BufferedProducer(client)
        outcome = await asyncio.wrap_future(producer.send(TOPIC, 1))
        assert outcome.name == "published"
        waiting = asyncio.wrap_future(producer.send(TOPIC, 2))
        waiting.cancel()  # the event is sent all the same
        assert await asyncio.to_thread(producer.close, DEADLINE_S)
    assert [one.value for one in gateway.records(TOPIC)] == [1, 2]


async def test_futures_of_a_loop_are_those_of_asyncio(gateway: FakeGateway) -> None:
    async with (
        AsyncClient(gateway.url, transport=gateway.transport) as client,
        AsyncBufferedProducer(client) as producer,
    ):
        pending = [await producer.send(TOPIC, number) for number in range(10)]
        assert all(isinstance(one, asyncio.Future) for one in pending)
        assert {one.name for one in await asyncio.gather(*pending)} == {"published"}


def test_an_event_that_was_taken_cannot_be_taken_back(gateway: FakeGateway) -> None:
    with (
        Client(gateway.url, transport=gateway.transport) as client,
        BufferedProducer(client, buffering=Buffering(linger_s=3600)) as producer,
    ):
        future = producer.send(TOPIC, 1)
        assert not future.cancel()
        assert not future.cancelled()
        producer.flush()
        assert future.result(0).name == "published"


async def test_a_cancelled_future_of_a_loop_takes_no_event_back_and_its_failure_is_logged(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.next(FailEvents("schema_violation", lambda record, place: place == 0))
    async with (
        AsyncClient(gateway.url, transport=gateway.transport) as client,
        AsyncBufferedProducer(client) as producer,
    ):
        first, second = await producer.send(TOPIC, 1), await producer.send(TOPIC, 2)
        first.cancel()
        second.cancel()
        assert await producer.flush(DEADLINE_S)
        third = await producer.send(TOPIC, 3)
        assert (await third).name == "published"
    assert [one.value for one in gateway.records(TOPIC)] == [2, 3]
    assert [one.getMessage() for one in caplog.records] == [
        "orders: 1 event rejected: schema_violation (as the test wants it)"
    ]


class Deaf(Observer):
    """For metrics: it logs nothing."""


@pytest.mark.parametrize("fault", [Refuse("forbidden"), FailEvents("schema_violation")])
def test_a_failure_that_no_caller_awaits_is_logged_once_whatever_observes(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture, fault: Fault
) -> None:
    gateway.next(fault)
    with (
        Client(gateway.url, transport=gateway.transport, observer=Deaf()) as client,
        BufferedProducer(client, buffering=Buffering(linger_s=3600)) as producer,
    ):
        for number in range(3):
            producer.send(TOPIC, number)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("headgate_client", logging.ERROR)
    assert f"orders: 3 events rejected: {fault.reason}" in record.getMessage()  # type: ignore[union-attr]


async def test_in_a_loop_it_is_logged_once_too(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.next(Refuse("forbidden"))
    async with (
        AsyncClient(gateway.url, transport=gateway.transport, observer=Deaf()) as client,
        AsyncBufferedProducer(client) as producer,
    ):
        await producer.send(TOPIC, 1)
    assert ["1 event rejected: forbidden" in one.getMessage() for one in caplog.records] == [True]


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_what_a_callback_raises_costs_no_other_event(
    gateway: FakeGateway, error: type[BaseException]
) -> None:
    def broken(future: Pending) -> None:
        raise error("mine")

    with (
        Client(gateway.url, transport=gateway.transport) as client,
        BufferedProducer(client, buffering=one_thread(linger_s=3600)) as producer,
    ):
        pending = [producer.send(TOPIC, number) for number in range(3)]
        for future in pending:
            future.add_done_callback(broken)
        assert producer.flush(DEADLINE_S)
        assert [one.result(0).name for one in pending] == ["published"] * 3
        producer.send(TOPIC, 3)
        assert producer.flush(DEADLINE_S)
        assert len(gateway.records(TOPIC)) == 4


def test_a_callback_may_send(gateway: FakeGateway) -> None:
    later: list[Pending] = []
    with Client(gateway.url, transport=gateway.transport) as client:
        producer = BufferedProducer(client, buffering=one_thread())
        sent = threading.Event()

        def send_next(future: Pending) -> None:
            later.append(producer.send(TOPIC, 2))
            sent.set()

        producer.send(TOPIC, 1).add_done_callback(send_next)
        assert sent.wait(DEADLINE_S)
        assert later[0].result(DEADLINE_S).name == "published"
        assert producer.close(DEADLINE_S)


@pytest.mark.parametrize("method", ["flush", "close"])
def test_a_callback_that_would_wait_for_itself_is_refused(
    gateway: FakeGateway, method: str
) -> None:
    raised: list[str] = []
    done = threading.Event()
    with Client(gateway.url, transport=gateway.transport) as client:
        producer = BufferedProducer(client, buffering=one_thread())

        def wait(future: Pending) -> None:
            try:
                getattr(producer, method)()
            except RuntimeError as error:
                raised.append(str(error))
            finally:
                done.set()

        producer.send(TOPIC, 1).add_done_callback(wait)
        assert done.wait(DEADLINE_S)
        assert producer.close(DEADLINE_S)
    assert raised == [f"{method}() waits for this thread; do not call it from a callback"]


def test_a_callback_does_not_wait_for_room_that_only_its_thread_can_make(
    gateway: FakeGateway,
) -> None:
    raised: list[BaseException] = []
    done = threading.Event()
    with Client(gateway.url, transport=gateway.transport) as client:
        producer = BufferedProducer(client, buffering=one_thread(linger_s=3600, max_events=2))

        def fill(future: Pending) -> None:
            try:
                for number in range(3):
                    producer.send(TOPIC, number)
            except BufferFullError as error:
                raised.append(error)
            finally:
                done.set()

        producer.send(TOPIC, 9).add_done_callback(fill)
        producer.flush(DEADLINE_S)
        assert done.wait(DEADLINE_S)
        assert producer.close(DEADLINE_S)
    assert len(raised) == 1
    assert [one.value for one in gateway.records(TOPIC)] == [9, 0, 1]


def test_a_flush_returns_after_the_callbacks_and_the_observer(gateway: FakeGateway) -> None:
    seen: list[str] = []

    class Counts(Observer):
        def on_outcomes(self, topic: str, outcomes: Sequence[Outcome]) -> None:
            seen.extend("observed" for _ in outcomes)

    with Client(gateway.url, transport=gateway.transport, observer=Counts()) as client:
        producer = BufferedProducer(client, buffering=Buffering(linger_s=3600))
        for number in range(50):
            future = producer.send(TOPIC, number, key=str(number))
            future.add_done_callback(lambda one: seen.append("called"))
        assert producer.flush(DEADLINE_S)
        assert sorted(seen) == ["called"] * 50 + ["observed"] * 50
        producer.close()


def test_close_ends_every_future_that_is_pending(gateway: FakeGateway) -> None:
    gateway.next(Refuse("overloaded"))
    with Client(gateway.url, transport=gateway.transport, retry=SLOW) as client:
        producer = BufferedProducer(client, buffering=Buffering(linger_s=3600))
        first = producer.send(TOPIC, 1)
        assert not producer.flush(0.05)
        second = producer.send(TOPIC, 2)
        assert not producer.close(0)
        third = producer.close(0)
    assert [one.result(0).name for one in (first, second)] == ["rejected", "rejected"]
    assert third  # nothing was left


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_is_told_to_make_its_own_producer() -> None:
    program = """
import os
from headgate_client import BufferedProducer, Buffering, Client, ClosedError
from headgate_client.testing import FakeGateway

gateway = FakeGateway()
with Client(gateway.url, transport=gateway.transport) as client:
    with BufferedProducer(client, buffering=Buffering(linger_s=3600)) as producer:
        producer.send("orders", 1)
        child = os.fork()
        if child == 0:
            try:
                producer.send("orders", 2)
            except ClosedError as error:
                print(error, producer.flush(), producer.close(), flush=True)
            raise SystemExit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(len(gateway.records("orders")))
"""
    said = run(program)
    assert said.stdout == (
        "the producer belongs to the parent process; make one after the fork False False\n1\n"
    )
    assert said.stderr == ""


def test_a_program_that_ends_without_close_says_what_it_lost() -> None:
    said = run("""
from headgate_client import BufferedProducer, Buffering, Client
from headgate_client.testing import FakeGateway

gateway = FakeGateway()
producer = BufferedProducer(
    Client(gateway.url, transport=gateway.transport), buffering=Buffering(linger_s=3600)
)
for number in range(3):
    producer.send("orders", number)
""")
    assert said.stderr == (
        "orders: 3 events rejected: not_sent (the program ended without close() of the producer)\n"
    )


def run(program: str) -> subprocess.CompletedProcess[str]:
    path = str(ROOT / "clients" / "python" / "src")
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True, check=True, text=True, timeout=DEADLINE_S,
    )  # fmt: skip


@pytest.mark.parametrize("is_posted", [False, True])
def test_a_loop_that_ends_without_close_loses_nothing_silently(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture, is_posted: bool
) -> None:
    kept: list[Any] = []

    async def program() -> None:
        transport = Hanging() if is_posted else gateway.transport
        client = AsyncClient(gateway.url, transport=transport)
        linger_s = 0 if is_posted else 3600
        producer = AsyncBufferedProducer(client, buffering=Buffering(linger_s=linger_s))
        kept.extend([producer, await producer.send(TOPIC, 1)])
        if isinstance(transport, Hanging):
            await transport.asked.wait()

    asyncio.run(program())
    producer, future = kept
    name, reason = ("unknown", "no_answer") if is_posted else ("rejected", "not_sent")
    assert (future.result().name, future.result().reason) == (name, reason)
    (record,) = caplog.records
    assert f"1 event {name}: {reason}" in record.getMessage()

    async def again() -> None:
        await producer.send(TOPIC, 2)

    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(again())


async def test_a_sender_task_that_is_cancelled_ends_the_producer(gateway: FakeGateway) -> None:
    async with AsyncClient(gateway.url, transport=gateway.transport) as client:
        producer = AsyncBufferedProducer(client, buffering=Buffering(linger_s=3600))
        future = await producer.send(TOPIC, 1)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        assert (await future).name == "rejected"
        with pytest.raises(ClosedError, match="event loop ended"):
            await producer.send(TOPIC, 2)


class Broken(RuntimeError):
    """Raised where nothing should raise."""


async def test_a_sender_that_fails_leaves_no_future_pending(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise Broken

    async with AsyncClient(gateway.url, transport=gateway.transport) as client:
        monkeypatch.setattr(client, "post", fail)
        producer = AsyncBufferedProducer(client, buffering=Buffering(linger_s=0))
        assert (await (await producer.send(TOPIC, 1))).name == "unknown"

    def fail_too(*_: object) -> None:
        raise Broken

    with Client(gateway.url, transport=gateway.transport) as blocking:
        monkeypatch.setattr(blocking, "post", fail_too)
        threads = BufferedProducer(blocking, buffering=Buffering(linger_s=0))
        assert threads.send(TOPIC, 1).result(DEADLINE_S).name == "unknown"
        with pytest.raises(ClosedError):
            threads.send(TOPIC, 2)
    failed = [one.getMessage() for one in caplog.records if one.exc_info]
    assert failed == ["the sender task failed", "the sender thread failed"]


# Random histories: events, faults, cancellations, callbacks that raise or send, flushes, a close.
MOVES = st.lists(
    st.sampled_from(["send", "send", "cancel", "raise", "resend", "flush", "fail", "lose"]),
    max_size=25,
)
CLOSES = st.sampled_from([None, 0.0, 0.001])


def faults_of(move: str, gateway: FakeGateway) -> None:
    if move == "fail":
        gateway.next(FailEvents("kafka_unavailable", lambda record, place: place % 2 == 0))
    elif move == "lose":
        gateway.next(Lose(is_written=True))


def judge(gateway: FakeGateway, outcomes: list[Outcome], sent: int) -> None:
    """Each event has one outcome, which is true of the log."""
    assert len(outcomes) == sent
    written = [str(one.event_id) for one in gateway.records(TOPIC)]
    assert len(set(written)) == len(written)
    for outcome in outcomes:
        if outcome.succeeded:
            assert outcome.event_id in written
        elif outcome.is_written is False:
            assert outcome.event_id not in written


@given(MOVES, CLOSES, st.integers(1, 3))
@example(["send", "resend", "raise", "flush", "send"], None, 1)
@example(["send", "lose", "flush", "send"], 0.0, 1)
def test_every_future_has_a_true_end(moves: list[str], closes: float | None, threads: int) -> None:
    gateway = FakeGateway(dedupe=True)
    pending: list[Pending] = []
    lock = threading.Lock()
    client = Client(gateway.url, transport=gateway.transport, retry=AT_ONCE, event_ids=True)
    producer = BufferedProducer(client, buffering=Buffering(linger_s=0.001, in_flight=threads))

    def send() -> None:
        future = producer.send(TOPIC, len(pending), key=str(len(pending) % 3))
        with lock:
            pending.append(future)

    def resend(_: Pending) -> None:
        send()

    def fail(_: Pending) -> None:
        raise Broken

    calls: dict[str, Callable[[Pending], object]] = {"raise": fail, "resend": resend}
    for move in moves:
        if move == "send":
            send()
        elif move == "flush":
            assert producer.flush(DEADLINE_S)
        elif move == "cancel" and pending:
            assert not pending[-1].cancel()
        elif move in calls and pending:
            pending[-1].add_done_callback(calls[move])
        faults_of(move, gateway)
    producer.close(closes)
    client.close()
    done, rest = concurrent.futures.wait(pending, DEADLINE_S)
    assert (rest, producer.events) == (set(), 0)
    judge(gateway, [one.result() for one in done], len(pending))


@given(MOVES, CLOSES)
@example(["send", "cancel", "fail", "flush"], None)
@example(["send", "cancel"], 0.0)
def test_every_future_of_a_loop_has_a_true_end(moves: list[str], closes: float | None) -> None:
    asyncio.run(play(moves, closes))


async def play(moves: list[str], closes: float | None) -> None:
    gateway, told = FakeGateway(dedupe=True), Ends()
    pending: list[asyncio.Future[Outcome]] = []
    options: Any = {"retry": AT_ONCE, "event_ids": True, "observer": told}
    sending: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    handled: list[object] = []
    loop.set_exception_handler(lambda loop, context: handled.append(context.get("exception")))
    async with AsyncClient(gateway.url, transport=gateway.transport, **options) as client:
        producer = AsyncBufferedProducer(client, buffering=Buffering(linger_s=0.001))

        async def send() -> None:
            try:
                pending.append(await producer.send(TOPIC, 1, key=str(len(pending) % 3)))
            except ClosedError:
                assert sending  # only a callback may come too late

        def resend(_: object) -> None:
            sending.append(loop.create_task(send()))

        def fail(_: object) -> None:
            raise Broken

        for move in moves:
            if move == "send":
                await send()
            elif move == "flush":
                assert await producer.flush(DEADLINE_S)
            elif move == "cancel" and pending:
                pending[-1].cancel()
            elif move in ("raise", "resend") and pending:
                pending[-1].add_done_callback(fail if move == "raise" else resend)
            faults_of(move, gateway)
        await producer.close(closes)
        await asyncio.gather(*sending)
    assert all(one.done() for one in pending)
    assert producer.events == 0
    assert all(isinstance(one, Broken) for one in handled)
    judge(gateway, told.outcomes, len(pending))


class Ends(Observer):
    """Keeps the outcomes, also of futures that were cancelled."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def on_outcomes(self, topic: str, outcomes: Sequence[Outcome]) -> None:
        self.outcomes += outcomes


@pytest.mark.parametrize("text", ["x" * 20, "x" * 2000])
def test_an_event_counts_in_the_buffer_as_much_as_it_takes(gateway: FakeGateway, text: str) -> None:
    events = 2000
    limits = Limits(max_events=2 * events, max_bytes=10**9)
    client = Client(gateway.url, transport=gateway.transport, limits=limits, observer=Deaf())
    producer = BufferedProducer(client, buffering=Buffering(linger_s=3600, max_bytes=10**9))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        pending = [producer.send(TOPIC, Event(text, key=f"key-{n}")) for n in range(events)]
        each = (tracemalloc.get_traced_memory()[0] - before) / events
    finally:
        tracemalloc.stop()
        counted = producer.bytes / events
        producer.close(0)
    assert len(pending) == events
    assert counted / 3 <= each <= counted
