"""The process helper: order, what becomes of answers when it dies or hangs, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest

from headgate.offload.helper_process import HelperProcess


@pytest.fixture
async def helper() -> AsyncIterator[HelperProcess]:
    started = HelperProcess(patience_s=30.0)
    yield started
    started.close()


def die(number: int) -> None:
    os.kill(os.getpid(), number)


async def until_answered(helper: HelperProcess) -> None:
    async with asyncio.timeout(60):
        while (answer := await helper.ask(pow, 3, 2)) is None:
            pass
    assert answer == 9


async def test_answers_come_from_another_process_in_order(helper: HelperProcess) -> None:
    assert not helper.is_running
    ended: list[int] = []
    futures = [helper.ask(pow, base, 2) for base in range(50)]
    for base, future in enumerate(futures):
        future.add_done_callback(lambda _, base=base: ended.append(base))
    assert [await future for future in futures] == [base**2 for base in range(50)]
    await asyncio.sleep(0)  # the last callbacks run in the next turn of the loop
    assert ended == list(range(50))
    assert await helper.ask(os.getpid) != os.getpid()


async def test_what_was_asked_of_a_process_that_dies_gets_no_answer(helper: HelperProcess) -> None:
    futures = [helper.ask(die, signal.SIGKILL), *(helper.ask(pow, 2, 2) for _ in range(5))]
    assert [await future for future in futures] == [None] * 6
    assert await helper.ask(pow, 3, 2) == 9


async def test_a_process_that_dies_idle_is_replaced(helper: HelperProcess) -> None:
    process = await helper.ask(os.getpid)
    assert process is not None
    os.kill(process, signal.SIGKILL)
    await until_answered(helper)  # it may not be known yet that it died


async def test_a_process_that_hangs_is_ended() -> None:
    helper = HelperProcess(patience_s=0.5)  # it may take longer than that to start
    await until_answered(helper)
    futures = [helper.ask(die, signal.SIGSTOP), helper.ask(pow, 2, 2)]
    assert [await future for future in futures] == [None, None]
    await until_answered(helper)
    helper.close()


async def test_a_failure_is_no_answer_and_the_process_stays(helper: HelperProcess) -> None:
    process = await helper.ask(os.getpid)
    assert await helper.ask(pow, 0, -1) is None
    assert await helper.ask(os.getpid) == process


async def test_closing_ends_what_is_open_at_once(helper: HelperProcess) -> None:
    assert await helper.ask(pow, 2, 2) == 4
    future = helper.ask(time.sleep, 3600)
    later = helper.ask(pow, 2, 2)
    helper.close()
    assert [await future, await later] == [None, None]
    assert not helper.is_running
