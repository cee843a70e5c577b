"""Request smuggling: no port sees a request in bytes in which a strict reader sees another.

The gateway may refuse more than the reader (h11) does, and nothing else: what it carries out is
what the reader sees, in order, up to where it refuses and closes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from support.attacks.reference import read
from support.attacks.smuggling import FAMILIES, Case, Names, random_requests
from support.attacks.targets import PORTS, Answers, Target, answers, target
from support.scale import scaled

# Behind every case: who has read on as the reader did answers this, and closes.
END = b"GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
QUIET_S = 0.1  # for what waits for more, as the reader does: until it is known not to answer


class Seen(NamedTuple):
    """One case. asked: as the reader sees it.  done: by the gateway."""

    asked: list[str]
    done: list[str]
    is_refused: bool
    is_whole: bool
    answers: Answers


class Bench:
    """Sends cases to a target, with names that no other case has."""

    def __init__(self, to: Target) -> None:
        self._to = to
        self._numbers = count(1000)
        self._known: set[str] = set()

    async def see(self, case: Case, *, warm: bool, step: int) -> Seen:
        """warm: behind a good request on the same connection, so that its head is known."""
        to, number = self._to, next(self._numbers)
        names = Names(
            to.body(f"a-{number}"), to.request(f"b-{number}"), to.request(f"smuggled-{number}")
        )
        before = to.request(f"w-{number}") if warm else b""
        data = before + case(to, names) + END
        reading = read(data)
        ends = bool(reading.requests) and reading.requests[-1].target == "/live"
        is_whole = reading.is_refused or ends
        waits = {} if is_whole else {"due": len(reading.requests), "quiet_s": QUIET_S}
        got = await answers(to.port, data, step=step, **waits)
        asked = [
            found[1].decode()
            for request in reading.requests
            if request.target == to.path and (found := re.search(rb':"([\w-]+)"}$', request.body))
        ]
        done = [name for name in to.done() if name not in self._known]
        self._known.update(done)
        return Seen(asked, done, reading.is_refused, is_whole, got)


def judge(name: str, seen: Seen) -> None:
    known = f"{name}: {seen}"
    assert sorted(seen.done) == sorted(seen.asked[: len(seen.done)]), known
    if seen.is_refused or len(seen.done) < len(seen.asked):
        assert seen.answers.is_closed, f"it goes on behind what is refused: {known}"
    assert all(status < 500 for status in seen.answers.statuses), known


def ways() -> Iterator[tuple[bool, int]]:
    """Alone or behind a good request; in one piece or byte by byte."""
    for warm in (False, True):
        for step in (0, 1):
            yield warm, step


async def try_all(to: Target, cases: Iterable[tuple[str, Case]], steps: bool = True) -> None:
    bench = Bench(to)
    for name, case in cases:
        for warm, step in ways():
            if step and not steps:
                continue
            judge(f"{name}, warm {warm}, step {step}", await bench.see(case, warm=warm, step=step))
            await asyncio.sleep(0)


@pytest.mark.parametrize("kind", PORTS)
@pytest.mark.parametrize("family", FAMILIES)
async def test_request_smuggling(tmp_path: Path, kind: str, family: str) -> None:
    cases = [one for one in FAMILIES[family].items() if "long" not in one[0]]
    async with target(kind, tmp_path) as to:
        await try_all(to, cases)


@pytest.mark.parametrize("kind", PORTS)
async def test_request_smuggling_with_a_long_chunk_extension(tmp_path: Path, kind: str) -> None:
    cases = [one for one in FAMILIES["chunks"].items() if "long" in one[0]]
    async with target(kind, tmp_path) as to:
        await try_all(to, cases, steps=False)


@pytest.mark.parametrize("kind", PORTS)
@pytest.mark.parametrize("size", scaled(150, 1500))
async def test_request_smuggling_at_random(tmp_path: Path, kind: str, size: int) -> None:
    """Pieces that decide where a request ends, in any order and with any line ends."""
    cases = [(f"request {n}", one) for n, one in enumerate(random_requests(1, size))]
    async with target(kind, tmp_path) as to:
        await try_all(to, cases, steps=False)


@pytest.mark.parametrize("kind", PORTS)
async def test_the_reader_and_the_gateway_agree_on_good_requests(tmp_path: Path, kind: str) -> None:
    """Else a gateway that refuses everything would pass."""
    good: list[tuple[str, Case]] = [
        ("length", lambda to, names: to.request("", body=names.a) + names.b),
        ("chunks", FAMILIES["transfer codings"]["coding 'CHUNKED'"]),
        ("extensions", FAMILIES["chunks"]["extensions"]),
        ("trailers", FAMILIES["chunks"]["trailers"]),
    ]
    async with target(kind, tmp_path) as to:
        bench = Bench(to)
        for name, case in good:
            for warm, step in ways():
                seen = await bench.see(case, warm=warm, step=step)
                assert sorted(seen.done) == sorted(seen.asked), (name, seen)
                assert seen.done
