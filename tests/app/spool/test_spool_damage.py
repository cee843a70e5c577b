"""Files that are damaged, deleted or replaced under a gateway that runs, and its next start."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.model.outcome import Failure, OutcomeName, Reason
from headgate.model.publish import Ticket
from headgate.spool.database import FILE
from support.gateway.meters import counted
from support.gateway.spool_world import SpoolWorld, names
from support.spool.damage import LOG, PAGE, break_page, overwrite, pages_of
from support.spool.database import database_of


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SpoolWorld]:
    made = SpoolWorld(tmp_path / "spool")
    await made.live()
    yield made
    await made.end()


async def spooled(world: SpoolWorld, *numbers: int) -> None:
    """Each is a chunk on disk, of 600 bytes and more."""
    world.away()
    for number in numbers:
        ticket = world.post("orders", {"id": 1, "n": number, "text": "x" * 500})
        await world.writing.write()
        assert names(ticket) == [OutcomeName.SPOOLED]


def checkpoint(world: SpoolWorld) -> None:
    """All of it is in the database file, and nothing of it in SQLite's memory."""
    assert world.disk._journal is not None
    database = world.disk._journal._database
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    database.execute("PRAGMA cache_size = 0")
    database.execute("PRAGMA shrink_memory")


def refused(ticket: Ticket) -> Failure:
    [outcome] = ticket.answered()
    assert outcome.name is OutcomeName.REJECTED
    assert outcome.failure is not None
    assert outcome.failure.reason is Reason.KAFKA_UNAVAILABLE
    assert outcome.failure.retry_after_s
    return outcome.failure


async def until_stuck(world: SpoolWorld) -> None:
    """Publish what can be read."""
    for _ in range(30):
        world.publish()
        await world.writing.write()
        world.now_s += 1.0
        await world.draining.turn()
        world.spool.sweep()


def published(world: SpoolWorld) -> list[int]:
    return [value["n"] for _, _, value in world.written()]


