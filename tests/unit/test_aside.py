"""The process aside: order, what becomes of answers when it dies or hangs, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest

from headgate.offload.helper_process import Aside


@pytest.fixture
async def aside() -> AsyncIterator[Aside]:
    started = Aside(patience_s=30.0)
    yield started
    started.close()


def die(number: int) -> None:
    os.kill(os.getpid(), number)


async def until_answered(aside: Aside) -> None:
    async with asyncio.timeout(60):
        while (answer := await aside.ask(pow, 3, 2)) is None:
            pass
    assert answer == 9


async def test_answers_come_from_another_process_in_order(aside: Aside) -> None:
    assert not aside.is_running
    ended: list[int] = []
    futures = [aside.ask(pow, base, 2) for base in range(50)]
    for base, future in enumerate(futures):
        future.add_done_callback(lambda _, base=base: ended.append(base))
    assert [await future for future in futures] == [base**2 for base in range(50)]
    await asyncio.sleep(0)  # the last callbacks run in the next turn of the loop
    assert ended == list(range(50))
    assert await aside.ask(os.getpid) != os.getpid()


async def test_what_was_asked_of_a_process_that_dies_gets_no_answer(aside: Aside) -> None:
    futures = [aside.ask(die, signal.SIGKILL), *(aside.ask(pow, 2, 2) for _ in range(5))]
    assert [await future for future in futures] == [None] * 6
    assert await aside.ask(pow, 3, 2) == 9


async def test_a_process_that_dies_idle_is_replaced(aside: Aside) -> None:
    process = await aside.ask(os.getpid)
    assert process is not None
    os.kill(process, signal.SIGKILL)
    await until_answered(aside)  # it may not be known yet that it died


async def test_a_process_that_hangs_is_ended() -> None:
    aside = Aside(patience_s=0.5)  # it may take longer than that to start
    await until_answered(aside)
    futures = [aside.ask(die, signal.SIGSTOP), aside.ask(pow, 2, 2)]
    assert [await future for future in futures] == [None, None]
    await until_answered(aside)
    aside.close()


async def test_a_failure_is_no_answer_and_the_process_stays(aside: Aside) -> None:
    process = await aside.ask(os.getpid)
    assert await aside.ask(pow, 0, -1) is None
    assert await aside.ask(os.getpid) == process


async def test_closing_ends_what_is_open_at_once(aside: Aside) -> None:
    assert await aside.ask(pow, 2, 2) == 4
    future = aside.ask(time.sleep, 3600)
    later = aside.ask(pow, 2, 2)
    aside.close()
    assert [await future, await later] == [None, None]
    assert not aside.is_running
