"""The Python client's producers against a real gateway while everything around them breaks.

The log must hold every event that the client calls published, at the place that it names; each key
in the order in which it was sent; and no event twice, unless an attempt of it had no known end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import NamedTuple

import pytest

from headgate_client import (
    AsyncBufferedProducer,
    AsyncClient,
    BufferedProducer,
    Buffering,
    Client,
    Duplicate,
    Event,
    Observer,
    Outcome,
    Published,
    Retry,
)
from headgate_client.core.ids import uuid7
from headgate_client.wire import ClientOptions
from support.clients.recording import AsyncRecordingTransport, Record, RecordingTransport, Seen
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis
from support.scale import scaled

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[http]
request_timeout_ms = 5000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 5000
lane_stall_ms = 5000
[redis]
url = "{redis}"
claim_ms = 3000
timeout_ms = 1000
[topics."{topic}"]
key = ["/id"]
dedupe_ttl_s = 3600
"""
KEYS, SENDERS = 8, 3
BETWEEN = 200  # events that end between two blows
DEADLINE_S = 200.0
PACE_S = 0.003  # of a sender: what is written has to be read again
PATIENT = Retry(patience_s=600, longest_wait_s=2)
BUFFERING = Buffering(max_events=2000, in_flight=3)
# Ends of an attempt behind which the event may be in the log, or land there later.
NOT_KNOWN = {"no answer", "unknown", "idempotency_conflict"}


class Sent(NamedTuple):
    """An event that a producer took."""

    key: str
    event_id: str
    value: bytes


class Stand(Observer):
    """What was sent, in the order of each key, and how it ended."""

    def __init__(self, urls: list[str], topic: str) -> None:
        self.urls, self.topic = urls, topic
        self.sent: list[Sent] = []
        self.outcomes: dict[str, list[Outcome]] = {}
        self.record = Record()
        self.stop = threading.Event()
        self._lock = threading.Lock()

    def ended(self, topic: str, outcomes: Sequence[Outcome]) -> None:
        with self._lock:
            for outcome in outcomes:
                self.outcomes.setdefault(outcome.event_id or "", []).append(outcome)

    def new(self, sender: int, number: int) -> Event:
        key = f"{sender}-{number % KEYS}"
        value = {"id": key, "number": number}
        event = Event(value=value, id=uuid7())
        text = json.dumps(value, separators=(",", ":")).encode()
        self.sent.append(Sent(key, event.id or "", text))
        return event

    @property
    def options(self) -> ClientOptions:
        return {"retry": PATIENT, "timeout_s": 15.0, "producer": "shop", "observer": self}

    def wait_for_more(self) -> None:
        ended = len(self.outcomes) + BETWEEN
        self.wait_until(lambda: len(self.outcomes) >= ended, f"{ended} events have ended")

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + DEADLINE_S
        while not is_so():
            assert time.monotonic() < end, f"never: {what}"
            time.sleep(0.02)


class World(NamedTuple):
    """What can break."""

    stand: Stand
    gateways: list[Gateway]
    kafka: RunningBroker
    redis: RunningRedis


def lane_of(topic: str, event: object) -> str:
    assert isinstance(event, Event)
    assert isinstance(event.value, dict)
    return str(event.value["id"])


def send_from_threads(stand: Stand) -> bool:
    """Send until told to stop; return whether everything ended by itself."""
    transport = RecordingTransport(stand.record)
    with Client(stand.urls, transport=transport, **stand.options) as client:
        producer = BufferedProducer(client, buffering=BUFFERING, lane_of=lane_of)

        def send(sender: int) -> None:
            for number in count():
                if stand.stop.wait(PACE_S):
                    return
                producer.send(stand.topic, stand.new(sender, number))

        with ThreadPoolExecutor(SENDERS) as pool:
            for running in [pool.submit(send, number) for number in range(SENDERS)]:
                running.result(DEADLINE_S * 2)
        return producer.close(DEADLINE_S)


def send_from_a_loop(stand: Stand) -> bool:
    """Do the same with asyncio."""

    async def work() -> bool:
        transport = AsyncRecordingTransport(stand.record)
        async with AsyncClient(stand.urls, transport=transport, **stand.options) as client:
            producer = AsyncBufferedProducer(client, buffering=BUFFERING, lane_of=lane_of)

            async def send(sender: int) -> None:
                for number in count():
                    if stand.stop.is_set():
                        return
                    await producer.send(stand.topic, stand.new(sender, number))
                    await asyncio.sleep(PACE_S)

            await asyncio.gather(*(send(number) for number in range(SENDERS)))
            return await producer.close(DEADLINE_S)

    return asyncio.run(work())


def kill(world: World) -> None:
    """kill -9 of all processes of a gateway, and start it again."""
    gateway = world.gateways[0]
    for pid in gateway.pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    gateway.kill()
    gateway.restart()


def drain(world: World) -> None:
    """SIGTERM to one gateway after the other; each comes back before the next one goes."""
    for gateway in world.gateways:
        gateway.restart()


