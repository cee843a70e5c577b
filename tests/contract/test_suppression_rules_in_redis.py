"""The script and the rules in Python: random histories give equal answers and equal bytes.

Time is Redis' own: the script tells it, and the Python rules are run with what it told.
"""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.backends.redis import RedisStore
from headgate.core import suppression
from headgate.core.suppression import Call, Limits, Scope
from headgate.core.suppression_rules import Held, run
from stack import RunningRedis

pytestmark = pytest.mark.redis

TOKENS = [bytes([65 + n]) * 12 for n in range(2)]
DIGESTS = [bytes([97 + n]) * 16 for n in range(2)]
# Spans of 0 and 3 ms expire within a test, the long ones do not.
SPANS = st.sampled_from([0.0, 3.0, 60_000.0, 60_000.0])
LIMITS = st.builds(Limits, SPANS, st.sampled_from([0.0, 0.0, 3.0]), SPANS, st.just(1e9))
RARELY, PAUSES_MS = st.sampled_from([False, False, False, True]), st.sampled_from([0, 0, 0, 4])
TOKEN, DIGEST = st.sampled_from(TOKENS), st.sampled_from(DIGESTS)
OPERATION = st.one_of(
    st.builds(lambda token, digest: ("r", token, digest), TOKEN, DIGEST),
    st.builds(lambda token, digest: ("r", token, digest), TOKEN, DIGEST),
    st.builds(lambda token: ("p", token), TOKEN),
    st.builds(suppression.register, TOKEN),
    st.builds(suppression.refused, TOKEN),
    st.builds(
        lambda token, digest, offset, keep: suppression.settle(token, digest, offset, keep=keep),
        TOKEN,
        DIGEST,
        st.integers(0, 6) | st.just(2**40),
        st.booleans(),
    ),
    st.just(suppression.CLEAR),
)
KEYS = st.dictionaries(st.sampled_from([b"x", b"y"]), st.lists(OPERATION, min_size=1, max_size=5))
CALLS = st.lists(st.tuples(LIMITS, KEYS, KEYS, RARELY, PAUSES_MS), max_size=8)


def encode(operations: list, numbers: list[int]) -> bytes:  # type: ignore[type-arg]
    parts = []
    for one in operations:
        if isinstance(one, bytes):
            parts.append(one)
            continue
        number = len(numbers).to_bytes(2, "big")
        numbers.append(0)
        parts.append(
            suppression.force(one[1], number)
            if one[0] == "p"
            else suppression.reserve(one[1], one[2], number)
        )
    return b"".join(parts)


def make_call(scopes: list[Scope], limits: Limits, keys: list[dict], drop: bool) -> Call:  # type: ignore[type-arg]
    entries, operations, numbers = [], [], list[int]()
    for place, (scope, wanted) in enumerate(zip(scopes, keys, strict=True)):
        for key, todo in wanted.items():
            entries.append(scope.entry(key))
            operations.append(bytes([place]) + encode(todo, numbers))
    dropped = bytes([drop, 0])
    return Call(limits, os.urandom(16), scopes, dropped, entries, operations, len(numbers))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(calls=CALLS)
def test_script_and_rules_agree(redis_server: RunningRedis, calls: list) -> None:  # type: ignore[type-arg]
    asyncio.run(compare(redis_server.url, calls))


async def compare(url: str, calls: list) -> None:  # type: ignore[type-arg]
    scopes = [Scope("one", os.urandom(16), 1, b"\x01" * 8), Scope("two", os.urandom(16), 1, b"")]
    store = RedisStore(url, 5000)
    await store.connect()
    try:
        held: dict[bytes, Held] = {}
        for limits, first, second, drop, pause_ms in calls:
            await asyncio.sleep(pause_ms / 1000)
            call = make_call(scopes, limits, [first, second], drop)
            began_s = time.monotonic()
            reply = await store.run(call)
            assert run(held, call, store._identity, reply.now) == reply
            for name in [*call.entries, *(scope.incarnation for scope in scopes)]:
                expected = held.get(name)
                value, left_ms = await _stored(store, name)
                assert value == (expected.value if expected else None)
                if expected is not None:
                    since_ms = (time.monotonic() - began_s) * 1000
                    assert abs(expected.expires - reply.now - left_ms) < 2000 + since_ms
    finally:
        await store.close()


async def _stored(store: RedisStore, name: bytes) -> tuple[bytes | None, int]:
    connection = store._redis.connection
    assert connection is not None
    await connection.send_command("GET", name)
    value = await connection.read_response()
    await connection.send_command("PTTL", name)
    return value, await connection.read_response()