async def test_a_page_that_is_damaged_under_the_gateway_is_noticed_and_nothing_more_is_taken(
    world: SpoolWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await spooled(world, *range(60))
    checkpoint(world)
    break_page(world.options.folder, pages_of(world.options.folder, "chunks", 13)[4])
    world.back()
    await until_stuck(world)
    before = published(world)
    assert before == list(range(len(before)))
    assert 0 < len(before) < 60
    world.away()
    detail = refused(world.post("orders", {"id": 1, "n": 60})).detail
    assert "damaged" in detail
    assert "restart the gateway" in detail
    assert len([one for one in caplog.records if one.levelname == "CRITICAL"]) == 1

    await world.end()
    await world.live()
    world.back()
    await world.drain()
    found = list(dict.fromkeys(published(world)))
    assert found == sorted(found)
    assert world.disk.salvaged is not None
    lost = sum(events for _, events in world.disk.salvaged.aside)
    assert 0 < lost < 10
    assert len(found) == 60 - lost
    ticket = world.post("orders", {"id": 1, "n": 60})
    world.publish()
    assert names(ticket) == [OutcomeName.PUBLISHED]
    assert world.disk.kept == [world.disk.kept[0]]


async def test_a_damaged_page_of_the_index_publishes_nothing_wrong(world: SpoolWorld) -> None:
    await spooled(world, *range(60))
    checkpoint(world)
    break_page(world.options.folder, pages_of(world.options.folder, "chunks_of_lane", 10)[0])
    world.back()
    await until_stuck(world)
    assert not world.landed
    world.away()
    refused(world.post("orders", {"id": 1, "n": 60}))
    await world.end()
    await world.live()
    world.back()
    await world.drain()
    assert published(world) == list(range(60))


def change_entry(folder: Path, number: int) -> None:
    """One bit of the index' entry of a chunk: it is of lane 0 then, and in the wrong place."""
    [page] = pages_of(folder, "chunks_of_lane", 10)
    raw = (folder / FILE).read_bytes()[(page - 1) * PAGE : page * PAGE]
    entry = b"\x04\x09\x01\x01" + bytes([number])  # lane 1 is a type without a byte
    assert raw.count(entry) == 1
    overwrite(folder / FILE, (page - 1) * PAGE + raw.index(entry) + 1, b"\x08")


async def test_a_bit_that_changed_in_the_index_while_it_was_closed_loses_nothing(
    world: SpoolWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await spooled(world, *range(24))
    checkpoint(world)
    await world.end()
    change_entry(world.options.folder, 7)
    await world.live()
    world.back()
    await world.drain()
    assert published(world) == list(range(24))
    assert world.disk.salvaged is not None
    assert world.disk.salvaged.is_complete
    [line] = [one.getMessage() for one in caplog.records if one.levelname == "CRITICAL"]
    assert "24 of its events will be published, at least 0 will not" in line


@pytest.mark.parametrize(("number", "overtaken"), [(3, [0, 1, 2]), (24, [])])
async def test_a_bit_that_changed_in_the_index_under_the_gateway_is_noticed_and_inverts_nothing(
    world: SpoolWorld, caplog: pytest.LogCaptureFixture, number: int, overtaken: list[int]
) -> None:
    await spooled(world, *range(24))
    checkpoint(world)
    change_entry(world.options.folder, number)
    world.back()
    await world.drain()
    # What SQLite did not find is published from the table, but not behind later events of the key.
    assert published(world) == [one for one in range(24) if one not in overtaken]
    assert sum(counted(world.meter, "spool_aside").values()) == len(overtaken)
    assert world.disk._journal is not None
    assert sum(one.events for one in world.disk._journal.contents.aside()) == len(overtaken)
    [line] = [one.getMessage() for one in caplog.records if one.levelname == "CRITICAL"]
    assert "the index of its chunks is wrong" in line
    world.away()
    refused(world.post("orders", {"id": 1, "n": 24}))


async def test_an_entry_of_the_index_that_names_another_chunk_puts_nothing_before_others(
    world: SpoolWorld,
) -> None:
    await spooled(world, *range(24))
    checkpoint(world)
    [page] = pages_of(world.options.folder, "chunks_of_lane", 10)
    raw = (world.options.folder / FILE).read_bytes()[(page - 1) * PAGE : page * PAGE]
    at = raw.index(b"\x04\x09\x01\x01\x03\x03") + 4
    overwrite(world.options.folder / FILE, (page - 1) * PAGE + at, b"\x13\x13")  # 3, and now 19
    world.back()
    await world.drain()
    assert published(world) == list(range(24))


@pytest.mark.parametrize("name", [FILE, LOG, "lock"])
async def test_a_file_that_is_deleted_under_the_gateway_takes_nothing_more_and_loses_nothing(
    world: SpoolWorld, name: str
) -> None:
    await spooled(world, 0, 1, 2)
    (world.options.folder / name).unlink()
    ticket = world.post("orders", {"id": 1, "n": 3})
    await world.writing.write()
    assert f"{name} is gone" in refused(ticket).detail
    assert "restart the gateway when the spool is empty" in (
        refused(world.post("orders", {"id": 1, "n": 4})).detail
    )
    world.back()
    await world.drain()
    assert published(world) == [0, 1, 2]
    await world.end()
    await world.live()
    await spooled(world, 5)


async def test_so_it_is_where_the_whole_folder_goes(world: SpoolWorld) -> None:
    await spooled(world, 0, 1)
    shutil.rmtree(world.options.folder)
    ticket = world.post("orders", {"id": 1, "n": 2})
    await world.writing.write()
    refused(ticket)
    world.back()
    await world.drain()
    assert published(world) == [0, 1]


async def test_a_damaged_log_is_found_at_the_start_and_what_can_be_read_of_it_is_published(
    world: SpoolWorld, tmp_path: Path
) -> None:
    await spooled(world, *range(20))
    shutil.copytree(world.options.folder, tmp_path / "left")  # as a kill would leave it
    log = tmp_path / "left" / LOG
    overwrite(log, log.stat().st_size // 2, b"\x55" * 100)
    next_life = SpoolWorld(tmp_path / "left")
    await next_life.live()
    await next_life.drain()
    found = published(next_life)
    assert found == list(range(20))  # what is damaged is not the newest content of its page
    assert next_life.disk.salvaged is not None
    assert (tmp_path / "left" / next_life.disk.kept[0] / LOG).exists()
    await next_life.end()


async def test_a_disk_that_cannot_be_read_is_refused_to_events_and_tried_again(
    world: SpoolWorld,
) -> None:
    await spooled(world, 0, 1)
    journal = world.disk._journal
    assert journal is not None
    database, journal._database = (
        journal._database,
        sqlite3.connect(":memory:", check_same_thread=False),
    )
    world.back()
    await until_stuck(world)
    world.away()
    assert "cannot be read" in refused(world.post("orders", {"id": 1, "n": 2})).detail
    journal._database = database
    world.back()
    await world.drain()
    assert published(world) == [0, 1]
    await spooled(world, 2)


@pytest.mark.parametrize(
    "change", ["partitions = 7", "count = 5", "count = 0", "count = -1", "at_ms = 0"]
)
async def test_a_row_that_is_damaged_under_the_gateway_keeps_nothing_waiting(
    world: SpoolWorld, change: str
) -> None:
    await spooled(world, 0, 1, 2)
    with database_of(world.options.folder) as database:
        database.execute(f"UPDATE chunks SET {change} WHERE number = 2")
    database.close()
    world.back()
    await world.drain()
    assert published(world) == [0, 2]
    assert sum(counted(world.meter, "spool_aside").values()) == 1
    ticket = world.post("orders", {"id": 1, "n": 3})
    world.publish()
    assert names(ticket) == [OutcomeName.PUBLISHED]


async def test_rows_that_are_deleted_under_the_gateway_keep_nothing_waiting(
    world: SpoolWorld,
) -> None:
    await spooled(world, 0, 1, 2)
    with database_of(world.options.folder) as database:
        database.execute("DELETE FROM chunks WHERE number > 1")
    database.close()
    world.back()
    await world.drain()
    assert published(world) == [0]
    assert sum(counted(world.meter, "spool_aside").values()) == 2
