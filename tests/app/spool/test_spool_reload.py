"""A reload changes whether a topic spools, while its events lie on disk or in their lane."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.formats import confluent
from headgate.model.outcome import OutcomeName, Reason
from headgate.model.publish import Ticket
from support.gateway.spool_world import AFTER_S, SpoolWorld, names


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SpoolWorld]:
    made = SpoolWorld(tmp_path / "spool")
    await made.live()
    yield made
    await made.end()


def reasons(ticket: Ticket) -> list[Reason]:
    return [one.failure.reason for one in ticket.answered() if one.failure is not None]


async def test_an_event_that_needs_an_offset_waits_for_what_was_spooled_before_a_reload(
    world: SpoolWorld,
) -> None:
    world.away()
    world.post("orders", {"id": 1, "n": 0})
    await world.writing.write()
    world.reload(spool=False)
    world.back()
    early = world.post_for_offset("orders", {"id": 1, "n": 1})
    assert reasons(early) == [Reason.KAFKA_UNAVAILABLE]
    assert early.answered()[0].failure.retry_after_s  # type: ignore[union-attr]
    native = world.post("orders", {"id": 1, "n": 2})
    await world.drain()
    assert names(native) == [OutcomeName.SPOOLED]
    late = world.post_for_offset("orders", {"id": 1, "n": 3})
    world.publish()
    assert names(late) == [OutcomeName.PUBLISHED]
    assert [value["n"] for _, _, value in world.written()] == [0, 2, 3]


@pytest.mark.parametrize("is_handed", [True, False])
async def test_an_event_that_needs_an_offset_is_never_said_to_be_published_without_one(
    world: SpoolWorld, is_handed: bool
) -> None:
    world.reload(spool=False)
    ticket = world.post_for_offset("orders", {"id": 1, "n": 0})
    world.reload(spool=True)
    [partition] = world.lanes.queues
    if is_handed:
        world.lanes.hand_over(partition, 10)
    world.post("orders", {"id": 1, "n": 1})
    world.now_s += AFTER_S
    world.spool.sweep()
    await world.writing.write()
    assert reasons(ticket) == [Reason.UNKNOWN]
    assert b'"offset":-1' not in confluent.produced(ticket.answered()).body
    await world.drain()
    assert [value["n"] for _, _, value in world.written()] == [0, 1]
    assert world.admission.events == 0
