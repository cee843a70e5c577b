"""One timer for many calls."""

from __future__ import annotations

import asyncio
import time

import pytest

from headgate.redis.client import OverdueCheck
from headgate.redis.script import SharedTimeout
from support.process.stack import eventually
from support.virtual_time import run_in_virtual_time


async def call(shared: SharedTimeout, work: asyncio.Future[None]) -> None:
    async with asyncio.timeout(None) as scope:
        shared.begins(scope)
        try:
            await work
        finally:
            shared.ends()


async def test_a_call_that_takes_too_long_ends() -> None:
    loop = asyncio.get_running_loop()
    with pytest.raises(TimeoutError):
        await call(SharedTimeout(0.01), loop.create_future())


def test_the_time_of_a_later_call_is_its_own() -> None:
    async def work() -> None:
        loop, shared = asyncio.get_running_loop(), SharedTimeout(0.05)
        began = loop.time()
        for _ in range(8):  # together longer than the limit, each shorter
            work: asyncio.Future[None] = loop.create_future()
            loop.call_later(0.01, work.set_result, None)
            await call(shared, work)
        last = loop.time()
        assert last - began == pytest.approx(0.08)
        with pytest.raises(TimeoutError):
            await call(shared, loop.create_future())
        assert loop.time() - last == pytest.approx(0.05)

    run_in_virtual_time(work())


async def test_a_loop_that_was_held_up_reads_before_it_gives_up() -> None:
    loop, shared = asyncio.get_running_loop(), SharedTimeout(0.02)
    work: asyncio.Future[None] = loop.create_future()
    waiting = asyncio.ensure_future(call(shared, work))
    await asyncio.sleep(0)
    time.sleep(0.1)  # noqa: ASYNC251 - the loop is held up, the answer is there meanwhile
    loop.call_soon(loop.call_soon, work.set_result, None)
    await waiting


async def test_no_timer_is_left_behind_when_nothing_is_called() -> None:
    loop, shared = asyncio.get_running_loop(), SharedTimeout(0.01)
    work: asyncio.Future[None] = loop.create_future()
    work.set_result(None)
    await call(shared, work)
    await eventually(lambda: shared._timer is None)


async def test_a_call_on_a_loop_that_is_always_late_ends_all_the_same() -> None:
    loop, shared = asyncio.get_running_loop(), SharedTimeout(0.02)
    turns = 0

    def hold_up() -> None:
        nonlocal turns
        turns += 1
        time.sleep(0.015)  # later than what counts as late, in every turn
        if turns < 400:
            loop.call_soon(hold_up)

    loop.call_soon(hold_up)
    with pytest.raises(TimeoutError):
        await call(shared, loop.create_future())
    assert turns < 20  # it took hundreds while each late turn gave it another one
    turns = 400


async def test_an_overdue_check_runs_while_somebody_waits_and_then_no_more() -> None:
    checks: list[float] = []
    overdue = OverdueCheck(0.04, lambda: len(checks.append(0.0) or checks) < 3)
    overdue.begin()
    overdue.begin()  # once is enough
    await eventually(lambda: len(checks) == 3)
    assert not overdue._is_on
    overdue.begin()
    await eventually(lambda: len(checks) == 4)


async def test_an_overdue_check_that_was_held_up_lets_the_loop_read_first() -> None:
    order: list[str] = []
    overdue = OverdueCheck(0.04, lambda: bool(order.append("check")))
    overdue.begin()
    await asyncio.sleep(0)
    time.sleep(0.06)  # noqa: ASYNC251 - the loop is held up, an answer is there meanwhile
    asyncio.get_running_loop().call_soon(lambda: order.append("read"))
    await eventually(lambda: len(order) == 2)
    assert order == ["read", "check"]


async def test_an_overdue_check_goes_on_although_one_failed() -> None:
    checks: list[None] = []

    def check() -> bool:
        checks.append(None)
        if len(checks) == 1:
            raise RuntimeError("a fault of one who waited")
        return len(checks) < 3

    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    OverdueCheck(0.08, check).begin()
    await eventually(lambda: len(checks) == 3)
    assert len(reported) == 1
