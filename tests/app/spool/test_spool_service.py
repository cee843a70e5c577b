"""The spool's own tasks: its start over a folder, and what it does when nothing is left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headgate.backends.base import Deliveries
from headgate.ingest.admission import Admission
from headgate.ingest.complete import ClockWatch, Complete, Reports
from headgate.model.publish import Record
from headgate.model.topics import TopicState
from headgate.spool import disk
from headgate.spool.backlog import Backlogs
from headgate.spool.database import FILE, Append, JournalError, pack_topic
from headgate.spool.disk import SpoolOptions
from headgate.spool.journal import Journal
from headgate.spool.service import SpoolService
from headgate.suppression.sharded import Unsuppressed
from support.gateway.fakes import FakeLanes, FakeTopics, topic_state
from support.gateway.meters import a_meter
from support.spool.damage import PAGE, overwrite, pages_of
from support.spool.database import database_of

NOW_MS = 1_700_000_000_000


class Known:
    """The `KafkaTopics` of a spool, over fakes."""

    def __init__(self, topics: FakeTopics) -> None:
        self._topics = topics
        self.get, self.missing_reason = topics.get, topics.missing_reason

    def states(self) -> list[TopicState]:
        return list(self._topics.states.values())

    def recall(self, states: Iterable[TopicState]) -> None:
        self._topics.states.update({one.name: one for one in states})

    def on_change(self, listener: Callable[[TopicState | None, TopicState | None], None]) -> None:
        """Nothing does."""

    def is_fresh(self, cluster: str, since_s: float) -> bool:
        return True


def fill(folder: Path, chunks: int, size: int = 20) -> None:
    """So many chunks of one event lie there."""
    journal = Journal(folder)
    for number in range(chunks):
        record = Record("orders", 0, b"k", b"%d" % number + b"x" * size, [], number)
        journal.commit([Append("orders", 0, 3, NOW_MS, [record])], [])
    journal.close()


@asynccontextmanager
async def running(
    folder: Path, *states: TopicState
) -> AsyncIterator[tuple[SpoolService, FakeLanes]]:
    """states: what Kafka says of its topics; else there is one, `orders`."""
    lanes: list[FakeLanes] = []

    def opened(deliveries: Deliveries) -> FakeLanes:
        lanes.append(FakeLanes(deliveries))
        return lanes[0]

    topics = FakeTopics(*(states or (topic_state("orders", 3),)))
    options = SpoolOptions(folder, 1 << 30, 10**12, 1_000_000)
    unsuppressed = Unsuppressed(None)  # type: ignore[arg-type]
    complete = Complete(Admission(0, 0), a_meter())
    service = SpoolService(
        options,
        Backlogs(lambda: unsuppressed, lambda topic: None),
        Known(topics),
        lambda topic: 2.0,
        lambda: NOW_MS,
        a_meter(),
        Reports(ClockWatch(topics.get, time.monotonic), complete, lambda: unsuppressed),
        opened,
    )
    await service.start(lambda cluster: True)
    try:
        yield service, lanes[0]
    finally:
        await service.close()


async def until(holds: Callable[[], bool], lanes: FakeLanes | None = None) -> None:
    """Publish what comes into the lanes until it holds."""
    async with asyncio.timeout(20):
        while not holds():
            if lanes is not None:
                lanes.hand_over(0, 1000)
                lanes.acknowledge(0)
            await asyncio.sleep(0.01)


async def test_the_disk_gets_back_what_a_backlog_took(tmp_path: Path) -> None:
    fill(tmp_path, 300, 100_000)
    file = tmp_path / FILE
    assert file.stat().st_size > 10_000_000
    async with running(tmp_path) as (service, lanes):
        await until(lambda: service.totals()[0] == 0, lanes)
        await until(lambda: file.stat().st_size < 100_000)


async def test_the_backlog_is_known_though_the_topics_on_disk_cannot_be_read(
    tmp_path: Path,
) -> None:
    fill(tmp_path, 5)
    with database_of(tmp_path) as database:
        database.execute("DROP TABLE topics")
    database.close()
    async with running(tmp_path) as (service, _):
        assert service.totals()[0] == 5
        assert service.dependency().ok


@pytest.mark.parametrize("text", [b"CREATE TABLE lanes", b"topic TEXT", b"checksum INTEGER"])
@pytest.mark.parametrize("bit", [0x80, 0x01])
async def test_a_bit_that_changed_in_the_schema_keeps_nothing_from_starting_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: bytes, bit: int
) -> None:
    fill(tmp_path, 5)
    raw = (tmp_path / FILE).read_bytes()
    at = raw.index(text) + len(text) - 1
    (tmp_path / FILE).write_bytes(raw[:at] + bytes([raw[at] ^ bit]) + raw[at + 1 :])
    async with running(tmp_path) as (service, lanes):
        assert service.totals()[0] == 5
        assert service.dependency().ok
        assert "a damaged file is kept in" in service.dependency().detail
        await until(lambda: service.totals()[0] == 0, lanes)
    assert "5 of its events will be published, at least 0 will not" in caplog.text


async def test_it_is_not_called_empty_while_chunks_lie_in_its_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path, 5)
    async with running(tmp_path) as (service, lanes):
        with database_of(tmp_path) as database:
            database.execute("UPDATE chunks SET lane = 77 WHERE number = 3")
        await until(lambda: not service.dependency().ok, lanes)
        assert "1 chunk on disk" in service.dependency().detail
    assert "empty again" not in caplog.text
    async with running(tmp_path) as (service, _):
        assert service.totals()[0] == 1  # its checksum knows its lane


async def test_what_sqlite_finds_in_the_background_is_said_and_lasts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "CHECK_S", 0.0)  # the start has no time for it
    fill(tmp_path, 5)
    with database_of(tmp_path) as database:
        state = pack_topic(topic_state("orders", 3))
        database.execute("INSERT INTO topics VALUES ('orders', ?)", (state,))
    database.close()
    [page] = pages_of(tmp_path, "sqlite_autoindex_topics_1", 10)
    raw = (tmp_path / FILE).read_bytes()
    at = raw.index(b"orders", (page - 1) * PAGE)
    overwrite(tmp_path / FILE, at, b"n")  # only the full check compares this index with its table
    async with running(tmp_path, topic_state("others", 3)) as (service, _):
        await until(lambda: not service.dependency().ok)
        assert "restart the gateway" in service.dependency().detail
    assert "CRITICAL" in {one.levelname for one in caplog.records}


async def test_nothing_comes_between_a_folder_that_is_free_at_last_and_its_backlog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, 5)
    other = Journal(tmp_path)
    async with running(tmp_path) as (service, _):
        assert "another process" in service.dependency().detail
        seen = []
        topics = service._disk.topics

        async def looked() -> list[TopicState]:
            seen.append(service.backlogs.is_behind("orders"))  # as an event that comes now
            return await topics()

        monkeypatch.setattr(service._disk, "topics", looked)
        other.close()
        await until(lambda: service.is_open)
        await until(lambda: bool(seen))
        assert seen == [True]


async def test_damage_that_cannot_be_moved_is_no_reason_not_to_start(tmp_path: Path) -> None:
    fill(tmp_path, 5)
    (tmp_path / FILE).write_bytes(b"none of ours" * 1000)
    (tmp_path / f"damaged-{NOW_MS}").write_bytes(b"")  # a folder cannot be made there
    async with running(tmp_path) as (service, _):
        assert "damaged" in service.dependency().detail


async def test_while_another_process_has_the_folder_nothing_overtakes_what_lies_there(
    tmp_path: Path,
) -> None:
    fill(tmp_path, 1)
    former = Journal(tmp_path)
    async with running(tmp_path) as (service, lanes):
        state = topic_state("orders")
        assert lanes.refusal(state, 0) is None
        failure = service.spool.refusal(state, 0)
        assert failure is not None
        assert "another process" in failure.detail
        former.close()
        end = asyncio.get_running_loop().time() + 20
        while service.spool.refusal(state, 0) is not None:
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.02)


async def test_a_topic_that_was_deleted_is_named_where_its_events_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(tmp_path, 5)
    async with running(tmp_path, topic_state("others", 3)) as (service, _):
        await until(lambda: "waiting for Kafka" in caplog.text)
        state = service.dependency()
        assert state.ok
        assert "5 events" in state.detail
        assert "Kafka does not know orders" in state.detail
        assert "Kafka does not know orders" in caplog.text


async def test_a_full_disk_is_an_alarm_and_is_described_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = disk.Disk(SpoolOptions(tmp_path, 1 << 30, 10**12, 1_000_000), lambda: NOW_MS)
    await spool.open()
    record = Record("orders", 0, b"k", b"x" * 100_000, [], 1)
    append = Append("orders", 0, 3, NOW_MS, [record])
    assert spool._journal is not None
    database = spool._journal._database
    [pages] = database.execute("PRAGMA page_count").fetchone()
    spool._thread.submit(database.execute, f"PRAGMA max_page_count = {pages}").result()
    for _ in range(2):
        with pytest.raises(JournalError):
            await spool.commit([append], [])
    [line] = [one for one in caplog.records if "cannot be written" in one.getMessage()]
    assert line.levelname == "CRITICAL"
    assert str(spool.why_not()).startswith("the spool cannot be written: ")
    failure = spool.refusal()
    assert failure is not None
    assert "and the spool cannot be written: " in failure.detail
    spool._thread.submit(database.execute, "PRAGMA max_page_count = 1000000").result()
    await spool.commit([append], [])
    assert spool.why_not() is None
    await spool.close()


async def test_a_folder_that_cannot_be_used_is_an_alarm_but_not_one_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    async with running(tmp_path / "file"):
        pass
    async with running(tmp_path / "good"), running(tmp_path / "good"):
        pass
    lines = [one for one in caplog.records if "cannot be opened" in one.getMessage()]
    assert [one.levelname for one in lines] == ["CRITICAL", "WARNING"]


async def test_events_that_stand_aside_are_counted_until_they_are_dropped(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    journal = Journal(tmp_path)
    journal.set_aside(2, "damaged")
    journal.close()
    name = "headgate_spool_aside_events"
    async with running(tmp_path) as (service, _):
        assert service._meter.collect().gauges[name] == {("orders",): 1}
        service._meter.set_aside("orders", 2)
        assert service._meter.collect().gauges[name] == {("orders",): 3}
    journal = Journal(tmp_path)
    journal.drop(None, aside_only=True)
    journal.close()
    async with running(tmp_path) as (service, _):
        assert service._meter.collect().gauges[name] == {}
