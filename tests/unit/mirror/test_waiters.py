"""A copier rests until its interval is over or somebody waits for more than it has copied."""

from __future__ import annotations

import asyncio

import pytest

from headgate_spark.mirror import copier as waiters
from headgate_spark.mirror.copier import Waiter


async def test_it_rests_when_nobody_waits() -> None:
    waiter = Waiter()
    await asyncio.wait_for(waiter.rest(5, 0.01), 10)
    assert not waiter.is_waiting(5)


async def test_it_goes_on_until_what_is_waited_for_is_copied() -> None:
    waiter = Waiter()
    resting = asyncio.create_task(waiter.rest(5, 600))
    await asyncio.sleep(0)
    waiter.want(5)  # it has been copied
    await asyncio.sleep(0.01)
    assert not resting.done()
    waiter.want(7)
    await asyncio.wait_for(resting, 10)
    for position, is_waiting in ((5, True), (6, True), (7, False)):
        assert waiter.is_waiting(position) is is_waiting
    await asyncio.wait_for(waiter.rest(6, 600), 10)  # that was not all of it


async def test_what_nobody_waits_for_any_more_is_not_hurried_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The topic may have been recreated, and be shorter now."""
    monkeypatch.setattr(waiters, "_HURRY_S", 0.0)
    waiter = Waiter()
    waiter.want(7)
    assert not waiter.is_waiting(5)
