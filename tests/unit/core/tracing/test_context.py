"""What a `traceparent` says, and which ones say nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.tracing.context import Parent, read_parent, traceparent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01".encode()


def test_the_example_of_the_specification() -> None:
    assert read_parent(GOOD) == Parent(TRACE, SPAN, 1)
    assert read_parent(GOOD[:-2] + b"00") == Parent(TRACE, SPAN, 0)


@pytest.mark.parametrize(
    ("value", "is_sampled"),
    [(b"01", True), (b"03", True), (b"ff", True), (b"00", False), (b"02", False), (b"fe", False)],
)
def test_one_bit_says_whether_the_caller_records(value: bytes, is_sampled: bool) -> None:
    parent = read_parent(GOOD[:-2] + value)
    assert parent is not None
    assert parent.is_sampled is is_sampled


@pytest.mark.parametrize(
    "value",
    [
        None, b"", b"00-1", GOOD.upper(), GOOD + b" ", b" " + GOOD, GOOD + b"-more",
        b"ff" + GOOD[2:], GOOD.replace(TRACE.encode(), b"0" * 32),
        GOOD.replace(SPAN.encode(), b"0" * 16), GOOD[:-1], GOOD.replace(b"-", b"_"),
        GOOD[:-3] + b"-0g", GOOD + b"\n",
    ],
)  # fmt: skip
def test_what_is_no_parent(value: bytes | None) -> None:
    assert read_parent(value) is None


def test_a_later_version_may_say_more() -> None:
    assert read_parent(b"01" + GOOD[2:] + b"-what-comes") == Parent(TRACE, SPAN, 1)
    assert read_parent(b"01" + GOOD[2:] + b"what-comes") is None


@given(st.binary(max_size=80))
def test_any_bytes_are_read(value: bytes) -> None:
    parent = read_parent(value)
    if parent is not None:
        assert value.decode().split("-")[1:3] == [parent.trace_id, parent.span_id]


@pytest.mark.parametrize(("flags", "shown"), [(0, b"01"), (1, b"01"), (2, b"03"), (3, b"03")])
def test_ours_is_sampled_and_read_again(flags: int, shown: bytes) -> None:
    value = traceparent(TRACE, SPAN, flags)
    assert value[-2:] == shown
    assert read_parent(value) == Parent(TRACE, SPAN, flags | 1)
