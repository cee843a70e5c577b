"""Plots from Prometheus: what it is asked, what its answer means, what if there is none."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headgate.admin.console.figures import Recorded
from headgate.metrics import fleet as recorder
from headgate.metrics.fleet import Recorder
from headgate.supervisor.upstreams import PrometheusPlots, query
from support.network.accepting import accepting
from support.network.prometheus_answers import PrometheusAnswers


def kept() -> Recorded:
    found = Recorder()
    found.whole.note(600, {recorder.EVENTS: {("", "", "published", ""): 70.0}}, {})
    return Recorded(found)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (
            (recorder.EVENTS, (2, 3), {}),
            "sum by (outcome,reason) (rate(headgate_events_total[60s]))",
        ),
        (
            (recorder.BYTES, (1,), {0: {"shop"}}),
            'sum by (topic) (rate(headgate_event_bytes_sum{producer=~"shop"}[60s]))',
        ),
        (("headgate_held_lag", (), {}), "sum (headgate_held_lag)"),
        (
            (recorder.RECORDS_WRITTEN, (1,), {0: {'a"b', "c.d"}}),
            "sum by (partition) (rate(headgate_partition_records_total"
            '{topic=~"a\\\\x{22}b|c\\\\x{2e}d"}[60s]))',
        ),
    ],
)
def test_prometheus_queries_have_this_text(asked: tuple[Any, ...], text: str) -> None:
    assert query(*asked, 15.0).text == text


async def test_its_answer_is_what_plots_need_and_is_kept_for_a_moment() -> None:
    prometheus = PrometheusAnswers()
    async with prometheus.running() as url:
        plots = PrometheusPlots(url, kept())
        found = await plots.read(recorder.EVENTS, by=(2,), span_s=3600)
        again = await plots.read(recorder.EVENTS, by=(2,), span_s=3600)
    assert plots.source == "Prometheus"
    assert len(prometheus.forms) == 1
    assert again is found
    assert found.step_s == 15
    assert abs(found.start - (time.time() - 3600)) < 30
    assert found.rows[("published",)][:3] == [1.5, 0.0, 4.0]
    assert found.rows[("rejected",)][:3] == [1.5, 0.0, 0.0]
    assert len(found.rows[("published",)]) == 241


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": "error", "error": "too many samples"}, "too many samples"),
        ([], "it is no answer to query_range"),
        ({"data": {"result": [{}]}}, "it is no answer to query_range"),
    ],
)
async def test_while_it_makes_no_sense_there_is_what_was_kept(answer: object, said: str) -> None:
    prometheus = PrometheusAnswers()
    prometheus.answer = answer
    async with prometheus.running() as url:
        plots = PrometheusPlots(url, kept())
        for _ in range(3):
            found = await plots.read(recorder.EVENTS, by=(2,))
            assert found.rows == {("published",): [7.0]}
    assert f"(Prometheus answered nonsense: {said})" in plots.source
    assert len(prometheus.forms) == 1  # and it is left alone for a while


async def served_raw(
    answer: Callable[[asyncio.StreamWriter], Awaitable[None]], max_bytes: int = 10_000_000
) -> PrometheusPlots:
    """The plots after they were asked for once. answer: writes what follows the request."""

    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        ended.set()

    async with accepting(serve) as port:
        plots = PrometheusPlots(f"http://127.0.0.1:{port}", kept(), max_bytes)
        await plots.read(recorder.EVENTS, by=(2,))
        async with asyncio.timeout(30):
            await ended.wait()
    return plots


def head(status: str, length: int) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n".encode()


RESULT = b'{"status":"success","data":{"result":[]}}'


async def test_an_answer_in_pieces_is_read_whole() -> None:
    async def in_pieces(writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", len(RESULT)))
        for byte in RESULT:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    assert (await served_raw(in_pieces)).source == "Prometheus"


async def test_half_an_answer_is_no_answer() -> None:
    async def half(writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", len(RESULT) + 1) + RESULT)
        await writer.drain()

    assert "(Prometheus broke off in the middle of its answer)" in (await served_raw(half)).source


async def test_an_answer_that_is_too_large_is_not_read() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b" " * 65_536)
            await writer.drain()

    said = "(Prometheus was not read: its answer is larger than 1,000,000 bytes)"
    assert said in (await served_raw(endless, 1_000_000)).source


async def test_one_deadline_is_over_all_of_an_answer() -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", 1_000))
        for _ in range(1_000):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    assert "(Prometheus did not answer within 2 s)" in (await served_raw(slow)).source


async def test_what_it_says_of_an_error_is_passed_on() -> None:
    async def refuse(writer: asyncio.StreamWriter) -> None:
        body = b'{"status":"error","errorType":"bad_data","error":"no such metric"}'
        writer.write(head("400 Bad Request", len(body)) + body)
        await writer.drain()

    assert "(Prometheus answered 400: no such metric)" in (await served_raw(refuse)).source


async def test_where_nothing_listens_that_is_said() -> None:
    plots = PrometheusPlots("http://127.0.0.1:1", kept())
    await plots.read(recorder.EVENTS, by=(2,))
    assert "(Prometheus cannot be reached: " in plots.source
