"""A burst that ends with the same JSON value, written otherwise, publishes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.gateway.coalescer_world import Counts, HeldWorld
from support.process.stack import RunningBroker, RunningRedis, eventually

RULES = {"suppress": "canonical", "ignore": ("/updated_at", "/audit/by")}


def deal(options: int, price: int, at: str) -> dict[str, Any]:
    """1,300 bytes an option: 600 are 800 kB, as in incident A."""
    text = "cancellation free of charge until the day before arrival, " * 21
    many = [{"id": number, "on": True, "price": 19.5, "text": text} for number in range(options)]
    return {"id": "d", "price": price, "updated_at": at, "audit": {"by": at}, "options": many}


def otherwise(document: dict[str, Any]) -> str:
    """The same value with its names in another order and other blanks."""
    return json.dumps(dict(reversed(document.items())), indent=1)


@pytest.mark.parametrize("options", [1, 600])
async def test_key_order_blanks_and_ignored_members_are_no_change(
    kafka: RunningBroker, redis_server: RunningRedis, topic_name: str, options: int
) -> None:
    world = HeldWorld(kafka, redis_server.url, topic_name, **RULES)
    counts = Counts()
    first = json.dumps(deal(options, 100, "09:00"))
    async with world.coalescing(counts):
        world.write("d", first)
        await eventually(lambda: counts.outcomes["published"] == 1, 30)
        for price in (90, 80):
            world.write("d", json.dumps(deal(options, price, "09:01")), burst="b")
        world.write("d", otherwise(deal(options, 100, "09:02")), burst="b")
        world.end_burst("b")
        await eventually(lambda: counts.outcomes["unchanged"] == 1, 30)
        assert world.values("d") == [first]
        # A change of anything else is one, and so is a tombstone.
        last = json.dumps(deal(options, 101, "09:02"))
        world.write("d", last)
        await eventually(lambda: counts.outcomes["published"] == 2, 30)
        world.write("d", None)
        await eventually(lambda: counts.outcomes["published"] == 3, 30)
    assert world.values("d") == [first, last, None]
    assert counts.outcomes == {"published": 3, "unchanged": 1, "superseded": 2}
    assert not counts.fallbacks
    assert not counts.lives


async def test_what_has_no_canonical_form_is_compared_by_its_bytes_and_counted(
    kafka: RunningBroker, redis_server: RunningRedis, topic_name: str
) -> None:
    world = HeldWorld(kafka, redis_server.url, topic_name, **RULES)
    counts = Counts()
    async with world.coalescing(counts):
        for number, text in enumerate(('{"n": 1e999, "m": 0}', '{"m": 0, "n": 1e999}'), 1):
            world.write("a", text)
            await eventually(lambda n=number: counts.outcomes["published"] == n, 30)
    assert counts.fallbacks == {"number": 2}
