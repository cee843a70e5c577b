"""The Python client's producers against a real gateway while everything around them breaks.

The log must hold every event that the client calls published, at the place that it names; each key
in the order in which it was sent; and no event twice, unless an attempt of it had no known end.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from _pytest.mark.structures import ParameterSet

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
from support.clients.faults import (
    BETWEEN,
    CONFIG,
    DEADLINE_S,
    Fault,
    World,
    break_in_turn,
    drain,
    kill,
    lose_redis,
    pause_kafka,
)
from support.clients.judgement import End, History, Sent, judge, lost, out_of_order, repeated
from support.clients.recording import AsyncRecordingTransport, Record, RecordingTransport, Seen
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

KEYS, SENDERS = 8, 3
PACE_S = 0.003  # of a sender: what is written has to be read again
PATIENT = Retry(patience_s=600, longest_wait_s=2)
BUFFERING = Buffering(max_events=2000, in_flight=3)


class Stand(Observer):
    """What was sent, in the order of each key, and how it ended."""

    def __init__(self, urls: list[str], topic: str) -> None:
        self.urls, self.topic = urls, topic
        self.sent: list[Sent] = []
        self.ends: dict[str, list[End]] = {}
        self.record = Record()
        self.stop = threading.Event()
        self._lock = threading.Lock()

    def ended(self, topic: str, outcomes: Sequence[Outcome]) -> None:
        with self._lock:
            for outcome in outcomes:
                self.ends.setdefault(outcome.event_id or "", []).append(end_of(outcome))

    @property
    def ended_events(self) -> int:
        return len(self.ends)

    @property
    def failed_events(self) -> int:
        return self.record.failed

    @property
    def history(self) -> History:
        return History(self.sent, self.ends, self.record.attempts)

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


def end_of(outcome: Outcome) -> End:
    if isinstance(outcome, (Published, Duplicate)):
        return End(outcome.name, outcome.partition, outcome.offset)
    return End(outcome.name)


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
                running.result()
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


SHELLS = {"threads": send_from_threads, "loop": send_from_a_loop}
SCALED, FULL = 1, 15  # rounds
SHOWN: dict[str, tuple[Fault, int, str]] = {  # how many gateways there are, and who sends
    "kill-1-threads": (kill, 1, "threads"),
    "kill-2-loop": (kill, 2, "loop"),
    "drain-2-threads": (drain, 2, "threads"),
    "drain-1-loop": (drain, 1, "loop"),
    "pause_kafka-1-threads": (pause_kafka, 1, "threads"),
    "lose_redis-1-loop": (lose_redis, 1, "loop"),
}
# The longest: a drain alone, and another address alone, are among the others.
FULL_ALONE = {"drain-2-threads"}


def cases() -> Iterator[ParameterSet]:
    for name, case in SHOWN.items():
        if name not in FULL_ALONE:
            yield pytest.param(*case, SCALED, id=f"{name}-scaled")
        yield pytest.param(*case, FULL, id=f"{name}-full", marks=pytest.mark.full)


@pytest.mark.timeout(1200)  # fifteen rounds of two gateways that start, beside other work
@pytest.mark.parametrize(("fault", "gateways", "shell", "rounds"), [*cases()])
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
    started = [start_gateway(text, wait=False) for _ in range(gateways)]
    for gateway in started:
        gateway.wait()
    stand = Stand([one.url for one in started], topic_name)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(SHELLS[shell], stand)
        try:
            break_in_turn(World(stand, started, kafka, redis), [fault] * rounds)
        finally:
            stand.stop.set()
        assert running.result(DEADLINE_S * 2)
    log = read_log(kafka.bootstrap, topic_name)
    assert len(stand.sent) > BETWEEN * rounds
    figures = f"{len(stand.sent)} events, {stand.failed_events} failed attempts, {len(log)} records"
    sys.stderr.write(f"CLIENT_CHAOS {fault.__name__}-{gateways}-{shell}: {figures}\n")
    judge(stand.history, log)
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
    assert lost(stand.history, log(0, 1, 2)) == out_of_order(stand.history, log(0, 1, 2)) == []
    assert lost(stand.history, log(0, 2, 1)) == stand.sent[1:]
    assert lost(stand.history, log(0, 1)) == stand.sent[2:]
    assert out_of_order(stand.history, log(0, 2, 1)) == [stand.sent[0].key]
    assert out_of_order(stand.history, log(0, 1, 0, 2)) == []
    assert repeated(stand.history, log(0, 1, 0)) == stand.sent[:1]
    name = stand.sent[0].event_id
    stand.record.add(iter([Seen(name, "no answer", False), Seen(name, "published", False)]))
    assert repeated(stand.history, log(0, 1, 0)) == []
    stand.ended("t", [Published(topic="t", event_id=events[0].id, partition=0, offset=0)])
    assert lost(stand.history, log(0, 1, 2)) == stand.sent[:1]
