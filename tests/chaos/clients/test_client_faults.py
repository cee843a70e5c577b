"""The Python client's producers against a real gateway while everything around them breaks.

The log must hold every event that the client calls published, at the place that it names; each key
in the order in which it was sent; and no event twice, unless an attempt of it had no known end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from _pytest.mark.structures import ParameterSet

from headgate_client import Published
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
    start_all,
)
from support.clients.judgement import judge, lost, out_of_order, repeated
from support.clients.recording import Seen
from support.clients.senders import KEYS, SHELLS, Stand
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

SCALED, FULL = 1, 15  # rounds
SHOWN: dict[str, tuple[Fault, int, str]] = {  # how many gateways there are, and who sends
    "kill-1-threads": (kill, 1, "threads"),
    "kill-2-loop": (kill, 2, "loop"),
    "drain-2-threads": (drain, 2, "threads"),
    "drain-1-loop": (drain, 1, "loop"),
    "pause_kafka-1-threads": (pause_kafka, 1, "threads"),
    "lose_redis-1-loop": (lose_redis, 1, "loop"),
}
# The others have each fault, one and two gateways, and each way to send.
FULL_ALONE = {"drain-2-threads", "kill-1-threads"}


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
    started = start_all(start_gateway, text, gateways)
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

    stand.on_outcomes(
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
    stand.on_outcomes("t", [Published(topic="t", event_id=events[0].id, partition=0, offset=0)])
    assert lost(stand.history, log(0, 1, 2)) == stand.sent[:1]
