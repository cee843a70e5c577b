"""Backlogs of lanes: counts, order of partition counts, and the backlog of a new event."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.model.keys import partition_for
from headgate.model.publish import Publish, Record
from headgate.spool.backlog import MAX_EVENTS, Backlog, Backlogs, DualWrite, Waiting
from headgate.spool.reading import LaneFigures, Placed


def backlogs() -> Backlogs:
    def no_suppression() -> Any:
        raise AssertionError("no topic has a scope")

    return Backlogs(no_suppression, lambda _topic: None)


def publish(size: int = 10) -> Publish:
    return Publish(Record("orders", 0, b"key", b"1", [], 0), size, None, 0, None)


def test_added_events_share_an_open_chunk_of_their_partition_count() -> None:
    backlog = Backlog("orders", 0, {})
    for partitions in (3, 3, 5):
        backlog.add(publish(), partitions)
    assert [(len(chunk.publishes), chunk.partitions) for chunk in backlog.waiting] == [
        (2, 3),
        (1, 5),
    ]
    assert backlog.counts == backlog.topic_counts == {3: 2, 5: 1}
    assert backlog.is_behind


@pytest.mark.parametrize("reason", ["full", "dual write"])
def test_a_chunk_that_is_full_or_also_with_the_producer_takes_no_event(reason: str) -> None:
    backlog = Backlog("orders", 0, {})
    events = [publish() for _ in range(MAX_EVENTS if reason == "full" else 1)]
    dual_write = DualWrite(events) if reason == "dual write" else None
    backlog.take(Waiting(events, 3, dual_write))
    backlog.add(publish(), 3)
    assert [len(chunk.publishes) for chunk in backlog.waiting] == [len(events), 1]


def test_a_chunk_taken_first_stands_before_the_waiting_events() -> None:
    backlog = Backlog("orders", 0, {})
    backlog.add(publish(), 3)
    returned = Waiting([publish(), publish()], 3)
    backlog.take(returned, first=True)
    assert backlog.waiting[0] is returned
    assert backlog.counts == {3: 3}


def test_events_are_due_after_those_of_earlier_partition_counts_in_all_lanes() -> None:
    topic_counts: dict[int, int] = {}
    first, second = (Backlog("orders", number, topic_counts) for number in (0, 1))
    first.count(3, 1)
    second.count(5, 1)
    assert first.is_due(3)
    assert not second.is_due(5)
    assert second.age_of(5) == 1
    first.count(3, -1)
    assert second.is_due(5)


def test_oldest_time_is_zero_without_events_on_disk() -> None:
    backlog = Backlog("orders", 0, {})
    backlog.stored(2, 100, 1_000)
    backlog.stored(1, 50, 2_000)
    assert (backlog.events, backlog.bytes, backlog.oldest_ms) == (3, 150, 1_000)
    backlog.done(2, 100, 2_000)
    assert backlog.oldest_ms == 2_000
    backlog.done(1, 50, 0)
    assert (backlog.events, backlog.bytes, backlog.oldest_ms) == (0, 0, 0)


def test_next_dual_write_is_the_lowest_chunk_number_on_disk() -> None:
    backlog = Backlog("orders", 0, {})
    assert backlog.next_dual_write() is None
    backlog.dual_writes = [DualWrite([publish()]) for _ in range(3)]
    backlog.dual_writes[1].number, backlog.dual_writes[2].number = 9, 7
    assert backlog.next_dual_write() == 7


def test_restored_lanes_count_partition_counts_in_the_order_of_their_chunks() -> None:
    every = backlogs()
    every.restore([
        LaneFigures("orders", 0, 2, 5, 500, 1_000, {5: Placed(2, 8), 3: Placed(3, 1)}),
        LaneFigures("orders", 1, 1, 1, 100, 2_000, {3: Placed(1, 2)}),
    ])  # fmt: skip
    first = every.of("orders", 0)
    assert (first.left, first.events, first.bytes, first.oldest_ms) == (5, 5, 500, 1_000)
    assert list(first.topic_counts.items()) == [(3, 4), (5, 2)]
    assert every.is_behind("orders")
    assert not every.is_behind("deals")


def test_an_event_of_a_returned_partition_count_goes_behind_the_last_spooled_ones() -> None:
    every = backlogs()
    backlog = every.of("orders", 0)
    assert every.backlog_behind(backlog, b"key", 3) == (backlog, 3)
    backlog.count(3, 1)
    backlog.count(7, 1)
    assert every.backlog_behind(backlog, b"key", 7) == (backlog, 7)
    assert every.backlog_behind(backlog, b"key", 5) == (backlog, 5)
    behind, partitions = every.backlog_behind(backlog, b"key", 3)
    assert (behind.partition, partitions) == (partition_for(b"key", 7), 7)


def test_a_backlog_moved_last_is_iterated_after_all_others() -> None:
    every = backlogs()
    first, second = every.of("orders", 0), every.of("orders", 1)
    every.move_last(first)
    assert list(every) == [second, first]


def test_tidy_removes_empty_backlogs_that_are_not_watched() -> None:
    every = backlogs()
    empty, watched, filled = (every.of("orders", number) for number in range(3))
    watched.is_watched = True
    every.begin("orders")
    filled.add(publish(), 3)
    every.tidy()
    assert list(every) == [watched, filled]
    assert every.get("orders", empty.partition) is None
    assert every.is_behind("orders")


def test_a_lane_waits_if_its_topic_has_spooled_events_of_another_partition_count() -> None:
    every = backlogs()
    own, other = every.of("orders", 0), every.of("orders", 1)
    assert not every.must_wait(own, 3)
    every.begin("orders")
    other.count(3, 1)
    assert not every.must_wait(own, 3)
    assert every.must_wait(own, 5)
    own.add(publish(), 3)
    assert every.must_wait(own, 3)
