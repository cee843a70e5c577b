"""The script and the rules in Python: random histories give equal answers and equal bytes.

Time is Redis' own: the script tells it, and the Python rules are run with what it told.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.backends.redis.suppression import RedisStore
from headgate.core.suppression import protocol
from headgate.core.suppression.protocol import (
    ANNOUNCE,
    DROP,
    MAX_TOKENS,
    Scope,
    SuppressionCall,
    SuppressionSpans,
)
from headgate.core.suppression.rules import StoredKey, run
from support.process.stack import RunningRedis
from support.scale import examples

pytestmark = pytest.mark.redis

# More than a key may have; the first few are used most.
TOKENS = [bytes([65 + n % 60, n]) * 6 for n in range(MAX_TOKENS + 6)]
DIGESTS = [bytes([97 + n]) * 16 for n in range(2)]
# Spans of 0 and 3 ms expire within a test, the long ones do not.
SPANS = st.sampled_from([0.0, 3.0, 60_000.0, 60_000.0])
LIMITS = st.builds(SuppressionSpans, SPANS, st.sampled_from([0.0, 0.0, 3.0]), SPANS, st.just(1e9))
PAUSES_MS = st.sampled_from([0, 0, 0, 4])
TOKEN = st.sampled_from(TOKENS[:2]) | st.sampled_from(TOKENS[:2]) | st.sampled_from(TOKENS)
DIGEST, COUNT = st.sampled_from(DIGESTS), st.sampled_from([1, 1, 1, 2, 3])
RULES = [b"\x01" * 8, b"\x02" * 8]
OPERATION = st.one_of(
    st.builds(lambda token, digest: ("r", token, digest), TOKEN, DIGEST),
    st.builds(lambda token, digest: ("r", token, digest), TOKEN, DIGEST),
    st.builds(lambda token: ("p", token), TOKEN),
    st.builds(protocol.register, TOKEN),
    st.builds(protocol.refused, TOKEN),
    st.builds(
        lambda token, digest, offset, count, keep: protocol.settle(
            token, digest, offset, count, keep=keep
        ),
        TOKEN,
        DIGEST,
        st.integers(0, 6) | st.just(2**40),
        COUNT,
        st.booleans(),
    ),
    st.just(protocol.CLEAR),
)
CROWD = st.just([("r", token, DIGESTS[0]) for token in TOKENS])
SOME = st.lists(OPERATION, min_size=1, max_size=5)
OPERATIONS = SOME | SOME | SOME | st.builds(lambda crowd, some: crowd + some, CROWD, SOME)
KEYS = st.dictionaries(st.sampled_from([b"x", b"y"]), OPERATIONS)
FLAGS = st.sampled_from([0, 0, 0, 0, DROP, ANNOUNCE, DROP + ANNOUNCE])
RULE = st.sampled_from([0, 0, 0, 0, 1])
CALLS = st.lists(st.tuples(LIMITS, KEYS, KEYS, FLAGS, COUNT, RULE, PAUSES_MS), max_size=8)


def encode(operations: list, numbers: list[int]) -> bytes:  # type: ignore[type-arg]
    parts = []
    for one in operations:
        if isinstance(one, bytes):
            parts.append(one)
            continue
        number = len(numbers).to_bytes(2, "big")
        numbers.append(0)
        parts.append(
            protocol.force(one[1], number)
            if one[0] == "p"
            else protocol.reserve(one[1], one[2], number)
        )
    return b"".join(parts)


def make_call(
    scopes: list[Scope], spans: SuppressionSpans, keys: list[dict], flags: int
) -> SuppressionCall:  # type: ignore[type-arg]
    entries, operations, numbers = [], [], list[int]()
    for place, (scope, wanted) in enumerate(zip(scopes, keys, strict=True)):
        for key, todo in wanted.items():
            entries.append(scope.entry(key))
            operations.append(bytes([place]) + encode(todo, numbers))
    both, counts = bytes([flags, 0]), [scope.partitions for scope in scopes]
    return SuppressionCall(
        spans, os.urandom(16), scopes, both, counts, entries, operations, len(numbers)
    )


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(calls=CALLS)
def test_script_and_rules_agree(redis_server: RunningRedis, calls: list) -> None:  # type: ignore[type-arg]
    asyncio.run(compare(redis_server.url, calls))


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
    await store.connect()
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
            assert run(held, call, store._identity, reply.now, is_full=is_full) == reply
            for name in [*call.entries, *(scope.incarnation for scope in scopes)]:
                expected = held.get(name)
                value, left_ms = await _stored(store, name)
                assert value == (expected.value if expected else None)
                if expected is not None:
                    since_ms = (time.monotonic() - began_s) * 1000
                    assert abs(expected.expires - reply.now - left_ms) < 2000 + since_ms
    finally:
        await _fill(store, False)
        await store.close()


async def _fill(store: RedisStore, is_full: bool) -> None:
    connection = store._redis.connection
    assert connection is not None
    await connection.send_command("CONFIG", "SET", "maxmemory", "1" if is_full else "0")
    assert await connection.read_response() == b"OK"


async def _stored(store: RedisStore, name: bytes) -> tuple[bytes | None, int]:
    connection = store._redis.connection
    assert connection is not None
    await connection.send_command("GET", name)
    value = await connection.read_response()
    await connection.send_command("PTTL", name)
    return value, await connection.read_response()
