"""Digests of windows: the same as the gateway's own, and never long on the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from headgate.coalescer.decisions import Digests, Turns
from headgate.coalescer.windows import HeldEvent, Window, packed
from headgate.ingest.gate import Compiler
from headgate.model.content import INLINE_BYTES, Fallback
from headgate.model.route import Route
from headgate.offload.helper_process import HelperProcess
from support.gateway.fakes import policy, topic_state

JSON = [("content-type", b"application/json")]
LONG = "x" * INLINE_BYTES


class StubHelper:
    """Stands for the process helper: answers here, or (lost) not at all."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_lost = False

    def ask(self, work: Callable[..., Any], *given: Any) -> asyncio.Future[Any]:
        self.asked += 1
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(None if self.is_lost else work(*given))
        return answer


class World:
    def __init__(self, **options: object) -> None:
        self.helper = StubHelper()
        self.fallbacks: list[tuple[str, Fallback]] = []
        self.digests = Digests(
            cast(HelperProcess, self.helper),
            lambda topic, why: self.fallbacks.append((topic, why)),
            Turns(),
        )
        state = {"kind": "state", "key": ("/id",), "coalesce_quiet_ms": 100, **options}
        self.route: Route = Compiler(128, "ns")(policy(**state), topic_state())

    async def of(self, *values: bytes | None) -> list[bytes | None]:
        return await self.digests.of(self.route, [window(value) for value in values])


def window(value: bytes | None) -> Window:
    return Window(HeldEvent(0, b"k", value, packed(JSON), 0, 0, "p", False, None, 100))


@pytest.fixture
def canonical() -> World:
    return World(suppress="canonical", ignore=("/at",))


async def test_small_ones_are_compared_here_by_their_values(canonical: World) -> None:
    one, same, other, tombstone = await canonical.of(
        b'{"a": 1, "b": 2, "at": 5}', b'{"b":2,"a":1}', b'{"b":2,"a":2}', None
    )
    assert one == same
    assert len({one, other, tombstone}) == 3
    assert canonical.helper.asked == 0


async def test_large_ones_are_compared_aside(canonical: World) -> None:
    texts = [json.dumps({"id": 1, "t": LONG, "at": at}).encode() for at in range(3)]
    texts.append(json.dumps({"id": 2, "t": LONG}).encode())
    found = await canonical.of(*texts, b"{}")
    assert canonical.helper.asked == 4
    assert found[0] == found[1] == found[2]
    assert len(set(found)) == 3


async def test_without_the_process_bytes_are_compared(canonical: World) -> None:
    canonical.helper.is_lost = True
    one, other = (b'{"t": "%s", "at": %d}' % (LONG.encode(), at) for at in (1, 2))
    found = await canonical.of(one, one, other)
    assert found[0] == found[1] != found[2]
    assert canonical.fallbacks == [("orders", Fallback.POOL)] * 3


async def test_bytes_where_the_topic_compares_bytes_and_nothing_where_it_does_not() -> None:
    raw = World(suppress="raw")
    one, same, other = await raw.of(b'{"a":1}', b'{"a":1}', b'{"a": 1}')
    assert one == same != other
    assert raw.route.digest is not None
    assert one == raw.route.digest(b'{"a":1}', b"application/json")
    assert await World(suppress="off").of(b"{}") == [None]


async def test_others_have_their_turn_while_many_are_compared(canonical: World) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    document = json.dumps({"t": "x" * 30_000}).encode()
    await canonical.of(*[document] * 100)
    counting.cancel()
    assert turns >= 30  # 3 MB: two or three documents a turn
