"""What is shown of replays and maps, whatever the records say."""

from __future__ import annotations

import pytest

from headgate.replays.offset_map import Layout, MapAddress, MapEntry, PartitionMap
from headgate.replays.offsets import coverage_page
from headgate.replays.plan import Logs
from headgate.replays.planner import ReplayedTopic, TierNow
from headgate.replays.registry import Replay
from headgate.replays.segments import Segment, SegmentTable
from headgate.replays.service import replay_page
from headgate.replays.spec import moment

MICROSECONDS = 1_767_225_600_000_000  # what a producer that mistakes the unit writes


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (MICROSECONDS, "9999-12-31T23:59:59.999Z"),
        (2**63 - 1, "9999-12-31T23:59:59.999Z"),
        (-(2**63), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_a_time_beyond_the_calendar_is_its_end(ms: int | None, shown: str | None) -> None:
    assert moment(ms) == shown


def test_records_with_impossible_times_do_not_hide_what_is_there() -> None:
    table = SegmentTable()
    table.add(Segment(0, 0, 5, 5, 1_767_225_600_000, MICROSECONDS))
    page = coverage_page(table, PartitionMap(), Logs(0, 5, 0))
    assert page["times"] == {
        "from": "2026-01-01T00:00:00.000Z", "to": "9999-12-31T23:59:59.999Z",
    }  # fmt: skip
    status = {"state": "copying", "event_time_ms": MICROSECONDS}
    shown = replay_page(Replay("x", {"asked": {}}, status), "servers", {})
    assert shown["done"]["event_time"] == "9999-12-31T23:59:59.999Z"


def seen(source_id: str, opened_ms: int) -> ReplayedTopic:
    found = PartitionMap()
    found.apply(MapEntry(MapAddress("orders", 0, 1), Layout(1, source_id, "t", opened_ms)))
    return ReplayedTopic("orders", TierNow(source_id, 1, {}), TierNow("t", 1, {}), {0: found})


@pytest.mark.parametrize(
    ("snapshot", "is_of_it"),
    [
        ({"topic_ids": {"orders": "a"}, "at_ms": 50}, True),
        ({"topic_ids": {"orders": "b"}, "at_ms": 500}, False),
        ({"at_ms": 500}, True),  # of an earlier release; the mirror knew this topic by then
        ({"at_ms": 50}, False),
        ({"topic_ids": {"deals": "a"}}, False),
    ],
)
def test_a_snapshot_counts_for_the_topic_that_it_is_of(
    snapshot: dict[str, object], is_of_it: bool
) -> None:
    assert (seen("a", 100).older_topic(snapshot) is None) == is_of_it
