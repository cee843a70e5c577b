"""Header floods: many fields, long ones, heads that are all different, many requests at once."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from headgate.config.settings import HttpSettings
from support.attacks.targets import PORTS, answers, target

LONGEST = HttpSettings().header_max_bytes


@pytest.mark.parametrize("kind", PORTS)
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([f"X-{n}: a" for n in range(200)], id="many"),
        pytest.param(["X-A: a"] * 200, id="many of a name"),
        pytest.param([f"X-{n}: {'a' * 8000}" for n in range(200)], id="many long ones"),
        pytest.param([f"X-A: {'a' * (LONGEST + 10)}"], id="a long value"),
        pytest.param([f"{'a' * (LONGEST + 10)}: x"], id="a long name"),
        pytest.param([f"X-A: {'a' * 10_000_000}"], id="one without end"),
    ],
)
async def test_header_floods(tmp_path: Path, kind: str, fields: list[str]) -> None:
    """Refused with 431 and closed; a client that is cut off while it sends may not see it."""
    async with target(kind, tmp_path) as to:
        found = await answers(to.port, to.head("Content-Length: 0", *fields))
        assert found.is_closed
        assert found.statuses in ([431], [])
        assert to.done() == []


@pytest.mark.parametrize("kind", PORTS)
async def test_header_floods_on_the_request_line(tmp_path: Path, kind: str) -> None:
    async with target(kind, tmp_path) as to:
        for path in ("/" + "a" * 100_000, "/live?" + "a&" * 50_000):
            found = await answers(to.port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert found.is_closed
            assert found.statuses in ([431], [])


async def test_header_floods_of_heads_that_are_all_different(tmp_path: Path) -> None:
    """Heads are remembered to be read quickly; of different ones no more than fits."""
    async with target("data", tmp_path) as to:
        await answers(to.port, to.request("warm", "Connection: close"))
        tracemalloc.start()
        try:
            for turn in range(3):
                sent = b"".join(
                    to.request(f"n-{turn}-{n}", f"X-A: {n:03000}")
                    for n in range(turn * 700, turn * 700 + 700)
                )
                found = await answers(to.port, sent + to.request("end", "Connection: close"))
                assert found.statuses == [201] * 701
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < 16_000_000


@pytest.mark.parametrize("kind", PORTS)
async def test_header_floods_of_pipelined_requests(tmp_path: Path, kind: str) -> None:
    """What arrives faster than it is answered is not read: aiohttp keeps some, the rest waits."""
    async with target(kind, tmp_path) as to:
        asked = b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n" * 5000
        tracemalloc.start()
        try:
            found = await answers(to.port, asked + to.request("end", "Connection: close"))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(found.statuses) == 5001
        assert to.done() == ["end"]
        assert peak < 24_000_000  # of which the answers are some, and the test has two copies
