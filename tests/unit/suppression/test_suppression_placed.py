"""Records in a partition of the client's choice: whatever comes of them, `unchanged` never lies."""

from itertools import permutations

import pytest

from headgate.model.suppression import Scope
from headgate.suppression.rules import (
    CLEAR,
    SuppressionCall,
    SuppressionSpans,
    force,
    refused,
    reserve,
    settle,
)
from support.doubles.suppression_rules import StoredKey, run

SCOPE = Scope("deals", b"\1" * 16, 3, b"f")
LIMITS = SuppressionSpans(life=240_000, quarantine=0, max_suppress_age=3_600_000)
A, OLD, PLACED = b"a" * 16, b"o" * 12, b"p" * 12
NUMBER = b"\0\0"


def do(store: dict[bytes, StoredKey], *operations: bytes, now: int = 1000) -> int:
    """Do this to the key's entry; the verdict of the last reservation."""
    entry = SCOPE.entry(b"k")
    joined = b"\0" + b"".join(operations)
    call = SuppressionCall(LIMITS, b"n" * 16, [SCOPE], b"\0", [3], [entry], [joined], 1)
    return run(store, call, b"r" * 16, now).verdicts[0]


ENDS = {"old": settle(OLD, A, 7, 3), "placed": CLEAR + refused(PLACED)}


@pytest.mark.parametrize("ends", list(permutations(ENDS)))
def test_what_was_reserved_before_says_nothing_behind_it(ends: tuple[str, ...]) -> None:
    """A is reserved, then the placed record; they end in any order. The placed one may be newer."""
    store: dict[bytes, StoredKey] = {}
    assert do(store, reserve(OLD, A, NUMBER)) < 0
    assert do(store, force(PLACED, NUMBER)) < 0
    for end in ends:
        do(store, ENDS[end])
        assert do(store, reserve(b"x" * 12, A, NUMBER)) < 0
        do(store, refused(b"x" * 12))


def test_nothing_is_unchanged_while_it_is_under_way_and_afterwards() -> None:
    store: dict[bytes, StoredKey] = {}
    do(store, reserve(OLD, A, NUMBER))
    do(store, ENDS["old"])
    assert do(store, reserve(b"x" * 12, A, NUMBER)) == 7
    do(store, force(PLACED, NUMBER))
    assert do(store, reserve(b"x" * 12, A, NUMBER)) < 0
    do(store, refused(b"x" * 12))
    do(store, ENDS["placed"])
    assert do(store, reserve(b"y" * 12, A, NUMBER)) < 0
    do(store, settle(b"y" * 12, A, 8, 3))  # reserved behind it: trusted again
    assert do(store, reserve(b"z" * 12, A, NUMBER)) == 8
