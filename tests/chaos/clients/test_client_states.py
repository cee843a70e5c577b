"""States that both clients send to a real gateway, with `overtaken` = "leave_out", while it breaks.

The newest state of each key must be the last of it in the log, also where a gateway has forgotten
what it was sent; and what is not there was overtaken. Lanes have room for little: they refuse, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from headgate_client import Published, Rejected
from support.clients.faults import (
    DEADLINE_S,
    GATEWAY,
    Fault,
    World,
    break_in_turn,
    drain,
    forget,
    kill,
    pause_kafka,
    start_all,
)
from support.clients.js_sender import JsSender
from support.clients.judgement import History, judge_states, left_out_wrongly, not_newest
from support.clients.node import NodeProgram, needs_node
from support.clients.senders import KEYS, PATIENT, SHELLS, Stand
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis

CONFIG = f"""
{GATEWAY}
[topics."{{topic}}"]
kind = "state"
suppress = "raw"
key = ["/id"]
"""
SMALL_LANES = {"HEADGATE_CLUSTERS__MAIN__LANE_MAX_BYTES": "65536"}
LARGEST = 12_000  # bytes of an event's text
LEAVE_OUT = replace(PATIENT, overtaken="leave_out")
FAULTS = (pause_kafka, kill, forget, drain)


class Place:
    """Two gateways, and what is behind them."""

    def __init__(
        self,
        kafka: RunningBroker,
        redis: RunningRedis,
        start_gateway: Callable[..., Gateway],
        topic: str,
    ) -> None:
        self.kafka, self.redis, self.topic = kafka, redis, topic
        kafka.create_topic(topic, 3)
        text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url, topic=topic)
        self.gateways = start_all(start_gateway, text, 2, **SMALL_LANES)

    @property
    def urls(self) -> list[str]:
        return [one.url for one in self.gateways]

    def judge(self, history: History, who: str) -> None:
        log = read_log(self.kafka.bootstrap, self.topic)
        names = [one.reason or one.name for ends in history.ends.values() for one in ends]
        figures = f"{len(history.sent)} states, {names.count('overtaken')} overtaken"
        sys.stderr.write(f"CLIENT_STATES {who}: {figures}, {len(log)} records\n")
        judge_states(history, log)


@pytest.fixture
def place(
    pausable: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> Place:
    return Place(pausable, start_redis(), start_gateway, topic_name)


def send_from_python(place: Place, faults: Sequence[Fault], shell: str) -> None:
    stand = Stand(place.urls, place.topic, LEAVE_OUT, LARGEST)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(SHELLS[shell], stand)
        try:
            break_in_turn(World(stand, place.gateways, place.kafka, place.redis), faults)
        finally:
            stand.stop.set()
        assert running.result(DEADLINE_S * 2)
    place.judge(stand.history, shell)


def send_from_js(place: Place, faults: Sequence[Fault]) -> None:
    retry = {"overtaken": "leave_out"}
    options = {"urls": place.urls, "topic": place.topic, "retry": retry, "largest": LARGEST}
    with NodeProgram("load.mjs", options) as program:
        sender = JsSender(program)
        break_in_turn(World(sender, place.gateways, place.kafka, place.redis), faults)
        history = sender.stop()
    place.judge(history, "JavaScript")


@pytest.mark.kafka
@pytest.mark.redis
def test_the_newest_state_is_the_last(place: Place) -> None:
    send_from_python(place, FAULTS, "threads")


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shell", SHELLS)
def test_the_newest_state_is_the_last_however_often_it_breaks(place: Place, shell: str) -> None:
    send_from_python(place, FAULTS * 6, shell)


@pytest.mark.full
@needs_node
def test_the_newest_state_is_the_last_from_node(place: Place) -> None:
    send_from_js(place, FAULTS)


@needs_node
@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_newest_state_is_the_last_from_node_however_often_it_breaks(place: Place) -> None:
    send_from_js(place, FAULTS * 6)


def test_the_checkers_see_what_is_wrong() -> None:
    stand = Stand([], "t")
    events = [stand.new(0, number) for number in (0, KEYS, 2 * KEYS)]

    def log(*places: int) -> list[LogRecord]:
        return [
            LogRecord(0, offset, stand.sent[at].key.encode(), stand.sent[at].value, [], 0)
            for offset, at in enumerate(places)
        ]

    stand.on_outcomes(
        "t",
        [
            Published(topic="t", event_id=events[0].id, partition=0, offset=0),
            Rejected(
                topic="t", event_id=events[1].id, reason="overtaken", detail="", retryable=True
            ),
            Published(topic="t", event_id=events[2].id, partition=0, offset=1),
        ],
    )
    judge_states(stand.history, log(0, 2))
    assert not_newest(stand.history, log(0, 2, 1)) == [stand.sent[0].key]
    assert left_out_wrongly(stand.history, log(0)) == stand.sent[1:]
    stand.on_outcomes("t", [Published(topic="t", event_id=events[2].id, partition=0, offset=1)])
    assert left_out_wrongly(stand.history, log(0, 2)) == stand.sent[1:]
