"""Racing repeats through two gateways that are killed, and a Redis that is.

Each piece of work is posted, by several clients at once, until it has ended well. Then the log
must hold what each answer says, and no more than one record of work whose attempts were all
answered with an end that is known, unless Redis lost its state.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import pytest

from support.clients.http_client import JSON, Answer, ClosedError, post
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis

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
[producers.shop]
[topics."{topic}"]
key = ["/id"]
dedupe_ttl_s = 3600
"""
GOOD = ("published", "duplicate")
# How an attempt may end so that it is known whether it wrote.
KNOWN = (*GOOD, "idempotency_conflict", "draining", "kafka_unavailable", "overloaded")


@dataclass(slots=True)
class Work:
    """Something to be written once. answers: outcome or reason, partition, offset, bypassed."""

    body: bytes
    headers: dict[str, str]
    answers: list[tuple[str, int, int, bool]] = field(default_factory=list)

    @property
    def ended_known(self) -> bool:
        return all(name in KNOWN and not bypassed for name, _, _, bypassed in self.answers)


class Stand:
    """Clients that work until told to stop."""

    def __init__(self, gateways: list[Gateway], topic: str, seed: int) -> None:
        self.gateways, self.topic, self.seed = gateways, topic, seed
        self.done: list[Work] = []
        self.stop = threading.Event()
        self._numbers = count(1)

    def client(self, number: int) -> None:
        chance = random.Random(self.seed + number)
        with ThreadPoolExecutor(2) as pool:
            while not self.stop.is_set():
                work = self._new(chance)
                for one in [pool.submit(self._finish, work, chance.random()) for _ in range(2)]:
                    one.result(200)
                self.done.append(work)

    def _new(self, chance: random.Random) -> Work:
        number = next(self._numbers)
        name = "Idempotency-Key" if chance.random() < 0.5 else "Headgate-Event-Id"
        body = json.dumps({"id": f"k{number % 7}", "number": number}).encode()
        return Work(body, {**JSON, "Headgate-Producer": "shop", name: f"{name}-{number}"})

    def _finish(self, work: Work, seed: float) -> None:
        chance, end = random.Random(seed), time.monotonic() + 150
        while True:
            gateway = chance.choice(self.gateways)
            work.answers.append(self._attempt(gateway, work))
            if work.answers[-1][0] in GOOD:
                return
            assert time.monotonic() < end, work
            self.stop.wait(0.02) or time.sleep(0.02)

    def _attempt(self, gateway: Gateway, work: Work) -> tuple[str, int, int, bool]:
        try:
            answer = post(gateway.port, self.topic, work.body, work.headers)
        except ConnectionRefusedError:
            return "draining", -1, -1, False  # nothing has heard of it
        except (OSError, ClosedError):
            return "no answer", -1, -1, False
        return _read(answer)


def _read(answer: Answer) -> tuple[str, int, int, bool]:
    said = answer.document
    assert answer.status < 500 or said["reason"] in ("unknown", *KNOWN), said
    name = said.get("reason") or said["outcome"]
    bypassed = "idempotency-bypassed" in answer.headers
    return name, said.get("partition", -1), said.get("offset", -1), bypassed


def kill(gateway: Gateway) -> None:
    """kill -9 of all its processes, and start it again."""
    for pid in gateway.pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    gateway.kill()
    gateway.restart()


def wrong_places(works: list[Work], log: list[LogRecord]) -> list[Work]:
    """Work of which an answer names a place that holds something else."""
    at = {(one.partition, one.offset): one.value for one in log}
    return [
        work
        for work in works
        for name, partition, offset, _ in work.answers
        if name in GOOD and at.get((partition, offset)) != work.body
    ]


def repeated(works: list[Work], log: list[LogRecord]) -> list[Work]:
    """Work that is in the log several times though every attempt had a known end."""
    times: dict[bytes | None, int] = {}
    for record in log:
        times[record.value] = times.get(record.value, 0) + 1
    return [work for work in works if work.ended_known and times[work.body] > 1]


@pytest.mark.parametrize(
    ("rounds", "redis_dies"),
    [
        pytest.param(2, False, marks=pytest.mark.full),
        (2, True),
        pytest.param(30, False, marks=pytest.mark.full),
        pytest.param(30, True, marks=pytest.mark.full),
    ],
)
def test_no_answer_lies_whatever_dies(
    kafka: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    rounds: int,
    redis_dies: bool,
) -> None:
    kafka.create_topic(topic_name, 3)
    redis = start_redis()
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url, topic=topic_name)
    stand = Stand([start_gateway(text), start_gateway(text)], topic_name, seed=rounds)
    with ThreadPoolExecutor(3) as clients:
        running = [clients.submit(stand.client, number) for number in range(3)]
        try:
            for number in range(rounds):
                before = len(stand.done)
                kill(stand.gateways[number % 2])
                if redis_dies:
                    redis.kill()
                    redis.restart()
                end = time.monotonic() + 150
                while len(stand.done) < before + 20:  # work goes on before the next blow
                    assert time.monotonic() < end
                    time.sleep(0.02)
        finally:
            stand.stop.set()
        for one in running:
            one.result(200)
    log = read_log(kafka.bootstrap, topic_name)
    works = stand.done
    assert len(works) >= 20 * rounds
    assert {record.value for record in log} >= {work.body for work in works}
    assert wrong_places(works, log) == []
    if not redis_dies:
        assert repeated(works, log) == []
        assert any(name == "duplicate" for work in works for name, *_ in work.answers)


def test_the_checker_sees_what_is_wrong() -> None:
    def record(offset: int, value: bytes) -> LogRecord:
        return LogRecord(0, offset, b"k", value, [], 0)

    log = [record(0, b"a"), record(1, b"b"), record(2, b"a")]
    twice = Work(b"a", {}, [("published", 0, 0, False), ("duplicate", 0, 2, False)])
    lie = Work(b"b", {}, [("duplicate", 0, 0, False)])
    excused = Work(b"a", {}, [("no answer", -1, -1, False), ("published", 0, 2, False)])
    assert wrong_places([twice, lie, excused], log) == [lie]
    assert repeated([twice, lie, excused], log) == [twice]
