"""An event that waited while its topic changed goes to the partition that its key has by then."""

from __future__ import annotations

import pytest

from headgate.model.keys import partition_for
from headgate.model.publish import Publish, Record, count_of, place_again
from headgate.model.suppression import Reservation, Scope
from support.gateway.fakes import common, route, topic_state
from support.gateway.room import Room


def event(key: bytes | None, partition: int) -> Publish:
    publish = Publish(Record("orders", partition, key, b"1", [], 0), 1, None, 0, None)
    publish.common = common(route=route(topic_state("orders", 5)))
    return publish


@pytest.mark.parametrize("count", [1, 3, 7])
def test_a_key_is_placed_by_the_new_count(count: int) -> None:
    publish = event(b"key", partition_for(b"key", 5))
    assert place_again(publish, topic_state("orders", count))
    assert publish.record.partition == partition_for(b"key", count)
    assert count_of(publish) == count
    assert not place_again(publish, topic_state("orders", count))


def test_an_event_without_a_key_stays_if_it_can() -> None:
    publish = event(None, 4)
    assert place_again(publish, topic_state("orders", 7))
    assert publish.record.partition == 4
    assert place_again(publish, topic_state("orders", 3))
    assert publish.record.partition == 1


def test_a_partition_that_the_client_chose_stays() -> None:
    publish = event(b"key", 4)
    publish.is_client_placed = True
    assert place_again(publish, topic_state("orders", 7))
    assert publish.record.partition == 4


def test_events_that_share_a_reservation_are_placed_one_by_one() -> None:
    scope = Scope("orders", b"\1" * 16, 5, b"f")
    first, second = event(b"a", 0), event(b"b", 0)
    first.reservation = second.reservation = Reservation(scope, 5)
    assert place_again(first, topic_state("orders", 7))
    assert (count_of(first), count_of(second)) == (7, 5)
    assert first.reservation is not second.reservation
    assert first.reserved.scope is scope


def test_what_waited_for_redis_is_placed_by_the_topic_as_it_is_then() -> None:
    room = Room()
    for number in range(20):
        room.post("deals", b'{"id":"%d"}' % number)
    state = room.topics.states["deals"]
    room.topics.states["deals"] = state._replace(topic_id=b"\2" * 16, partitions=2)
    room.run()
    landed = [one.record for log in room.lanes.logs.values() for one in log]
    assert len(landed) == 20
    assert all(one.partition == partition_for(one.key or b"", 2) for one in landed)
