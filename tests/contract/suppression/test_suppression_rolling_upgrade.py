"""Gateways of two versions share one Redis while a new one is rolled out: entries are read by both.

`suppression_before.lua` is the script of the version before: it sets every entry's expiry at each
write, where the present one leaves it alone as long as the entry says that it lives long enough.
"""

from __future__ import annotations

import asyncio
import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.model.suppression import Scope
from headgate.suppression.rules import SuppressionCall
from headgate.suppression.store import RedisStore
from support.doubles.suppression_rules import StoredKey, run
from support.gateway.suppression_histories import (
    CALLS,
    STEPS,
    make_call,
    plain_history,
    stored,
)
from support.process.connecting import reach
from support.process.stack import RunningRedis
from support.scale import examples

pytestmark = pytest.mark.redis

BEFORE = Path(__file__).with_name("suppression_before.lua").read_text()
KEPT = slice(
    52, 60
)  # of an entry: until when it is kept, the only part that they write differently
_TOKEN = struct.Struct(">12sdB")
HISTORIES = st.builds(lambda steps: plain_history(steps)[0], STEPS) | CALLS
WHO = st.lists(st.booleans(), min_size=16, max_size=16)


class Before:
    """The former version: each entry's operations were an argument, each verdict a number.

    A store inside, as nothing here may inherit from one that is compiled.
    """

    def __init__(self, url: str) -> None:
        self._store = RedisStore(url, 5000, BEFORE)
        self.connect, self.close = self._store.connect, self._store.close

    async def answer(self, call: SuppressionCall) -> tuple[int, int, list[int]]:
        keys = [*(scope.incarnation for scope in call.scopes), *call.entries]
        header = call.header(self._store._identity)
        script = self._store._redis
        answer = await script.evaluate([len(keys), *keys, header, *call.operations])
        return answer[0], answer[1], answer[3 + len(call.scopes) :]


@settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(calls=HISTORIES, is_before=WHO)
def test_two_versions_agree(
    redis_server: RunningRedis,
    calls: list,  # type: ignore[type-arg]
    is_before: list[bool],
) -> None:
    asyncio.run(compare(redis_server.url, calls, is_before))


async def compare(url: str, calls: list, is_before: list[bool]) -> None:  # type: ignore[type-arg]
    scopes = [Scope("one", os.urandom(16), 1, b"\x01" * 8), Scope("two", os.urandom(16), 1, b"")]
    now, before = RedisStore(url, 5000), Before(url)
    await reach(now)
    await reach(before)
    try:
        held: dict[bytes, StoredKey] = {}
        for one, by_former in zip(calls, is_before, strict=False):
            spans, first, second, flags, count, _rule, _pause_ms = one
            scopes[0].partitions = count
            call = make_call(scopes, spans, [first, second], flags)
            if by_former:
                time_ms, crowded, verdicts = await before.answer(call)
            else:
                reply = await now.run(call)
                time_ms, crowded, verdicts = reply.now_ms, reply.crowded, list(reply.verdicts)
            expected = run(held, call, now._identity, time_ms)
            assert (expected.crowded, expected.verdicts) == (crowded, verdicts)
            await check_entries(now, call, held, time_ms)
    finally:
        await now.close()
        await before.close()


async def check_entries(
    store: RedisStore, call: SuppressionCall, held: dict[bytes, StoredKey], time_ms: int
) -> None:
    """They are as the rules leave them, and live as long as they say and as is needed."""
    for name in call.entries:
        value, left_ms = await stored(store, name)
        expected = held.get(name)
        assert (value is None) == (expected is None)
        if value is None or expected is None:
            continue
        assert _but_kept(value) == _but_kept(expected.value)
        (kept,) = struct.unpack(">d", value[KEPT])
        assert left_ms > kept - time_ms + 60_000 - 2000
        assert all(deadline <= kept for _, deadline, _ in _TOKEN.iter_unpack(value[60:]))
        held[name] = StoredKey(value, time_ms + left_ms)


def _but_kept(value: bytes) -> bytes:
    return value[: KEPT.start] + value[KEPT.stop :]
