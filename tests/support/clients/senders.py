"""Producers of the Python client that send until they are told to stop, and what became of it."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

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
    Rejected,
    Retry,
    Unchanged,
    Unknown,
)
from headgate_client.core.ids import uuid7
from headgate_client.wire import ClientOptions
from support.clients.faults import DEADLINE_S
from support.clients.judgement import End, History, Sent
from support.clients.recording import AsyncRecordingTransport, Record, RecordingTransport

KEYS, SENDERS = 8, 3
PACE_S = 0.003  # of a sender: what is written has to be read again
PATIENT = Retry(patience_s=600, longest_wait_s=2)
BUFFERING = Buffering(max_events=2000, in_flight=3)


class Stand(Observer):
    """What was sent, in the order of each key, and how it ended.

    largest: bytes of text that an event has at most, beside its key and its number.
    """

    def __init__(
        self, urls: list[str], topic: str, retry: Retry = PATIENT, largest: int = 0
    ) -> None:
        self.urls, self.topic = urls, topic
        self.sent: list[Sent] = []
        self.ends: dict[str, list[End]] = {}
        self.record = Record()
        self.stop = threading.Event()
        self._retry, self._largest = retry, largest
        self._lock = threading.Lock()

    def on_outcomes(self, topic: str, outcomes: Sequence[Outcome]) -> None:
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
        value: dict[str, Any] = {"id": key, "number": number}
        if self._largest:
            value["text"] = "x" * random.randrange(self._largest)
        event = Event(value=value, id=uuid7())
        text = json.dumps(value, separators=(",", ":")).encode()
        self.sent.append(Sent(key, event.id or "", text))
        return event

    @property
    def options(self) -> ClientOptions:
        return {"retry": self._retry, "timeout_s": 15.0, "producer": "shop", "observer": self}


def end_of(outcome: Outcome) -> End:
    if isinstance(outcome, (Published, Duplicate, Unchanged)):
        return End(outcome.name, outcome.partition, outcome.offset)
    return End(
        outcome.name, reason=outcome.reason if isinstance(outcome, (Rejected, Unknown)) else ""
    )


def ordering_key(topic: str, value: object) -> str:
    assert isinstance(value, dict)
    return str(value["id"])


def send_from_threads(stand: Stand) -> bool:
    """Send until told to stop; return whether everything ended by itself."""
    transport = RecordingTransport(stand.record)
    with Client(stand.urls, transport=transport, **stand.options) as client:
        producer = BufferedProducer(client, buffering=BUFFERING, ordering_key=ordering_key)

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
            producer = AsyncBufferedProducer(client, buffering=BUFFERING, ordering_key=ordering_key)

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
