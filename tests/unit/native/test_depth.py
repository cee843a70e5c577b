"""The depth of JSON: C and Python say the same of any bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.native import plain
from headgate.native.chosen import is_too_deep

TooDeep = Callable[[bytes, int], bool]
BOTH = pytest.mark.parametrize(
    "too_deep", [plain.is_too_deep, is_too_deep], ids=["python", "chosen"]
)


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * depth + closing * depth


def test_the_compiled_build_counts_in_c() -> None:
    wanted = os.environ.get("EXPECT_COMPILED") == "1"
    assert (is_too_deep is not plain.is_too_deep) is wanted


@given(
    st.binary(max_size=40) | st.text('[]{}"\\\\a,', max_size=60).map(str.encode), st.integers(0, 5)
)
def test_depth_check_in_c_agrees_with_its_twin(document: bytes, limit: int) -> None:
    assert is_too_deep(document, limit) == plain.is_too_deep(document, limit)


@BOTH
@pytest.mark.parametrize("limit", [1, 2, 5, 128])
def test_the_limit_itself_is_allowed_and_one_more_is_not(too_deep: TooDeep, limit: int) -> None:
    assert not too_deep(nested(limit), limit)
    assert too_deep(nested(limit + 1), limit)
    assert not too_deep(nested(limit, b'{"a":', b"}").replace(b":}", b":1}"), limit)
    assert too_deep(nested(limit + 1, b'{"a":', b"}").replace(b":}", b":1}"), limit)
    assert not too_deep(b"[" + nested(limit - 1) + b",[]" * 500 * (limit > 1) + b"]", limit)


@BOTH
@pytest.mark.parametrize(
    "string",
    [b'"[[[["', b'"\\"[[[["', b'"\\\\\\"[[[["', b'"]]]]"', b'"\\\\"', b'"{{{{\\\\"', b'"\\\\\\\\"'],
)
def test_brackets_in_strings_do_not_count(too_deep: TooDeep, string: bytes) -> None:
    document = b"[" + b",".join([string] * 40) + b",[[]]]"
    assert json.loads(document)
    assert not too_deep(document, 3)
    assert too_deep(document, 2)
