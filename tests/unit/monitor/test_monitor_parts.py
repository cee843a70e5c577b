"""The monitor's parts beside its rules: probation over a restart, pauses, the table, figures."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headgate.kafka import group_reader as commit_stream
from headgate.kafka.group_reader import Found, GroupPoll, GroupReader
from headgate.kafka.groups import (
    CommitRecord,
    CommittedOffset,
    Described,
    Partition,
    TopicSeen,
    read_record,
)
from headgate.kafka.options import ClusterOptions
from headgate.metrics.catalogue import METRICS
from headgate.monitor.cluster_monitor import ClusterMonitor, ScrapeError, Status, scrape
from headgate.monitor.cluster_watch import ClusterWatch, WatchOptions
from headgate.monitor.group_watch import Regression
from headgate.monitor.monitor import GroupOwners, read_probation, snapshot, write_probation
from headgate.monitor.rules import LogEnds, Probation
from headgate.monitor.views import partition
from headgate.redis.pauses import ALL, Intent, Kept, PauseScope
from headgate.top.readings import group_lines
from support.scenarios.group_world import GROUP, SOUND, START_MS, TOPIC, World
from support.scenarios.monitored import monitor_of

EMPTY = Described("classic", "Empty")
PLACE = Partition(TOPIC, 0)


def test_probation_outlives_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "monitor.json"
    assert read_probation(file) == {}
    watch = ClusterWatch(WatchOptions(), {"old": Probation(1, 2, 3)})
    watch.groups_seen(dict.fromkeys(("old", "new"), EMPTY), 9)
    write_probation(file, [("main", watch)])
    known = read_probation(file)
    assert known == {"main": {"old": Probation(1, 2, 3), "new": Probation(9, None, None)}}
    again = ClusterWatch(WatchOptions(), known["main"])
    again.groups_seen(dict.fromkeys(("old", "new"), EMPTY), 99)
    assert again.groups["old"].probation.admitted_ms == 3
    assert again.groups["new"].probation.first_seen_ms == 9


@pytest.mark.parametrize("text", ["", "{", "[]", '{"main": 1}', '{"main": {"g": 1}}'])
def test_a_broken_file_is_set_aside(tmp_path: Path, text: str) -> None:
    file = tmp_path / "monitor.json"
    file.write_text(text)
    assert read_probation(file) == {}
    assert (tmp_path / "monitor.json.broken").read_text() == text


def test_what_is_no_file_is_set_aside_as_far_as_the_disk_lets(tmp_path: Path) -> None:
    place = tmp_path / "monitor.json"
    place.mkdir()
    (tmp_path / "monitor.json.broken").write_text("an earlier one")
    assert read_probation(place) == {}


def test_a_file_that_cannot_be_written_is_no_end(tmp_path: Path) -> None:
    write_probation(tmp_path / "nowhere" / "monitor.json", [])


def committing(world: World, count: int) -> None:
    def step() -> None:
        world.produce(10)
        world.keep_up()

    world.polls(count, step)


@pytest.mark.parametrize(
    ("scope", "paused", "read"),
    [
        (ALL, True, True),
        (PauseScope(TOPIC), True, True),
        (PauseScope(TOPIC, 0), True, True),
        (PauseScope(TOPIC, 1), False, False),
        (PauseScope("other"), False, False),
    ],
)
def test_who_goes_on_reading_while_paused_is_named(
    scope: PauseScope, paused: bool, read: bool
) -> None:
    world = World()
    world.member("a", 0)
    committing(world, 3)
    kept = [Kept(Intent(scope, "deploy"), "till", world.now_ms)]
    world.commit(world.ends[0] + 1)  # what was handed out before is still committed
    world.poll()
    assert partition(world.partition(), kept)["read_while_paused"] is False
    committing(world, 5)
    found = partition(world.partition(), kept)
    assert (found["paused"], found["read_while_paused"]) == (paused, read)


async def test_the_table_says_what_is_wrong_first() -> None:
    world = World()
    world.member("c1", 0)
    world.produce(7)
    world.commit(4)
    world.poll()
    world.member("c2", 0)
    world.poll()
    world.commit(7)
    world.poll()
    world.commit(5, by="c1")
    world.poll()
    text = "\n".join(group_lines(monitor_of(world).groups(), "12:00:00"))
    assert "REWIND" in text
    assert "stuck commit" in text
    assert f"{GROUP} {TOPIC}-0 7 -> 5 (c1-app; not recovered)" in text


async def test_the_table_says_why_commits_are_not_seen() -> None:
    world = World()
    world.poll()
    monitor = monitor_of(world)
    for cluster in monitor.clusters:
        cluster._note_stream("a single poll reads no commits")
    page = monitor.groups()
    page["clusters"][0]["ok"] = True  # as after a poll
    text = "\n".join(group_lines(page, "12:00:00"))
    assert "cluster main: a single poll reads no commits" in text


@pytest.mark.parametrize("url", ["http://ann:hush@127.0.0.1:1/?key=hush", "http://hush@:x/"])
async def test_an_exporter_that_is_away_is_named_without_its_secrets(url: str) -> None:
    with pytest.raises(ScrapeError) as caught:
        await scrape([url])
    assert str(caught.value).startswith("http://")
    assert "hush" not in str(caught.value)


async def test_figures_have_a_bounded_number_of_labels() -> None:
    world = World(partitions=6)
    for number in range(6):
        world.produce(5, number)
        world.commit(0, number)
    world.poll()
    found = snapshot(monitor_of(world).clusters, world.now_ms, GroupOwners(()), max_partitions=4)
    lags = found.gauges["headgate_group_lag"]
    assert len(lags) == 5
    assert sum(lags.values()) == 30
    assert lags["main", "other", "other", ""] == 10


async def test_a_group_on_two_clusters_has_figures_of_each() -> None:
    first, second = World(), World()
    for world, end in ((first, 5), (second, 7)):
        world.produce(end)
        world.commit(0)
        world.poll()
    clusters = [*monitor_of(first).clusters, *monitor_of(second).clusters]
    clusters[1].name = "second"
    found = snapshot(clusters, first.now_ms, GroupOwners([("*", "team")]))
    lags = found.gauges["headgate_group_lag"]
    assert lags == {("main", GROUP, TOPIC, "0"): 5, ("second", GROUP, TOPIC, "0"): 7}
    for name, metric in METRICS.items():
        if name.startswith("headgate_group_") or "group" in metric.labels:
            assert metric.labels[:2] == ("cluster", "group")
    groups = [table for name, table in found.gauges.items() if name.startswith("headgate_group_")]
    assert len(groups) > 6
    for table in groups:
        assert {labels[0] for labels in table} == {"main", "second"}


@pytest.mark.parametrize(
    ("owners", "owner"),
    [
        ([("*", "platform")], "platform"),
        ([(GROUP, "team"), ("*", "platform")], "team"),
        ([("*", "platform"), (GROUP, "team")], "platform"),
        ([("other", "team"), (f"{GROUP}-?", "team")], None),
        ([], None),
    ],
)
async def test_the_first_entry_that_matches_names_the_owner(
    owners: list[tuple[str, str]], owner: str | None
) -> None:
    world = World()
    world.produce(5)
    world.commit(0)
    world.poll()
    found = snapshot(monitor_of(world).clusters, world.now_ms, GroupOwners(owners))
    expected = {} if owner is None else {("main", GROUP, owner): 1}
    assert found.gauges.get("headgate_group_owner", {}) == expected


async def test_a_group_on_no_cluster_is_none() -> None:
    world = World()
    world.poll()
    assert await monitor_of(world).group("nobody") is None
    page: Any = await monitor_of(world).group(GROUP)
    assert page["on"][0]["pauses"] is None, "where there is no Redis nothing is known of pauses"


async def test_the_log_says_once_that_redis_is_away_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    world, is_away = World(), True
    world.poll()
    monitor = monitor_of(world)

    async def pauses(groups: Sequence[str]) -> list[list[Kept]]:
        if is_away:
            raise OSError("no answer")
        return [[] for _ in groups]

    monitor._pauses = pauses
    for number in range(6):
        is_away, monitor._kept_s = number < 3, -math.inf
        await monitor.group(GROUP)
    said = [(one.levelname, one.getMessage()) for one in caplog.records]
    away, back = (
        ("WARNING", "pauses: Redis is not available: no answer"),
        ("INFO", "pauses: Redis answers again"),
    )
    assert said == [away, back]
    assert vars(caplog.records[1])["away_s"] >= 0


def test_the_end_over_time_is_bounded_and_keeps_its_course() -> None:
    ends = LogEnds()
    for number in range(100_000):
        ends.note(number * 1_000, number * 10)
    assert len(ends._points) <= 96
    assert ends.first_ms() == 0
    for offset in (999_000, 990_000, 900_000, 500_000, 5_000):
        written = ends.written_ms(offset)
        assert written is not None
        assert abs(written - offset * 100) <= 1_000, "the log grew evenly, so the age is exact"
    assert ends.written_ms(999_990) is None, "not there yet"
    ends.note(100_000_000, 5)
    assert ends.written_ms(3) is None, "another log"


def test_a_group_is_forgotten_after_three_whole_polls_without_it() -> None:
    watch = ClusterWatch(WatchOptions(), {})
    watch.groups_seen({"a": EMPTY, "b": EMPTY}, 1)
    for _ in range(10):
        watch.groups_seen({"a": None}, 2, is_whole=False)
    for _ in range(2):
        watch.groups_seen({"a": EMPTY}, 3)
    assert set(watch.groups) == {"a", "b"}
    watch.groups_seen({"a": EMPTY, "b": None}, 4)
    assert watch.groups["b"].probation.first_seen_ms == 1, "it was there all the time"
    for _ in range(3):
        watch.groups_seen({"a": EMPTY}, 5)
    assert set(watch.groups) == {"a"}


def test_members_that_are_not_told_are_not_gone() -> None:
    world = World()
    world.member("a", 0)
    world.produce(1)
    world.keep_up()
    world.poll()
    world.watch.groups_seen({GROUP: None}, world.now_ms)
    assert world.watch.groups[GROUP].owners


def test_regressions_are_kept_in_bounded_number() -> None:
    world = World()
    world.member("a", 0)
    world.produce(10_000)
    world.commit(5)
    world.poll()
    for _ in range(3_000):
        world.commit(9)
        world.commit(8)
    assert len(world.watch.regressions) == 1_000
    assert world.watch.counts[GROUP, TOPIC] == 3_000
    (track,) = world.watch.groups[GROUP].tracks.values()
    assert len(track.open_falls) <= 8
    assert isinstance(world.watch.regressions[0], Regression)


async def test_a_reset_of_everything_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.member("a", 0)
    world.produce(500)
    world.commit(400)
    world.poll()
    (cluster,) = monitor_of(world).clusters
    key = struct.pack(">h", 1) + _text(GROUP) + _text(TOPIC) + struct.pack(">i", 0)
    for offset in range(399, 0, -1):
        value = struct.pack(">hqi", 3, offset, 0) + _text("") + struct.pack(">q", world.now_ms)
        record = read_record(key, value)
        assert record is not None
        cluster._take(record)
    assert len(caplog.records) == 21
    assert "see /v1/groups" in caplog.messages[-1]
    assert world.watch.counts[GROUP, TOPIC] == 399


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


class Scripted(GroupReader):
    """Answers with what a group had stored when the poll began; meanwhile something happens."""

    def __init__(self, cluster: ClusterMonitor) -> None:
        super().__init__(ClusterOptions("127.0.0.1:1"))
        self.stored = 5
        self.meanwhile: Callable[[], None] = lambda: None
        cluster._reader = self

    async def poll(self) -> GroupPoll:
        stored = {GROUP: {PLACE: CommittedOffset(self.stored)}}
        self.meanwhile()
        topics = {TOPIC: TopicSeen(b"1" * 16, (SOUND,)), commit_stream.TOPIC: TopicSeen(b"2", ())}
        return GroupPoll(topics, {GROUP: EMPTY}, stored, {PLACE: (0, 20)}, True)

    async def offsets(self, places: Iterable[Partition], timestamp: int) -> dict[Partition, Found]:
        return {}


async def test_a_commit_stream_that_breaks_during_a_poll_makes_no_step_back() -> None:
    """What the poll has read is older than the last that the commit stream told."""
    options = ClusterOptions("127.0.0.1:1")
    cluster = ClusterMonitor("main", options, WatchOptions(), 10.0, {}, lambda: START_MS)
    reader = Scripted(cluster)
    await cluster._poll()
    cluster._note_stream("")

    def commit_and_break() -> None:
        cluster._take(CommitRecord(GROUP, PLACE, CommittedOffset(9), cluster._now_ms()))
        cluster._note_stream("the broker is away")

    reader.meanwhile = commit_and_break
    await cluster._poll()
    reader.stored, reader.meanwhile = 9, lambda: None
    await cluster._poll()
    assert not cluster.watch.regressions
    reader.stored = 7
    await cluster._poll()
    (fall,) = cluster.watch.regressions
    assert (fall.from_offset, fall.to_offset) == (9, 7), "without the commit stream the polls tell"


def test_a_cluster_without_groups_has_no_commits_to_miss() -> None:
    world = World()
    world.commit(5)
    world.poll()
    [followed] = monitor_of(world).clusters
    now_s, options = 300, ClusterOptions("127.0.0.1:1")
    cluster = ClusterMonitor("main", options, WatchOptions(), 10.0, {}, lambda: START_MS)

    def gauges() -> dict[str, float]:
        found = snapshot([cluster], START_MS + now_s * 1000, GroupOwners(())).gauges
        return {
            name.removeprefix("headgate_monitor_"): v["main",]
            for name, v in found.items()
            if name.startswith("headgate_monitor_")
        }

    # A cluster that never answered is not followed, and its last poll grows old.
    assert gauges() == {"follows_commits": 0, "look_age_seconds": now_s}
    cluster.status = Status(True, "", START_MS, 0.1, "__consumer_offsets is not there yet")
    assert gauges()["follows_commits"] == 1
    cluster.judged = followed.judged
    assert cluster.judged
    assert gauges()["follows_commits"] == 0
