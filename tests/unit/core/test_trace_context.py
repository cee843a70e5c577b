"""What a `traceparent` says, and which ones say nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.trace_context import Parent, read_parent, read_state, traceparent

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


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (b"", b""), (b"v=1", b"v=1"), (b" a=1 ,\t, b@c=2 x ,", b"a=1,b@c=2 x"), (b"a=1,a=2", b""),
        (b"A=1", b""), (b"a", b""), (b"a=", b""), (b"=1", b""), (b"a=1,b=\xc3\xa4", b""),
        (b"a=1=2", b""), (b"a=1;b", b"a=1;b"), (b"a" * 257 + b"=1", b""), (b"a=" + b"v" * 257, b""),
        (b"0tenant@sys/x_y-z*=!", b"0tenant@sys/x_y-z*=!"), (b"a=1\x00", b""),
    ],
)  # fmt: skip
def test_a_state_is_passed_on_if_it_is_one(value: bytes, read: bytes) -> None:
    assert read_state(value) == read


def test_a_long_state_is_cut_between_its_members() -> None:
    many = [b"v%d=%d" % (number, number) for number in range(40)]
    assert read_state(b",".join(many)) == b",".join(many[:32]), "32 members at most"
    some = [b"k%02d=%s" % (number, b"v" * 60) for number in range(10)]
    assert read_state(b",".join(some)) == b",".join(some[:7]), "512 bytes at most"
    long = b"long=" + b"v" * 200
    assert read_state(b",".join([long, *some])) == b",".join(some[:7]), "long ones go first"
    assert read_state(b",".join([long, *some[:3]])) == b",".join([long, *some[:3]])


@given(st.lists(st.binary(max_size=300), max_size=40).map(b",".join))
def test_any_state_is_read_and_reads_again_the_same(value: bytes) -> None:
    state = read_state(value)
    assert len(state) <= 512
    assert read_state(state) == state


@pytest.mark.parametrize(("flags", "shown"), [(0, b"01"), (1, b"01"), (2, b"03"), (3, b"03")])
def test_ours_is_sampled_and_read_again(flags: int, shown: bytes) -> None:
    value = traceparent(TRACE, SPAN, flags)
    assert value[-2:] == shown
    assert read_parent(value) == Parent(TRACE, SPAN, flags | 1)
