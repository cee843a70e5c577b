"""What a client has sent and was answered, and what the log must then hold."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headgate_client import Duplicate, Event, Observer, Outcome, Published, Retry
from headgate_client.core.ids import uuid7
from headgate_client.wire import ClientOptions
from support.clients.recording import Record, Seen
from support.kafka.kafka_log import LogRecord

KEYS = 8  # of each sender
BETWEEN = 200  # events that end between two blows
DEADLINE_S = 200.0
PATIENT = Retry(patience_s=600, longest_wait_s=2)
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
