"""Whatever fails while a batch is filled, no record is lost from its lane, and none overtakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headgate.kafka import lane as lane_module
from headgate.kafka.lane import Lane, ProducingCluster
from headgate.kafka.options import LaneLimits
from headgate.kafka.producer import Producer
from headgate.model.outcome import Failure
from headgate.model.oversize import Large
from headgate.model.publish import Publish, Record, Stage
from headgate.model.topics import TopicState

# Compiled, a lane takes nothing but a real producer; what is tested is the same source.
pytestmark = pytest.mark.skipif(
    not lane_module.__file__.endswith(".py"), reason="compiled: a lane takes only a real producer"
)


class Builder:
    """Takes records until one makes it fail."""

    def __init__(self, error: BaseException, at: int) -> None:
        self._error, self._at, self.count = error, at, 0

    def append(self, record: Record) -> bool:
        if self.count == self._at:
            raise self._error
        self.count += 1
        return True


class Room:
    """A lane with five records, a producer that fails, and what the lane reports."""

    def __init__(self, error: BaseException, at: int) -> None:
        self.ended: list[tuple[Publish, Failure]] = []
        cluster = SimpleNamespace(limits=LaneLimits())
        state = TopicState("t", "main", bytes(16), 1)
        self.lane = Lane(state, 0, cast(ProducingCluster, cluster), cast(Any, self))
        self.publishes = [
            Publish(Record("t", 0, b"k", b"%d" % number, [], 0), 100, None, number, "id")
            for number in range(5)
        ]
        for publish in self.publishes:
            publish.advance(Stage.LANE)
            self.lane._queue.append(publish)
            self.lane.bytes += publish.size
        self.builder = Builder(error, at)

    def create_batch(self) -> Builder:
        return self.builder

    def failed(self, batch: list[Publish], failure: Failure) -> None:
        self.ended += [(publish, failure) for publish in batch]

    def fill(self) -> object:
        return self.lane._fill(cast(Producer, self))


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), RuntimeError("a bug")])
@pytest.mark.parametrize("at", [0, 3])
def test_what_is_no_records_fault_leaves_all_where_they_were(error: BaseException, at: int) -> None:
    room = Room(error, at)
    with pytest.raises(type(error)):
        room.fill()
    assert list(room.lane._queue) == room.publishes
    assert {publish.stage for publish in room.publishes} == {Stage.LANE}
    assert room.lane.bytes == 500
    assert room.ended == []


@pytest.mark.parametrize("error", [OverflowError(), ValueError(), TypeError()])
def test_a_record_that_cannot_be_encoded_ends_alone(error: BaseException) -> None:
    room = Room(error, 2)
    assert room.fill() is None
    assert [publish for publish, _ in room.ended] == [room.publishes[2]]
    assert list(room.lane._queue) == [*room.publishes[:2], *room.publishes[3:]]
    assert room.lane.bytes == 400


def test_a_batch_that_was_built_beforehand_stays_too() -> None:
    room = Room(MemoryError(), 0)

    class Compressed:
        size = 100

        def builder(self) -> object:
            raise MemoryError

    room.publishes[0].large = Large(batch=Compressed())
    with pytest.raises(MemoryError):
        room.fill()
    assert list(room.lane._queue) == room.publishes
