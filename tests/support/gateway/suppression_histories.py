"""Random histories of calls to the suppression script."""

from __future__ import annotations

import os

from hypothesis import strategies as st

from headgate.model.suppression import Scope
from headgate.suppression import rules
from headgate.suppression.rules import ANNOUNCE, DROP, SuppressionCall, SuppressionSpans
from headgate.suppression.store import RedisStore
from support.doubles.suppression_rules import MAX_TOKENS

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
    st.builds(rules.register, TOKEN),
    st.builds(rules.refused, TOKEN),
    st.builds(
        lambda token, digest, offset, count, keep: rules.settle(
            token, digest, offset, count, keep=keep
        ),
        TOKEN,
        DIGEST,
        st.integers(0, 6) | st.just(2**40),
        COUNT,
        st.booleans(),
    ),
    st.just(rules.CLEAR),
)
CROWD = st.just([("r", token, DIGESTS[0]) for token in TOKENS])
SOME = st.lists(OPERATION, min_size=1, max_size=5)
OPERATIONS = SOME | SOME | SOME | st.builds(lambda crowd, some: crowd + some, CROWD, SOME)
KEYS = st.dictionaries(st.sampled_from([b"x", b"y"]), OPERATIONS)
FLAGS = st.sampled_from([0, 0, 0, 0, DROP, ANNOUNCE, DROP + ANNOUNCE])
RULE = st.sampled_from([0, 0, 0, 0, 1])
CALLS = st.lists(st.tuples(LIMITS, KEYS, KEYS, FLAGS, COUNT, RULE, PAUSES_MS), max_size=8)

# What the script has ways of their own for: a reservation and its settlement, again and again, of
# one key, with tokens and digests that differ in few bytes. Deviations lie just beyond a border.
NEAR = [b"tokentokento", b"tokentokenta", b"tokentakento", b"takentokento"]
CLOSE = [b"digestdigestdige", b"digestdigestdiga", b"digestdigastdige"]
LONG = SuppressionSpans(60_000.0, 0.0, 60_000.0, 1e9)
DEVIATIONS: dict[str, list[object]] = {
    "token": NEAR[1:],
    "digest": CLOSE,
    "offset": [0, 1, 2, 3],
    "count": [2, 3],
    "placed_by": [2, 3],
    "flags": [DROP, ANNOUNCE],
    "is_full": ["found out here", "found out before"],
    "is_settlement": [True, False],
    "is_same": [True],
    "spans": [
        LONG._replace(life=0.0),
        LONG._replace(life=600_000.0),
        LONG._replace(quarantine=1e6),
        LONG._replace(max_suppress_age=0.0),
    ],
    "instead": [  # as many bytes as a reservation or a settlement
        [rules.refused(NEAR[0])] * 2 + [rules.CLEAR] * 5,
        [rules.CLEAR] * 31,
        [rules.settle(NEAR[0], CLOSE[0], 9, 1, keep=True)],
        [rules.settle(NEAR[0], CLOSE[0], 9, 1), ("r", NEAR[0], CLOSE[1])],
        [("r", NEAR[1], CLOSE[0]), ("r", NEAR[2], CLOSE[0])],
        [rules.CLEAR],
    ],
}
DEVIATION = st.sampled_from([(name, value) for name in DEVIATIONS for value in DEVIATIONS[name]])
STEP = st.just([]) | st.just([]) | st.lists(DEVIATION, min_size=1, max_size=2)
STEPS = st.lists(STEP, min_size=4, max_size=16)


def plain_history(steps: list) -> tuple[list, list[bool]]:  # type: ignore[type-arg]
    """Calls as `CALLS` has them, and whether memory is full at each."""
    calls, full, reserved, is_settlement = [], [], 0, False
    token, digest = NEAR[0], CLOSE[0]
    for number, step in enumerate(steps):
        differs = dict(step)
        is_settlement = differs.get("is_settlement", is_settlement)
        if not is_settlement:
            reserved += not differs.get("is_same", False)
            token, digest = differs.get("token", NEAR[0]), CLOSE[reserved % len(CLOSE)]
        count = differs.get("count", 1)
        own = differs.get("token", token), differs.get("digest", digest)
        settle = (*own, differs.get("offset", number), differs.get("placed_by", count))
        usual = [rules.settle(*settle)] if is_settlement else [("r", *own)]
        keys = {b"x": differs.get("instead", usual)}
        full.append("is_full" in differs)
        if differs.get("is_full") == "found out before":  # by another key's write
            keys = {b"y%d" % number: [rules.register(NEAR[0])]} | keys
        spans, flags = differs.get("spans", LONG), differs.get("flags", 0)
        calls.append((spans, keys, {}, flags, count, 0, 0))
        is_settlement = not is_settlement
    return calls, full


def encode(operations: list, numbers: list[int]) -> bytes:  # type: ignore[type-arg]
    parts = []
    for one in operations:
        if isinstance(one, bytes):
            parts.append(one)
            continue
        number = len(numbers).to_bytes(2, "big")
        numbers.append(0)
        parts.append(
            rules.force(one[1], number) if one[0] == "p" else rules.reserve(one[1], one[2], number)
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


async def stored(store: RedisStore, name: bytes) -> tuple[bytes | None, int]:
    """The value and how long it has left, ms."""
    connection = store._redis.connection
    assert connection is not None
    await connection.send_command("GET", name)
    value = await connection.read_response()
    await connection.send_command("PTTL", name)
    return value, await connection.read_response()
