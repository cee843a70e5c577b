"""The spool in the pipeline: what goes to disk, what is answered, and how it comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.model.outcome import Failure, OutcomeName, Reason
from headgate.model.publish import Ticket
from headgate.model.record import SPOOLED
from headgate.spool.disk import SpoolOptions
from headgate.spool.reading import Reader
from support.gateway.meters import counted
from support.gateway.spool_world import AFTER_S, UNKNOWN, SpoolWorld, names
from support.spool.database import database_of


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SpoolWorld]:
    made = SpoolWorld(tmp_path / "spool")
    await made.live()
    yield made
    await made.end()


def failure_of(ticket: Ticket) -> Failure:
    """Of a request of one event, which did not end well."""
    [outcome] = ticket.answered()
    assert outcome.failure is not None
    return outcome.failure


async def test_while_kafka_takes_events_nothing_is_spooled(world: SpoolWorld) -> None:
    ticket = world.post("orders", {"id": 1})
    world.publish()
    assert names(ticket) == [OutcomeName.PUBLISHED]
    assert not list(world.backlogs.topics)


async def test_events_are_spooled_at_once_where_kafka_is_known_to_be_away(
    world: SpoolWorld,
) -> None:
    world.away()
    ticket = world.post("orders", {"id": 1})
    assert names(ticket) == [None]
    await world.writing.write()
    assert names(ticket) == [OutcomeName.SPOOLED]
    [outcome] = ticket.answered()
    assert outcome.event_id
    assert outcome.offset == -1


async def test_a_topic_that_does_not_spool_is_refused_as_before(world: SpoolWorld) -> None:
    world.away()
    assert failure_of(world.post("clicks", {"id": 1})).reason is Reason.KAFKA_UNAVAILABLE


async def test_events_stuck_in_a_lane_are_spooled_and_published_once(
    world: SpoolWorld,
) -> None:
    ticket = world.post("orders", {"id": 1})
    world.now_s += AFTER_S
    world.spool.sweep()
    await world.writing.write()
    assert names(ticket) == [OutcomeName.SPOOLED]
    await world.drain()
    assert [value for _, _, value in world.written()] == [{"id": 1}]


async def test_what_was_handed_over_is_answered_by_the_disk_and_forgotten_by_the_acknowledgement(
    world: SpoolWorld,
) -> None:
    ticket = world.post("orders", {"id": 1})
    [partition] = world.lanes.queues
    world.lanes.hand_over(partition, 10)
    world.now_s += AFTER_S
    world.spool.sweep()
    await world.writing.write()
    assert names(ticket) == [OutcomeName.SPOOLED]
    world.lanes.acknowledge(partition)
    await world.drain()
    assert [value for _, _, value in world.written()] == [{"id": 1}]
    counts = [counted(world.meter, f"spool_{name}") for name in ("drained", "repeated", "aside")]
    assert counts == [{("orders",): 1}, {}, {}]  # Kafka acknowledged it late


async def test_what_was_handed_over_and_failed_is_published_from_disk(world: SpoolWorld) -> None:
    ticket = world.post("orders", {"id": 1})
    [partition] = world.lanes.queues
    world.lanes.hand_over(partition, 10)
    world.now_s += AFTER_S
    world.spool.sweep()
    await world.writing.write()
    world.lanes.fail(partition, UNKNOWN)
    await world.drain()
    [(_, event_id, value)] = world.written()
    assert value == {"id": 1}
    assert event_id == ticket.answered()[0].event_id


async def test_an_end_that_is_not_known_is_spooled_instead_of_answered_unknown(
    world: SpoolWorld,
) -> None:
    ticket = world.post("orders", {"id": 1})
    [partition] = world.lanes.queues
    world.lanes.hand_over(partition, 10)
    world.lanes.fail(partition, UNKNOWN)
    assert names(ticket) == [None]
    await world.writing.write()
    assert names(ticket) == [OutcomeName.SPOOLED]
    await world.drain()
    assert [value for _, _, value in world.written()] == [{"id": 1}]


async def test_later_events_of_a_lane_stay_behind_its_spooled_ones(world: SpoolWorld) -> None:
    world.away()
    world.post("orders", {"id": 1, "n": 1})
    await world.writing.write()
    world.back()
    later = world.post("orders", {"id": 1, "n": 2})
    world.publish()
    assert not world.landed
    await world.drain()
    assert [value for _, _, value in world.written()] == [{"id": 1, "n": 1}, {"id": 1, "n": 2}]
    assert names(later) == [OutcomeName.SPOOLED]
    direct = world.post("orders", {"id": 1, "n": 3})
    world.publish()
    assert names(direct) == [OutcomeName.PUBLISHED]


async def test_records_say_that_they_were_spooled(world: SpoolWorld) -> None:
    world.away()
    world.post("orders", {"id": 1})
    await world.writing.write()
    spooled_at = world.now_ms
    world.back()
    world.now_ms += 5000
    await world.drain()
    [record] = world.landed
    assert dict(record.record.headers)[SPOOLED] == b"%d" % spooled_at


async def test_a_gateway_that_begins_again_publishes_what_an_earlier_one_spooled(
    world: SpoolWorld,
) -> None:
    world.away()
    world.post("orders", *({"id": number, "n": number} for number in range(50)))
    await world.writing.write()
    await world.end()
    await world.live()
    world.back()
    later = world.post("orders", {"id": 7, "n": 100})  # before anything was drained
    await world.drain()
    assert sorted(value["n"] for _, _, value in world.written()) == [*range(50), 100]
    assert [v["n"] for key, _, v in world.written() if key == b"7"] == [7, 100]
    assert names(later) == [OutcomeName.SPOOLED]


async def test_nothing_is_unchanged_while_an_event_of_its_topic_is_spooled(
    world: SpoolWorld,
) -> None:
    first = world.post("deals", {"id": 1, "price": 1})
    world.publish()
    world.away()
    world.post("deals", {"id": 1, "price": 2})
    world.decide()
    await world.writing.write()
    assert world.suppression.held == 1
    again = world.post("deals", {"id": 1, "price": 1})  # as the record in Kafka, not as the newest
    world.decide()
    await world.writing.write()
    assert names(first) == [OutcomeName.PUBLISHED]
    assert names(again) == [OutcomeName.SPOOLED]
    world.back()
    await world.drain()
    assert [value["price"] for _, _, value in world.written()] == [1, 2, 1]
    assert world.suppression.held == 0


async def test_a_full_spool_refuses_and_says_so(tmp_path: Path) -> None:
    world = SpoolWorld(tmp_path, SpoolOptions(tmp_path, 1000, 10**10, 1000))
    await world.live()
    world.away()
    for number in range(5):
        ticket = world.post("orders", {"id": number, "text": "x" * 300})
        await world.writing.write()
    failure = failure_of(ticket)
    assert failure.reason is Reason.KAFKA_UNAVAILABLE
    assert "spool.max_bytes" in failure.detail
    assert failure.retry_after_s
    world.back()
    await world.drain()
    world.away()
    ticket = world.post("orders", {"id": 1})
    await world.writing.write()
    assert names(ticket) == [OutcomeName.SPOOLED]
    await world.end()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("certain", Reason.KAFKA_UNAVAILABLE),
        ("lost", Reason.UNKNOWN),
        ("written", Reason.UNKNOWN),
    ],
)
async def test_what_the_disk_does_not_take_is_not_answered_spooled(
    world: SpoolWorld, fault: str, reason: Reason
) -> None:
    world.away()
    world.disk.fault = fault
    ticket = world.post("orders", {"id": 1})
    await world.writing.write()
    assert failure_of(ticket).reason is reason
    assert "the disk is full" in failure_of(world.post("orders", {"id": 1})).detail
    world.back()
    await world.disk.probe()
    world.post("orders", {"id": 2})
    await world.drain()
    await world.end()
    await world.live()
    await world.drain()
    assert [value["id"] for _, _, value in world.written()] == [2]


async def test_what_kafka_refuses_for_good_is_set_aside_and_does_not_stand_in_the_way(
    world: SpoolWorld,
) -> None:
    world.away()
    for number in range(3):
        world.post("orders", {"id": 1, "n": number})
        await world.writing.write()
    world.back()
    world.now_s += 1
    [backlog] = [one for one in world.backlogs if one.left]
    await world.draining._advance(backlog)
    world.lanes.hand_over(backlog.partition, 1)
    world.lanes.fail(backlog.partition, Failure(Reason.TOO_LARGE, "the limit was lowered"))
    await world.drain()
    assert [value["n"] for _, _, value in world.written()] == [1, 2]
    assert sum(counted(world.meter, "spool_aside").values()) == 1
    await world.end()
    contents = Reader(world.options.folder)
    [aside] = contents.aside()
    contents.close()
    assert aside.events == 1
    assert "the limit was lowered" in aside.reason
    await world.live()


async def test_a_damaged_chunk_is_set_aside_and_the_others_are_published(
    world: SpoolWorld,
) -> None:
    world.away()
    for number in range(3):
        world.post("orders", {"id": 1, "n": number})
        await world.writing.write()
    await world.end()
    with database_of(world.options.folder) as database:
        changed = "CAST(x'00' || substr(events, 2) AS BLOB)"
        database.execute(f"UPDATE chunks SET events = {changed} WHERE number = 2")
    await world.live()
    world.back()
    await world.drain()
    assert [value["n"] for _, _, value in world.written()] == [0, 2]
    assert sum(counted(world.meter, "spool_aside").values()) == 1
