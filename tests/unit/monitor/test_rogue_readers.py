"""Rogue readers: what leaves the brokers beside what groups explain, over scripted histories."""

from __future__ import annotations

import pytest

from headgate.kafka.groups import CommittedOffset, Described, GroupMember, Partition
from headgate.monitor.rogue_readers import RogueReaders, TopicTotals, read_totals

PLACE = Partition("orders", 0)
RECORD = 500  # bytes


class Brokers:
    """One topic on two brokers, a group on it, and whoever else reads."""

    def __init__(self, *, is_mirrored: bool = False) -> None:
        self.readers = RogueReaders(100_000, is_mirrored=is_mirrored)
        self.now_ms = 0
        self.written = self.read = 0
        self.offset = 0
        self.new: dict[
            Partition, CommittedOffset
        ] = {}  # what a group that has just come has committed
        self.new_group: Described | None = None

    def poll(self, *, written: int, by_group: int, by_others: int, times: int = 1) -> bool:
        """Ten seconds each, so many records in each of them; whether somebody is rogue then."""
        for _ in range(times):
            self.now_ms += 10_000
            self.written += written
            self.read += by_group + by_others
            self.offset += by_group
            half = TopicTotals(self.written * RECORD / 2, self.read * RECORD / 2, self.written / 2)
            internal = {"__consumer_offsets": TopicTotals(0, self.now_ms * 1e6, 0)}
            brokers = {"b1": {"orders": half} | internal, "b2": {"orders": half}}
            stored = {"billing": {PLACE: CommittedOffset(self.offset)}, "new": self.new}
            self.readers.polled(self.now_ms, brokers, stored, {"new": self.new_group})
        return bool(self.readers.rogues())


def test_a_group_that_commits_explains_what_it_reads() -> None:
    brokers = Brokers()
    assert not brokers.poll(written=10_000, by_group=10_000, by_others=0, times=50)
    assert brokers.readers.unexplained == {"orders": 0}


def test_a_reader_without_a_group_is_found_and_is_gone_again() -> None:
    brokers = Brokers()
    brokers.poll(written=10_000, by_group=10_000, by_others=0, times=10)
    for _ in range(3):
        brokers.poll(written=10_000, by_group=10_000, by_others=0)
    assert brokers.poll(written=10_000, by_group=10_000, by_others=20_000, times=6)
    (rogue,) = brokers.readers.rogues()
    assert rogue.topic == "orders"
    assert rogue.bytes_per_s == pytest.approx(1_500_000)
    assert rogue.unexplained_per_s == pytest.approx(750_000)
    assert 140_000 <= rogue.since_ms <= 190_000
    assert not brokers.poll(written=10_000, by_group=10_000, by_others=0, times=6)


def test_commits_that_come_in_lumps_are_no_rogue() -> None:
    brokers = Brokers()
    brokers.poll(written=10_000, by_group=10_000, by_others=0, times=10)
    found = []
    for number in range(30):  # a commit every half minute, for what was read before it
        late = 20_000 if number % 3 == 2 else -10_000
        brokers.offset += late
        found.append(brokers.poll(written=10_000, by_group=10_000, by_others=0))
    assert not any(found)


def test_a_mirror_reads_every_record_once() -> None:
    assert Brokers().poll(written=10_000, by_group=0, by_others=10_000, times=8)
    mirrored = Brokers(is_mirrored=True)
    assert not mirrored.poll(written=10_000, by_group=0, by_others=10_000, times=8)
    assert mirrored.poll(written=10_000, by_group=0, by_others=30_000, times=8)


def test_a_broker_that_restarts_is_no_rogue() -> None:
    brokers = Brokers()
    brokers.poll(written=10_000, by_group=10_000, by_others=0, times=10)
    brokers.written = brokers.read = 0
    assert not brokers.poll(written=10_000, by_group=10_000, by_others=0, times=10)


def test_without_new_records_a_group_explains_what_cannot_be_measured() -> None:
    brokers = Brokers()
    assert not brokers.poll(written=0, by_group=10_000, by_others=0, times=10)
    assert brokers.poll(written=0, by_group=0, by_others=10_000, times=7)


PAGE = """# HELP kafka_server_brokertopicmetrics_bytesin_total x
# TYPE kafka_server_brokertopicmetrics_bytesin_total counter
kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 1.5E3
kafka_server_brokertopicmetrics_bytesin_total{topic="deals",} 7.0
kafka_server_brokertopicmetrics_bytesout_total{env="x",topic="orders",} 20
kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 3.0
kafka_server_brokertopicmetrics_bytesout_total 99
kafka_server_brokertopicmetrics_replicationbytesout_total 5
"""


def test_an_exporters_page() -> None:
    assert read_totals(PAGE) == {"orders": TopicTotals(1500, 20, 3), "deals": TopicTotals(7, 0, 0)}
    assert read_totals("") == {}


def test_a_new_group_that_catches_up_is_none_before_its_first_commits() -> None:
    """It reads for minutes what lies there, and commits later; then it explains what it reads."""
    brokers = Brokers()
    brokers.poll(written=10_000, by_group=10_000, by_others=0, times=10)
    member = GroupMember("m", "new-app", "/10.0.0.1", frozenset([PLACE]))
    brokers.new_group = Described("classic", "Stable", (member,))
    found = [brokers.poll(written=10_000, by_group=10_000, by_others=90_000) for _ in range(12)]
    for number in range(20):
        brokers.new = {PLACE: CommittedOffset(1_000_000 + 90_000 * number)}
        found.append(brokers.poll(written=10_000, by_group=10_000, by_others=90_000))
    assert not any(found)
    brokers.new_group = None
    assert brokers.poll(written=10_000, by_group=10_000, by_others=90_000, times=8), "now it is one"
