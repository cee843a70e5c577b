"""The JavaScript client's producer, in Node, against a real gateway while everything breaks.

What breaks and how the log is judged is that of the Python client, beside this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from support.clients.faults import (
    BETWEEN,
    CONFIG,
    Fault,
    World,
    break_in_turn,
    drain,
    kill,
    kill_kafka,
    lose_redis,
    pause_kafka,
    start_all,
)
from support.clients.js_sender import JsSender
from support.clients.judgement import History, judge
from support.clients.node import NodeProgram, needs_node
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = needs_node


class Place(NamedTuple):
    """Where it is sent to."""

    kafka: RunningBroker
    redis: RunningRedis
    start_gateway: Callable[..., Gateway]
    topic: str


@pytest.fixture
def place(
    pausable: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> Place:
    return Place(pausable, start_redis(), start_gateway, topic_name)


def test_nothing_is_lost_and_each_key_keeps_its_order(place: Place) -> None:
    send_while_breaking(place, [drain, pause_kafka, lose_redis, kill], gateways=2)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("fault", "gateways"),
    [(kill, 1), (kill, 2), (drain, 1), (drain, 2), (pause_kafka, 1), (lose_redis, 1)],
)
def test_nothing_is_lost_however_often_it_breaks(place: Place, fault: Fault, gateways: int) -> None:
    history, log = send_while_breaking(place, [fault] * 6, gateways)
    if fault is drain:  # who drains knows how everything ended
        assert len(log) == len(history.sent)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_nothing_is_lost_when_a_broker_dies(
    start_broker: Callable[..., RunningBroker], place: Place
) -> None:
    send_while_breaking(place._replace(kafka=start_broker()), [kill_kafka] * 3, gateways=1)


def send_while_breaking(
    place: Place, faults: Sequence[Fault], gateways: int
) -> tuple[History, list[LogRecord]]:
    """Send while one thing after the other breaks; judge the log."""
    kafka, redis, start_gateway, topic = place
    kafka.create_topic(topic, 3)
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url, topic=topic)
    started = start_all(start_gateway, text, gateways)
    options = {"urls": [one.url for one in started], "topic": topic}
    with NodeProgram("load.mjs", options) as program:
        sender = JsSender(program)
        break_in_turn(World(sender, started, kafka, redis), faults)
        history = sender.stop()
    log = read_log(kafka.bootstrap, topic)
    assert len(history.sent) > BETWEEN * len(faults)
    judge(history, log)
    return history, log
