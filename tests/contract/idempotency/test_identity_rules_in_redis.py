"""The identity script and its rules in Python: random histories, equal answers and equal bytes.

Time is Redis' own: the script tells it, and the Python rules are run with what it told.
"""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.idempotency.rules import (
    CLAIM,
    DONE,
    PARTLY,
    RELEASE,
    RENEW,
    ClaimCall,
    StoredName,
    run,
    step_of,
)
from headgate.idempotency.store import RedisIdentityStore
from headgate.model.publish import Claim
from support.process.connecting import reach
from support.process.stack import RunningRedis
from support.scale import examples

pytestmark = pytest.mark.redis

# Claims of 1 and 3 ms are over within a test. What is kept is not: when exactly Redis drops an
# entry is its own affair.
SPANS = st.sampled_from([1.0, 3.0, 60_000.0, 60_000.0])
KEPT = st.sampled_from([60_000.0, 90_000.0])
STEP = st.tuples(
    st.sampled_from([CLAIM, CLAIM, CLAIM, RENEW, DONE, PARTLY, RELEASE]),
    st.sampled_from([0, 0, 1]),  # name
    st.sampled_from([b"f" * 16, b"f" * 16, b"f" * 16, b"g" * 16]),
    st.sampled_from([b"s" * 12, b"t" * 12]),
    KEPT,
    st.sampled_from([b"some", b"\0\xff" * 20]),
)
CALLS = st.lists(
    st.tuples(SPANS, st.sampled_from([0, 0, 2, 4]), st.lists(STEP, max_size=6)), max_size=8
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(calls=CALLS)
def test_script_and_rules_agree(redis_server: RunningRedis, calls: list) -> None:  # type: ignore[type-arg]
    asyncio.run(compare(redis_server.url, calls))


async def compare(url: str, calls: list) -> None:  # type: ignore[type-arg]
    names = [os.urandom(16), os.urandom(16)]
    store = RedisIdentityStore(url, 5000)
    await reach(store)
    try:
        held: dict[bytes, StoredName] = {}
        for claim_ms, pause_ms, steps in calls:
            await asyncio.sleep(pause_ms / 1000)
            operations = [
                step_of(Claim(names[name], fingerprint, token, keep_ms), letter, remembered)
                for letter, name, fingerprint, token, keep_ms, remembered in steps
            ]
            if not operations:
                continue
            call = ClaimCall(claim_ms, operations)
            began_s = time.monotonic()
            now, verdicts = await store.run_timed(call)
            assert run(held, call, now) == verdicts
            for name in names:
                await _compare_entry(store, name, held, now, began_s)
    finally:
        await store.close()


async def _compare_entry(
    store: RedisIdentityStore, name: bytes, held: dict[bytes, StoredName], now: int, began_s: float
) -> None:
    connection = store._redis.connection
    assert connection is not None
    await connection.send_command("GET", name)
    value = await connection.read_response()
    await connection.send_command("PTTL", name)
    left_ms = await connection.read_response()
    expected = held.get(name)
    assert value == (expected.value if expected else None)
    if expected is not None:
        since_ms = (time.monotonic() - began_s) * 1000
        assert abs(expected.expires - now - left_ms) < 2000 + since_ms
