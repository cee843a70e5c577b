"""Files that are damaged, deleted or replaced under a gateway that runs, and its next start."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.core.outcome import Failure, Name, Reason
from headgate.core.publish import Ticket
from headgate.spool.database import FILE
from support.gateway.spool_world import SpoolWorld, names
from support.spool.damage import LOG, break_page, overwrite, pages_of
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
        assert names(ticket) == [Name.SPOOLED]


def checkpoint(world: SpoolWorld) -> None:
    """All of it is in the database file, and nothing of it in SQLite's memory."""
    assert world.disk._journal is not None
    database = world.disk._journal._database
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    database.execute("PRAGMA cache_size = 0")
    database.execute("PRAGMA shrink_memory")


def refused(ticket: Ticket) -> Failure:
    [outcome] = ticket.answered()
    assert outcome.name is Name.REJECTED
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
    assert names(ticket) == [Name.PUBLISHED]
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


@pytest.mark.parametrize("name", [FILE, LOG, "lock"])
async def test_a_file_that_is_deleted_under_the_gateway_takes_nothing_more_and_loses_nothing(
    world: SpoolWorld, name: str
) -> None:
    await spooled(world, 0, 1, 2)
    (world.options.folder / name).unlink()
    ticket = world.post("orders", {"id": 1, "n": 3})
    await world.writing.write()
    assert f"{name} is gone" in refused(ticket).detail
    assert "restart the gateway once nothing is left" in (
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


async def test_a_damaged_log_is_found_at_the_start_and_what_came_before_is_published(
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
    assert found == list(range(len(found)))
    assert 5 < len(found) < 15
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
    assert world.meter.counts["aside"] == 1
    ticket = world.post("orders", {"id": 1, "n": 3})
    world.publish()
    assert names(ticket) == [Name.PUBLISHED]


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
    assert world.meter.counts["aside"] == 2
