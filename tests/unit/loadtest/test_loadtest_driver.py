"""The driver against an answering server in this process."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from driver import Run
from plan import Plan
from support.network.accepting import accepting

OK = b'HTTP/1.1 201 Created\r\nContent-Length: 23\r\n\r\n{"outcome":"published"}'
CLOSING = OK.replace(b"Content-Length", b"Connection: close\r\nContent-Length")
Answering = Callable[[int, asyncio.StreamWriter], Awaitable[None]]


async def at_once(number: int, writer: asyncio.StreamWriter) -> None:
    writer.write(OK)


@asynccontextmanager
async def serving(answer: Answering) -> AsyncIterator[str]:
    """A server that calls `answer` with the number of each request (from 1 on)."""
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                await reader.readexactly(length)
                seen += 1
                await answer(seen, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the driver left
        finally:
            writer.close()

    async with accepting(serve) as port:
        yield f"http://127.0.0.1:{port}/events"


async def measured(answer: Answering, **options: object) -> Run:
    defaults: dict[str, object] = {"connections": 2, "warm_up_s": 0.0, "seconds": 30.0}
    async with serving(answer) as url:
        run = Run(Plan(url, **{**defaults, **options}))  # type: ignore[arg-type]
        await run.measure()
        return run


async def test_closed_loop_posts_every_event_and_counts_its_end() -> None:
    report = (await measured(at_once, events=500, connections=7)).report()
    assert report["outcomes"] == {"published": 500}
    assert report["statuses"] == {"201": 500}
    assert report["events"] == 500
    assert 0 < report["latency_ms"]["p50"] <= report["latency_ms"]["max"]
    assert report["cpu_us_per_event"]["generator"] >= 0


async def test_closed_loop_ends_with_its_window() -> None:
    report = (await measured(at_once, seconds=0.3, warm_up_s=0.1)).report()
    assert 0 < report["events"] < report["outcomes"]["published"]


async def test_unchanged_runs_post_every_key_first() -> None:
    run = await measured(at_once, mode="unchanged", events=10)
    assert run.primed.outcomes == {"published": 1_000}
    assert run.tally.outcomes == {"published": 10}


async def test_open_loop_counts_a_stall_for_every_request_due_in_it() -> None:
    async def stall_once(number: int, writer: asyncio.StreamWriter) -> None:
        if number == 10:
            await asyncio.sleep(0.5)
        writer.write(OK)

    closed = await measured(stall_once, events=200, connections=1)
    opened = await measured(stall_once, events=200, connections=1, rate=200.0)
    slow = [sum(one > 0.1 for one in run.tally.latencies_s) for run in (closed, opened)]
    # 100 requests were due in the half second, 80 of them more than 0.1 s before its end.
    assert slow[1] >= 60
    assert slow[0] < slow[1]


async def test_open_loop_says_what_it_could_not_send() -> None:
    async def never(number: int, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    run = await measured(never, rate=100.0, seconds=0.5, connections=1, timeout_s=0.2)
    assert run.load.unsent > 0


async def test_a_late_answer_is_a_timeout_and_the_connection_is_replaced() -> None:
    async def lose_the_third(number: int, writer: asyncio.StreamWriter) -> None:
        if number != 3:
            writer.write(OK)

    report = (await measured(lose_the_third, events=50, connections=1, timeout_s=0.3)).report()
    assert report["outcomes"] == {"published": 49, "timeout": 1}
    assert report["timeouts"] == 1
    assert report["latency_ms"]["max"] >= 300  # it counts among the latencies


async def test_a_reset_is_counted_and_the_connection_replaced() -> None:
    async def reset_the_third(number: int, writer: asyncio.StreamWriter) -> None:
        if number == 3:
            writer.transport.abort()
        else:
            writer.write(OK)

    report = (await measured(reset_the_third, events=50)).report()
    assert report["outcomes"] == {"published": 49, "reset": 1}


async def test_a_closing_answer_is_honoured() -> None:
    async def close(number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(CLOSING)
        writer.close()

    report = (await measured(close, events=5)).report()
    assert report["outcomes"]["published"] == 5


async def test_nobody_listening_is_an_error_not_a_result() -> None:
    with pytest.raises(OSError, match="111"):
        await Run(Plan("http://127.0.0.1:1/events")).measure()
