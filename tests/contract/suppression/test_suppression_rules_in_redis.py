"""The script and the rules in Python: random histories give equal answers and equal bytes.

Time is Redis' own: the script tells it, and the Python rules are run with what it told.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headgate.model.suppression import Scope
from headgate.suppression import rules
from headgate.suppression.store import RedisStore
from support.doubles.suppression_rules import StoredKey, run
from support.gateway.suppression_histories import (
    CALLS,
    LONG,
    NEAR,
    RULES,
    STEPS,
    make_call,
    plain_history,
    stored,
)
from support.process.connecting import reach
from support.process.stack import RunningRedis
from support.scale import examples

pytestmark = pytest.mark.redis


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(calls=CALLS)
def test_script_and_rules_agree(redis_server: RunningRedis, calls: list) -> None:  # type: ignore[type-arg]
    asyncio.run(compare(redis_server.url, calls))


@settings(max_examples=examples(1200), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
@example([[], [], [("is_same", True), ("spans", LONG._replace(quarantine=1e6))]])
@example([[], [], [("is_same", True), ("spans", LONG._replace(max_suppress_age=0.0))]])
@example([[], [("instead", [rules.refused(NEAR[0])])], [("is_full", "found out before")]])
@example([[], [], [("is_full", "found out here")], [("is_full", "found out here")]])
def test_they_agree_on_what_goes_a_way_of_its_own(
    redis_server: RunningRedis,
    steps: list,  # type: ignore[type-arg]
) -> None:
    asyncio.run(compare(redis_server.url, *plain_history(steps)))


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(calls=CALLS, full=st.lists(st.booleans(), min_size=8, max_size=8))
def test_they_agree_while_memory_is_full_now_and_then(
    redis_server: RunningRedis,
    calls: list,
    full: list[bool],  # type: ignore[type-arg]
) -> None:
    asyncio.run(compare(redis_server.url, calls, full))


async def compare(url: str, calls: list, full: Sequence[bool] = ()) -> None:  # type: ignore[type-arg]
    scopes = [Scope("one", os.urandom(16), 1, b"\x01" * 8), Scope("two", os.urandom(16), 1, b"")]
    store = RedisStore(url, 5000)
    await reach(store)
    try:
        held: dict[bytes, StoredKey] = {}
        for number, one in enumerate(calls):
            spans, first, second, flags, count, rule, pause_ms = one
            is_full = number < len(full) and full[number]
            scopes[0].partitions, scopes[0].rule = count, RULES[rule]
            await asyncio.sleep(pause_ms / 1000)
            call = make_call(scopes, spans, [first, second], flags)
            began_s = time.monotonic()
            await _fill(store, is_full)
            reply = await store.run(call)
            assert run(held, call, store._identity, reply.now_ms, is_full=is_full) == reply
            for name in [*call.entries, *(scope.incarnation for scope in scopes)]:
                expected = held.get(name)
                value, left_ms = await stored(store, name)
                assert value == (expected.value if expected else None)
                if expected is not None:
                    since_ms = (time.monotonic() - began_s) * 1000
                    assert abs(expected.expires - reply.now_ms - left_ms) < 2000 + since_ms
    finally:
        await _fill(store, False)
        await store.close()


async def _fill(store: RedisStore, is_full: bool) -> None:
    connection = store._redis.connection
    assert connection is not None
    await connection.send_command("CONFIG", "SET", "maxmemory", "1" if is_full else "0")
    assert await connection.read_response() == b"OK"
