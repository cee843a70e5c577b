"""The faults that the memory log offers to other tests do what they say."""

from __future__ import annotations

import asyncio

from headgate.model.outcome import Failure, Reason
from headgate.model.topics import TopicState
from support.doubles.kafka_log import MemoryLanes, MemoryTopics
from support.kafka.lane_history import History
from support.process.stack import eventually

STATE = TopicState("t", "main", b"1" * 16, 2)


def make() -> tuple[MemoryTopics, MemoryLanes, History]:
    topics, history = MemoryTopics([STATE]), History()
    return topics, MemoryLanes(topics, history), history


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_paused_log_takes_nothing_until_resumed() -> None:
    _, lanes, history = make()
    lanes.is_paused = True
    lanes.put(history.publish("t", 0))
    await turns()
    assert not history.handed
    lanes.resume()
    await eventually(history.all_ended)
    assert list(history.offsets.values()) == [0]


async def test_silent_log_hands_over_and_acknowledges_later() -> None:
    _, lanes, history = make()
    lanes.is_silent = True
    first, second = history.publish("t", 0), history.publish("t", 0)
    lanes.put(first)
    await turns()
    lanes.put(second)
    await turns()
    assert set(history.handed) == {first}
    assert not history.offsets
    lanes.resume()
    await eventually(history.all_ended)
    assert (history.offsets[first], history.offsets[second]) == (0, 1)


async def test_next_failure_ends_one_batch() -> None:
    _, lanes, history = make()
    lanes.next_failure = Failure(Reason.UNKNOWN, "lost")
    lanes.put(history.publish("t", 0))
    await eventually(history.all_ended)
    lanes.put(history.publish("t", 0))
    await eventually(history.all_ended)
    assert history.reasons() == {Reason.UNKNOWN: 1}
    assert list(history.offsets.values()) == [0]


async def test_silent_log_ends_unknown_at_the_drain_deadline() -> None:
    _, lanes, history = make()
    lanes.is_silent = True
    handed, queued = history.publish("t", 0), history.publish("t", 0)
    lanes.put(handed)
    await turns()
    lanes.put(queued)
    await lanes.drain(0.05)
    assert history.failures[handed].reason is Reason.UNKNOWN
    assert history.failures[queued].reason is Reason.KAFKA_UNAVAILABLE


async def test_deleted_topic_ends_its_records_and_starts_over() -> None:
    topics, lanes, history = make()
    changes = []
    topics.on_change(lambda old, new: changes.append((old, new)))
    lanes.put(history.publish("t", 0))
    topics.change("t", None)
    assert history.reasons() == {Reason.UNKNOWN_TOPIC: 1}
    again = STATE._replace(topic_id=b"2" * 16)
    topics.change("t", again)
    lanes.put(history.publish("t", 0))
    await eventually(history.all_ended)
    assert list(history.offsets.values()) == [0]
    assert changes == [(STATE, None), (None, again)]
