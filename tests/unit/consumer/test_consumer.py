"""`Consumer.run` ends: also when handlers hang, do not hear, or are cancelled from within."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from typing import cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from headgate.consumer import Consumer, Counts
from headgate.consumer.assignment import Assignment
from headgate.consumer.metrics import ConsumerMetrics
from headgate.consumer.options import ConsumerOptions
from headgate.consumer.partition import Received
from headgate.redis.pauses import Intent, RedisPauses
from support.process.stack import eventually

FAR_S = 60.0


class Events:
    """As much of an assignment as a consumer asks for events."""

    def __init__(self, count: int) -> None:
        self.ends: list[str] = []
        self._left = [Received(self, Event(number), ()) for number in range(count)]

    def next(self) -> Received | None:
        if not self._left:
            return None
        received = self._left.pop(0)
        received.hand_out()
        return received

    def done(self, received: Received) -> None:
        self.ends.append(f"{received.offset} done")

    def failed(self, received: Received, error: BaseException | str) -> None:
        self.ends.append(f"{received.offset} failed")


class Event:
    topic, partition, key, value, timestamp = "orders", 0, None, b"{}", 0

    def __init__(self, offset: int) -> None:
        self.offset = offset


def consumer_of(events: Events, drain_s: float) -> Consumer:
    options = ConsumerOptions(drain_s=drain_s)
    consumer = Consumer("orders", group="g", bootstrap="127.0.0.1:1", options=options)
    consumer._assignment = cast(Assignment, events)
    return consumer


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("group_id", r"Use Consumer\(group=...\)"),
        ("bootstrap_servers", r"Use Consumer\(bootstrap=...\)"),
        ("auto_offset_reset", r"Use options=ConsumerOptions\(auto_offset_reset=...\)"),
        ("retries", r"Use options=ConsumerOptions\(retries=...\)"),
        ("enable_auto_commit", "Leave it out: only finished events are committed"),
        ("max_poll_records", r"Use ConsumerOptions\(concurrency=..., prefetch=...\)"),
        ("value_deserializer", "Leave it out: event.value is bytes or None"),
        ("sasl_mechanism", r"Use Consumer\(bootstrap=ClusterOptions\(...\)\)"),
        ("grup", 'Did you mean "group"'),
        ("zzz", r"\. The arguments are group, bootstrap, options"),
    ],
)
def test_an_argument_of_another_client_is_refused_with_the_fix(given: str, fix: str) -> None:
    with pytest.raises(TypeError, match=rf"^Consumer: there is no argument '{given}'.*{fix}"):
        Consumer("orders", **{given: 1})  # type: ignore[arg-type]
    if given not in ("auto_offset_reset", "retries", "grup", "zzz"):
        with pytest.raises(TypeError, match=rf"^ConsumerOptions: .*'{given}'.*{fix}"):
            ConsumerOptions(**{given: 1})  # type: ignore[arg-type]


def test_an_option_of_a_consumer_that_is_misspelled_gets_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"'concurency'\. .*concurrency.* The arguments are "):
        ConsumerOptions(concurency=5)  # type: ignore[call-arg]
    options = ConsumerOptions(5, prefetch=7)
    assert replace(options, drain_s=1.0) == ConsumerOptions(5, 7, drain_s=1.0)
    assert copy.copy(options) == pickle.loads(pickle.dumps(options)) == options


async def test_a_handler_that_hangs_does_not_hold_up_the_end() -> None:
    events = Events(3)
    consumer = consumer_of(events, drain_s=0.05)
    begun: list[int] = []

    async def handle(received: Received) -> None:
        begun.append(received.offset)
        if received.offset != 1:
            await asyncio.sleep(10 * FAR_S)

    async with asyncio.timeout(FAR_S):
        working = asyncio.create_task(consumer.run(handle))
        await eventually(lambda: len(begun) == 3)
        consumer.stop()
        await working
    assert events.ends == ["1 done"], "what hung is neither done nor failed"


async def test_what_is_under_way_may_end() -> None:
    events, may_end = Events(3), asyncio.Event()
    consumer = consumer_of(events, drain_s=FAR_S)
    begun: list[int] = []

    async def handle(received: Received) -> None:
        begun.append(received.offset)
        await may_end.wait()

    async with asyncio.timeout(FAR_S):
        working = asyncio.create_task(consumer.run(handle, tasks=2))
        await eventually(lambda: len(begun) == 2)
        consumer.stop()
        await asyncio.sleep(0)
        assert not working.done()
        may_end.set()
        await working
    assert sorted(events.ends) == ["0 done", "1 done"]


async def test_a_handler_that_does_not_hear_its_cancellation_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headgate.consumer.consumer._CANCEL_S", 0.05)
    events, over = Events(1), asyncio.Event()
    consumer = consumer_of(events, drain_s=0.05)

    async def handle(received: Received) -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    async with asyncio.timeout(FAR_S):
        working = asyncio.create_task(consumer.run(handle, tasks=1))
        await asyncio.sleep(0.05)
        consumer.stop()
        await working
    over.set()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


async def test_an_error_is_heard_while_all_handlers_hang() -> None:
    events = Events(2)
    consumer = consumer_of(events, drain_s=FAR_S)
    begun: list[int] = []

    async def handle(received: Received) -> None:
        begun.append(received.offset)
        await asyncio.sleep(10 * FAR_S)

    async with asyncio.timeout(FAR_S / 2):
        working = asyncio.create_task(consumer.run(handle, tasks=2))
        await eventually(lambda: len(begun) == 2)
        consumer.give_up(ValueError("no such table"))
        with pytest.raises(ExceptionGroup) as caught:
            await working
    (error,) = caught.value.exceptions
    assert isinstance(error, ValueError)
    assert not events.ends


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_what_a_handler_raises_is_its_event_s(error: Callable[[], BaseException]) -> None:
    """Also a cancellation that came from something within: no task is lost by it."""
    events = Events(3)
    consumer = consumer_of(events, drain_s=FAR_S)

    async def handle(received: Received) -> None:
        if received.offset == 2:
            consumer.stop()
        raise error()

    async with asyncio.timeout(FAR_S):
        await consumer.run(handle, tasks=1)
    assert events.ends == ["0 failed", "1 failed", "2 failed"]


async def test_whoever_cancels_the_run_cancels_the_handlers() -> None:
    events, begun = Events(1), asyncio.Event()
    consumer = consumer_of(events, drain_s=FAR_S)
    cancelled = False

    async def handle(received: Received) -> None:
        nonlocal cancelled
        begun.set()
        try:
            await asyncio.sleep(10 * FAR_S)
        except asyncio.CancelledError:
            cancelled = True
            raise

    async with asyncio.timeout(FAR_S):
        working = asyncio.create_task(consumer.run(handle))
        await begun.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    assert cancelled
    assert not events.ends


# Consumers' counts as Prometheus sees them.


async def test_every_count_is_exposed() -> None:
    consumer = Consumer("orders", group="billing", bootstrap="127.0.0.1:1")
    for number, field in enumerate(fields(Counts), 1):
        setattr(consumer.counts, field.name, number)
    registry = CollectorRegistry()
    registry.register(ConsumerMetrics(consumer))
    labels = {"group": "billing", "client_id": "headgate-consumer"}
    found = [
        registry.get_sample_value(f"headgate_consumer_{name}_total", labels)
        for name in (
            "delivered", "processed", "committed", "failed", "skipped", "dead_letters",
            "stale_done", "stale_commits", "regressions_prevented", "commit_errors", "revokes",
            "drain_seconds",
        )
    ]  # fmt: skip
    assert found == list(range(1, len(fields(Counts)) + 1))
    assert b"# HELP headgate_consumer_stale_commits_total" in generate_latest(registry)


class Store:
    """A store of pauses that fails at these of its reads."""

    def __init__(self, failing: set[int]) -> None:
        self._failing = failing
        self.reads = 0

    async def intents(self, group: str) -> list[Intent]:
        self.reads += 1
        if self.reads in self._failing:
            raise OSError("Redis is away")
        return []


async def test_an_outage_of_the_pause_store_is_two_lines(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.consumer.consumer._PAUSE_POLL_S", 0.001)
    caplog.set_level(logging.INFO, "headgate.consumer")
    store = Store({1, 2, 5, 6, 7})
    consumer = Consumer(
        "orders", group="g", bootstrap="127.0.0.1:1", pauses=cast(RedisPauses, store)
    )
    async with consumer:
        await eventually(lambda: store.reads >= 9)
    lines = [record for record in caplog.records if "pauses" in record.getMessage()]
    assert [line.getMessage() for line in lines] == [
        "pauses cannot be read, and no event is handed out before they were: Redis is away",
        "pauses can be read again",
        "pauses cannot be read, and the last known ones stay active: Redis is away",
        "pauses can be read again",
    ]
    assert {line.__dict__["group"] for line in lines} == {"g"}
    assert all(lines[number].__dict__["away_s"] >= 0 for number in (1, 3))
