"""How far a mirror is behind, from what was seen of both sides; which clusters are mirrored."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka.structs import TopicPartition

from headgate.replays.offset_map import Layout, MapAddress, MapEntry, PartitionMap
from headgate.replays.segments import NO_RECORDS, RETENTION, Gap, Segment
from headgate_spark.copying.cluster import pairs
from headgate_spark.copying.reader import Copied
from headgate_spark.job.command_line import JobError
from headgate_spark.job.exposition import Textfile
from headgate_spark.job.options import read_config
from headgate_spark.mirror.lag import Lag, LagWatch, Totals, textfile
from headgate_spark.mirror.plan import Reason, Skip, Skips

TP = TopicPartition("orders", 3)
PLACE = MapAddress("orders", 3, 1)


def mapped(*facts: Segment | Gap) -> PartitionMap:
    found = PartitionMap()
    for fact in (Layout(4, "a", "b", 0), *facts):
        found.apply(MapEntry(PLACE, fact))
    return found


def test_the_lag_is_as_old_as_the_oldest_offset_that_is_missing() -> None:
    watch, found = LagWatch(), mapped(Segment(0, 0, 10, 10, 0, 0))
    assert watch.lags({TP: 10}, {TP: found}, 100.0, {})[TP] == (0, 0.0, 0)
    assert watch.lags({TP: 15}, {TP: found}, 103.0, {})[TP] == (5, 0.0, 0)
    assert watch.lags({TP: 20}, {TP: found}, 105.0, {})[TP] == (10, 2.0, 0)
    found.apply(MapEntry(PLACE, Segment(10, 11, 5, 15, 0, 0)))
    assert watch.lags({TP: 20}, {TP: found}, 106.0, {})[TP] == (5, 1.0, 0)
    found.apply(MapEntry(PLACE, Segment(15, 17, 5, 20, 0, 0)))
    assert watch.lags({TP: 20}, {TP: found}, 200.0, {})[TP] == (0, 0.0, 0)


def test_what_was_missing_before_it_was_first_looked_at_has_the_age_of_its_record() -> None:
    """As after a restart of the mirror."""
    watch, found = LagWatch(), mapped(Segment(0, 0, 10, 10, 0, 0))
    assert watch.backlog({TP: 10}, {TP: found}, 90.0) == {}
    assert watch.backlog({TP: 15}, {TP: found}, 95.0) == {TP: (10, 15)}
    unknown = watch.lags({TP: 15}, {TP: found}, 100.0, {})[TP]
    assert unknown == (5, None, 0)
    assert "headgate_mirror_lag_seconds{" not in textfile(
        {TP: unknown}, {TP: found}, Totals(), {}, "main", 0.0
    )
    assert watch.unseen(110.0)[TP] == (5, None, 0)
    assert watch.backlog({TP: 20}, {TP: found}, 100.0) == {TP: (10, 20)}  # asked again
    assert watch.lags({TP: 20}, {TP: found}, 105.0, {TP: 300.0})[TP] == (10, 300.0, 0)
    assert watch.backlog({TP: 25}, {TP: found}, 109.0) == {}
    assert watch.lags({TP: 25}, {TP: found}, 110.0, {})[TP] == (15, 305.0, 0)
    assert watch.backlog({TP: 25}, {TP: found}, 111.0) == {TP: (10, 20)}
    # The mirror catches up: the age is that of the record that is now the first one.
    found.apply(MapEntry(PLACE, Segment(10, 11, 5, 15, 0, 0)))
    assert watch.backlog({TP: 25}, {TP: found}, 121.0) == {TP: (15, 20)}
    assert watch.lags({TP: 25}, {TP: found}, 121.0, {TP: 40.0})[TP] == (10, 40.0, 0)
    assert watch.lags({TP: 25}, {TP: found}, 122.0, {})[TP] == (10, 41.0, 0)
    found.apply(MapEntry(PLACE, Segment(15, 16, 5, 20, 0, 0)))
    assert watch.backlog({TP: 25}, {TP: found}, 140.0) == {}
    assert watch.lags({TP: 25}, {TP: found}, 140.0, {})[TP] == (5, 30.0, 0)


def test_what_cannot_be_seen_is_as_old_as_the_last_poll() -> None:
    watch, found = LagWatch(), mapped(Segment(0, 0, 10, 10, 0, 0))
    assert watch.unseen(50.0) == {}
    watch.lags({TP: 10}, {TP: found}, 100.0, {})
    assert watch.unseen(130.0)[TP] == (0, 30.0, 0)
    watch.lags({TP: 12}, {TP: found}, 140.0, {})
    watch.lags({TP: 12}, {TP: found}, 150.0, {})
    assert watch.unseen(151.0)[TP] == watch.unseen(151.0)[TP] == (2, 11.0, 0)
    watch.lags({}, {}, 160.0, {})
    assert watch.unseen(170.0) == {}


def test_what_is_skipped_is_said_when_it_changes_and_now_and_then() -> None:
    said: list[str] = []
    skips, topics = Skips(said.append), ["a", "b"]
    wrong = {"a": Skip(Reason.SETTINGS, "x is 1: set it to 2")}
    for now_s in (0.0, 100.0, 299.0):
        skips.report(wrong, topics, now_s)
    assert said == ["topic a is skipped (settings): x is 1: set it to 2"]
    skips.report(wrong, topics, 300.0)
    skips.report({"a": Skip(Reason.SETTINGS, "y is 1: set it to 2")}, topics, 301.0)
    assert len(said) == 3
    lags = {TP: Lag(4, 0.0, 0)}  # its map cannot be read
    text = textfile(lags, {}, Totals(), skips.now, "main", 0.0)
    assert 'headgate_mirror_topic_skipped{topic="a",reason="settings"} 1' in text.splitlines()
    skips.report({}, topics, 302.0)
    assert said[3:] == ["topic a can be mirrored again"]
    skips.report({"b": Skip(Reason.MAP, "it contradicts itself")}, topics, 303.0)
    skips.report({}, ["a"], 304.0)  # deleted
    assert said[4:] == ["topic b is skipped (map): it contradicts itself"]


def test_lost_offsets_are_those_of_gaps_with_a_reason_to_worry() -> None:
    found = mapped(Gap(0, 4, NO_RECORDS, 1), Gap(4, 9, RETENTION, 1), Segment(9, 0, 1, 10, 0, 0))
    lags = LagWatch().lags({TP: 10}, {TP: found}, 0.0, {})
    assert lags[TP].lost == 5
    totals = Totals()
    totals.add([Copied("orders", 3, 7, 900, 2, 10, 5, None)] * 2)
    text = textfile(lags, {TP: found}, totals, {}, "main", 1_700_000_000.25)
    labels = '{topic="orders",partition="3"}'
    for line in (
        f"headgate_mirror_lag_records{labels} 0",
        f"headgate_mirror_gaps_total{labels} 1",
        f"headgate_mirror_lost_offsets_total{labels} 5",
        f"headgate_mirror_records_total{labels} 14",
        f"headgate_mirror_read_bytes_total{labels} 1800",
        'headgate_mirror_timestamp_seconds{cluster="main"} 1700000000.250',
    ):
        assert line in text.splitlines()


def test_a_name_with_a_quote_in_it_is_one_label() -> None:
    text = textfile({}, {}, Totals(), {}, 'a"b\\c', 0.0)
    assert 'headgate_mirror_timestamp_seconds{cluster="a\\"b\\\\c"} 0.000' in text.splitlines()


def test_the_textfile_is_replaced_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mirror.prom"
    file = Textfile(path, pytest.fail)
    for text in ("one\n", "two\n"):
        file.write(text)
        assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_textfile_that_cannot_be_written_is_reported_once_and_when_it_is_again(
    tmp_path: Path,
) -> None:
    path, said = tmp_path / "mirror.prom", list[str]()
    path.mkdir()
    file = Textfile(path, said.append)
    for _ in range(3):
        file.write("one\n")
    assert len(said) == 1
    assert f"--metrics {path} cannot be written" in said[0]
    assert list(tmp_path.iterdir()) == [path]  # nothing that a disk is full of is left
    path.rmdir()
    for _ in range(3):
        file.write("two\n")
    assert said[1:] == [f"--metrics {path} is written again"]
    assert path.read_text() == "two\n"


SEVERAL = """
[clusters.sales]
bootstrap_servers = ["127.0.0.1:1"]
backfill = "sales-history"
[clusters.sales-history]
bootstrap_servers = ["127.0.0.1:2"]
tier = "backfill"
[clusters.logs]
bootstrap_servers = ["127.0.0.1:3"]
[clusters.stock]
bootstrap_servers = ["127.0.0.1:4"]
backfill = "stock-history"
compression = "none"
sasl_mechanism = "SCRAM-SHA-512"
security_protocol = "SASL_PLAINTEXT"
sasl_username = "mirror"
sasl_password = "secret"
[clusters.stock-history]
bootstrap_servers = ["127.0.0.1:5", "127.0.0.1:6"]
tier = "backfill"
"""


def test_each_ingest_cluster_has_a_backfill_tier_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(SEVERAL)
    config = read_config(file, {"HEADGATE_CLUSTERS__STOCK__SASL_PASSWORD": "better"})
    found = pairs(config, None)
    assert [(one.name, other.name) for one, other in found] == [
        ("sales", "sales-history"),
        ("stock", "stock-history"),
    ]
    assert [one.name for one, _ in pairs(config, "stock")] == ["stock"]
    stock, history = (one.connection for one in found[1])
    assert (stock.sasl_mechanism, stock.sasl_username) == ("SCRAM-SHA-512", "mirror")
    assert stock.sasl_password == "better"
    assert "better" not in repr(stock)
    assert (stock.compression, history.compression) == ("none", "zstd")
    assert history.bootstrap_servers == "127.0.0.1:5,127.0.0.1:6"
    with pytest.raises(JobError, match=r"clusters\.logs\.backfill is not set"):
        pairs(config, "logs")