def lose_kafka(world: World) -> None:
    """Kafka stands still until requests fail, then goes on."""
    before = world.stand.record.failed
    world.kafka.pause()
    world.stand.wait_until(lambda: world.stand.record.failed > before, "a request fails")
    world.kafka.resume()
    world.kafka.wait()


def lose_redis(world: World) -> None:
    """Redis ends with everything it knew, and comes back empty."""
    world.redis.kill()
    world.redis.restart()


def lost(stand: Stand, log: list[LogRecord]) -> list[Sent]:
    """Events that are not at the place that their outcome names, or did not end once and well."""
    at = {(one.partition, one.offset): one.value for one in log}
    wrong = []
    for sent in stand.sent:
        outcomes = stand.outcomes.get(sent.event_id, [])
        places = [
            (one.partition, one.offset)
            for one in outcomes
            if isinstance(one, (Published, Duplicate))
        ]
        if len(outcomes) != 1 or [at.get(place) for place in places] != [sent.value]:  # type: ignore[arg-type]
            wrong.append(sent)
    return wrong


def repeated(stand: Stand, log: list[LogRecord]) -> list[Sent]:
    """Events that are in the log twice though each of their attempts had a known end."""
    times = Counter(one.value for one in log)
    return [
        sent
        for sent in stand.sent
        if times[sent.value] > 1 and not is_excused(stand.record.attempts(sent.event_id))
    ]


def is_excused(attempts: list[Seen]) -> bool:
    """Whether an attempt may have written without anybody knowing it."""
    return len(attempts) > 1 and any(one.end in NOT_KNOWN or one.is_bypassed for one in attempts)


def out_of_order(stand: Stand, log: list[LogRecord]) -> list[str]:
    """Keys of which a newer event is in the log before an older one."""
    first: dict[str, list[bytes]] = {}
    seen: set[bytes] = set()
    for record in sorted(log, key=lambda one: (one.partition, one.offset)):
        assert record.key is not None
        assert record.value is not None
        if record.value not in seen:
            seen.add(record.value)
            first.setdefault(record.key.decode(), []).append(record.value)
    sent: dict[str, list[bytes]] = {}
    for one in stand.sent:
        sent.setdefault(one.key, []).append(one.value)
    return [key for key in sent if sent[key] != first.get(key)]


Fault = Callable[[World], None]
SHELLS = {"threads": send_from_threads, "loop": send_from_a_loop}


@pytest.mark.parametrize("rounds", scaled(1, 15))
@pytest.mark.parametrize(
    ("fault", "gateways", "shell"),
    [
        (kill, 1, "threads"),
        (kill, 2, "loop"),
        (drain, 2, "threads"),
        (drain, 1, "loop"),
        (lose_kafka, 1, "threads"),
        (lose_redis, 1, "loop"),
    ],
)
def test_nothing_is_lost_and_each_key_keeps_its_order(
    pausable: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    fault: Fault,
    gateways: int,
    shell: str,
    rounds: int,
) -> None:
    kafka, redis = pausable, start_redis()
    kafka.create_topic(topic_name, 3)
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url, topic=topic_name)
    started = [start_gateway(text) for _ in range(gateways)]
    stand = Stand([one.url for one in started], topic_name)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(SHELLS[shell], stand)
        try:
            stand.wait_for_more()
            for _ in range(rounds):
                fault(World(stand, started, kafka, redis))
                stand.wait_for_more()
        finally:
            stand.stop.set()
        assert running.result(DEADLINE_S * 2)
    log = read_log(kafka.bootstrap, topic_name)
    assert len(stand.sent) > BETWEEN * rounds
    assert lost(stand, log) == []
    assert out_of_order(stand, log) == []
    assert repeated(stand, log) == []
    if fault is drain:  # who drains knows how everything ended
        assert len(log) == len(stand.sent)


def test_the_checkers_see_what_is_wrong() -> None:
    stand = Stand([], "t")
    events = [stand.new(0, number) for number in (0, KEYS, 2 * KEYS)]
    values = [one.value for one in stand.sent]

    def log(*places: int) -> list[LogRecord]:
        return [
            LogRecord(0, offset, stand.sent[at].key.encode(), values[at], [], 0)
            for offset, at in enumerate(places)
        ]

    stand.ended(
        "t",
        [
            Published(topic="t", event_id=event.id, partition=0, offset=offset)
            for offset, event in enumerate(events)
        ],
    )
    assert lost(stand, log(0, 1, 2)) == out_of_order(stand, log(0, 1, 2)) == []
    assert lost(stand, log(0, 2, 1)) == stand.sent[1:]
    assert lost(stand, log(0, 1)) == stand.sent[2:]
    assert out_of_order(stand, log(0, 2, 1)) == [stand.sent[0].key]
    assert out_of_order(stand, log(0, 1, 0, 2)) == []
    assert repeated(stand, log(0, 1, 0)) == stand.sent[:1]
    name = stand.sent[0].event_id
    stand.record.add(iter([Seen(name, "no answer", False), Seen(name, "published", False)]))
    assert repeated(stand, log(0, 1, 0)) == []
    stand.ended("t", [Published(topic="t", event_id=events[0].id, partition=0, offset=0)])
    assert lost(stand, log(0, 1, 2)) == stand.sent[:1]
