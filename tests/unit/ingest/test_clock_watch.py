"""Times that the gateway gave and Kafka refuses are the gateway's fault, and it notices the end."""

import logging

import pytest

from headgate.ingest.complete import ClockWatch
from headgate.metrics.health import Dependency, Readiness
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Record
from support.gateway.fakes import NOW_MS, topic_state
from support.gateway.room import Room, shown

KAFKA = Dependency("kafka main", True, True, "connected", is_cluster=True)
REFUSED = Failure(Reason.TIMESTAMP_OUT_OF_RANGE, "Kafka refused the record's timestamp")


class World(Room):
    """A room with a watch and a clock of its own."""

    def __init__(self, **changes: object) -> None:
        super().__init__(**changes)
        self.now_s = 1000.0
        self.clock = ClockWatch(self.topics.get, lambda: self.now_s)
        self.build(clock=self.clock)

    def refuse(self) -> None:
        """Kafka refuses everything under way."""
        while self.suppression.queue:
            self.suppression.decide()
        for partition in list(self.lanes.queues):
            self.lanes.hand_over(partition, 100)
            self.lanes.fail(partition, REFUSED)


@pytest.mark.parametrize("topic", ["orders", "deals", "clicks"])
def test_a_time_of_ours_is_our_fault(topic: str) -> None:
    world = World()
    ticket = world.post(topic, b'{"id":1}')
    world.refuse()
    status, document = shown(ticket)
    assert (status, document["reason"], document["retryable"]) == (503, "clock_wrong", True)
    (clock,) = world.clock.dependencies()
    assert not Readiness(False, (KAFKA, clock)).is_ready
    world.post(topic, b'{"id":2}')
    world.run()
    assert not world.clock.dependencies(), "it was right again"
    assert not world.clock.suspects


def test_a_time_of_the_client_is_not() -> None:
    world = World()
    ours, theirs = (world.post("clicks", b"{}", content_type=b"text/plain") for _ in range(2))
    (publish,) = theirs.publishes
    was = publish.record
    own_ms = was.timestamp_ms + 60_000  # as on a topic with timestamp = "event"
    publish.record = Record(was.topic, was.partition, was.key, was.value, was.headers, own_ms)
    world.refuse()
    assert shown(theirs)[1]["reason"] == "timestamp_out_of_range"
    assert shown(ours)[1]["reason"] == "clock_wrong"


def test_it_is_tried_again_without_an_answer() -> None:
    world = World()
    world.post("orders", b'{"id":1}')
    world.refuse()
    world.now_s += 59
    assert world.clock.dependencies()
    world.now_s += 1
    assert not world.clock.dependencies()


def test_a_topic_that_allows_for_little_says_nothing_about_the_others() -> None:
    world = World(timestamp_after_max_ms=1000)
    ticket = world.post("orders", b'{"id":1}')
    world.refuse()
    assert shown(ticket)[1]["reason"] == "clock_wrong"
    assert not world.clock.dependencies()


def test_one_line_says_both_times(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.INFO, "headgate"):
        for _ in range(5):
            world.post("orders", b'{"id":1}')
            world.refuse()
        (line,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
        told = line.getMessage()
        assert "2023-11-14T22:13:20.000Z" in told
        assert "before 2023-11-14T21:13:20.000Z" in told
        world.now_s += 60
        world.post("orders", b'{"id":1}')
        world.refuse()
        assert "5 records refused" in caplog.records[-1].getMessage()


def test_bounds_beyond_all_times_are_told(caplog: pytest.LogCaptureFixture) -> None:
    endless = 9_223_372_036_854_775_807
    watch = ClockWatch(lambda _: topic_state(timestamp_after_max_ms=endless), lambda: 0.0)
    watch.refused("orders", endless, 1)
    assert "another time" in caplog.text
    ClockWatch(lambda _: None, lambda: 0.0).refused("orders", NOW_MS, 1)


def test_readiness() -> None:
    clock = Dependency("clock", False, True, "wrong", vital=True)
    assert Readiness(False, (KAFKA,)).is_ready
    assert not Readiness(False, (KAFKA, clock)).is_ready
    assert Readiness(False, (KAFKA, clock._replace(ok=True))).is_ready
