"""Digests of names and contents: C and Python say the same of any bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.native import plain
from headgate.native.chosen import digested

Digested = Callable[[bytes, list[bytes], bytes], bytes]
BOTH = pytest.mark.parametrize("digest", [plain.digested, digested], ids=["python", "c"])
BLOCK = 128


def test_the_compiled_build_digests_in_c() -> None:
    wanted = os.environ.get("EXPECT_COMPILED") == "1"
    assert (digested is not plain.digested) is wanted


@given(
    st.binary(max_size=16),
    st.lists(st.binary(max_size=3 * BLOCK), max_size=5),
    st.binary(max_size=5 * BLOCK),
)
def test_c_and_python_say_the_same(person: bytes, parts: list[bytes], tail: bytes) -> None:
    assert digested(person, parts, tail) == plain.digested(person, parts, tail)


@pytest.mark.parametrize("around", [0, BLOCK, 2 * BLOCK, 65_536])
def test_ends_of_blocks_and_long_texts(around: int) -> None:
    text = os.urandom(around + 9)
    for size in range(max(0, around - 9), around + 9):
        tail = text[:size]
        assert digested(b"p", [], tail) == plain.digested(b"p", [], tail)
        assert digested(b"", [tail], b"x") == plain.digested(b"", [tail], b"x")


@BOTH
@pytest.mark.parametrize(
    "arguments",
    [
        (b"x" * 17, [], b""),
        ("text", [], b""),
        (b"", ["text"], b""),
        (b"", None, b""),
        (b"", [], "text"),
        (b"", [None], b""),
        (b"", []),
    ],
)
def test_anything_else_is_refused(digest: Digested, arguments: tuple[object, ...]) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError, AttributeError)):
        digest(*arguments)  # type: ignore[arg-type]


def test_digests_leak_no_references() -> None:
    person, part, tail = b"person-1", b"part-1" * 50, b"tail-1" * 50
    before = [sys.getrefcount(one) for one in (person, part, tail)]
    for _ in range(100):
        digested(person, [part, part], tail)
    assert [sys.getrefcount(one) for one in (person, part, tail)] == before
