"""Where a request lies and what of its head is its own: C and Python say the same of any bytes."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable

import pytest

from headgate.native import plain
from headgate.native.chosen import framed
from support.memory import CALLS, blocks_kept

Frame = Callable[[bytes], tuple[bytes, dict[bytes, bytes], int, int] | None]

START = b"POST /v1/topics/orders/events HTTP/1.1\r\n"
BOTH = pytest.mark.parametrize("frame", [plain.framed, framed], ids=["python", "chosen"])
NAMES = [
    b"Content-Length", b"X-Request-Id", b"Traceparent", b"Headgate-Key", b"Headgate-Event-Id",
    b"Headgate-Timestamp", b"Idempotency-Key",
]  # fmt: skip
# What a line may be made of: nearly what is looked for, more often than not.
PIECES = [
    *NAMES, *(name.lower() for name in NAMES), *(name.upper() for name in NAMES),
    b"content-Length", b"Content-length", b"cOntent-length", b"X-request-ID", b"headgate-Key",
    b"Headgate-Key*", b"Host", b"A",
    b": ", b": ", b": ", b": ", b":", b":  ", b" : ", b":\t", b"",
    b"4", b"12", b"0", b"-4", b"+4", b"4 ", b"4,4", b"x" * 127, b"x" * 128,
    b"x" * 129, b"~!", b"\x7f",
    b"\xc3\xa9", b"\x00", b"\r", b"\n", b"1" * 9, b"1" * 10,
    b"\r\n", b"\r\n", b"\r\n", b"\r\n", b"\r\n\r\n", b"\r\r\n",
]  # fmt: skip


def test_the_compiled_build_reads_in_c() -> None:
    wanted = os.environ.get("EXPECT_COMPILED") == "1"
    assert (framed is not plain.framed) is wanted


@BOTH
def test_values_of_its_own_are_told(frame: Frame) -> None:
    head = START + b"Host: x\r\ncontent-Length:12\r\nX-REQUEST-ID: a:b\r\nheadgate-event-Id: ~"
    same = START + b"Host: x\r\ncontent-Length:\r\nX-REQUEST-ID: \r\nheadgate-event-Id: "
    own = {b"x-request-id": b"a:b", b"headgate-event-id": b"~"}
    size = len(head) + 4
    assert frame(head + b"\r\n\r\nbody") == (same, own, size, size + 12)


@BOTH
@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length : 4",
        b"Content-Length:  4",
        b"Content-Length: 4 ",
        b"Content-Length: 1234567890",
        b"Content-Length: +4",
        b"Content-Length: 4\r\nContent-Length: 4",
        b"Content-Length: 4\r\nTraceparent: a\r\ntraceparent: a",
        # Without its value, any of these would be the text of one with a plain value.
        b"Content-Length: 4\r\nHeadgate-Key: ",
        b"Content-Length: 4\r\nHeadgate-Key:",
        b"Content-Length: 4\r\nHeadgate-Key: a\r\nHeadgate-Key: ",
        b"Content-Length: 4\r\nHeadgate-Key: \r\nHeadgate-Key: a",
        # aiohttp takes the last of a name, and knows no case.
        b"Content-Length: 4\r\nHeadgate-Key: a\r\nHEADGATE-KEY: b",
        b"Content-Length: 4\r\nHeadgate-Key: a\r\nHeadgate-Key: b c",
        b"Content-Length: 4\r\nHeadgate-Key: a\r\nHeadgate-Key:\tb",
        b"Content-Length: 4\r\nX-Request-Id: " + b"x" * 129,
        b"Content-Length: 4\r\nA: " + bytes(4096),
        b"Host: x",
    ],
)
def test_what_is_not_looked_at(frame: Frame, lines: bytes) -> None:
    assert frame(START + lines + b"\r\n\r\nbody") is None


@BOTH
def test_a_head_has_4096_bytes_at_most(frame: Frame) -> None:
    head = START + b"Content-Length: 4\r\nA: "
    longest = head + b"a" * (4096 - len(head) - 4)
    assert frame(longest + b"\r\n\r\n") == (longest.replace(b" 4\r\n", b" \r\n"), {}, 4096, 4100)
    assert frame(longest + b"a\r\n\r\n") is None
    assert frame(longest + b"\r\n\r") is None


@BOTH
@pytest.mark.parametrize("wrong", ["text", None, 4])
def test_anything_but_bytes_is_refused(frame: Frame, wrong: object) -> None:
    with pytest.raises((TypeError, AttributeError)):
        frame(wrong)  # type: ignore[arg-type]


def a_head(some: random.Random) -> bytes:
    if some.random() < 0.3:
        return START + b"".join(some.choices(PIECES, k=some.randint(0, 40)))
    lines = [START]
    for _ in range(some.randint(0, 5)):
        lines += [some.choice(PIECES[:23]), b": ", some.choice(PIECES[32:]), b"\r\n"]
    lines += [b"Content-Length: 4\r\n", b"\r\nbody"]
    whole = bytearray(b"".join(lines))
    for _ in range(some.choice([0, 0, 1, 3])):
        whole[some.randrange(len(whole))] = some.choice(b"\r\n :-aA4\x00\xff")
    return bytes(whole)


def compare(seed: int, heads: int) -> int:
    """How many of them were taken."""
    some, taken = random.Random(seed), 0
    for _ in range(heads):
        head = a_head(some)
        expected = plain.framed(head)
        assert framed(head) == expected, head
        taken += expected is not None
    return taken


@pytest.mark.parametrize("seed", range(4))
def test_c_and_python_say_the_same(seed: int) -> None:
    assert compare(seed, 2000) > 200


def test_framing_leaks_no_references() -> None:
    heads = [a_head(random.Random(seed)) for seed in range(200)]

    def call() -> None:
        for head in heads:
            framed(head)

    call()
    gc.collect()  # what others have left behind
    references = [*map(sys.getrefcount, heads)]
    assert blocks_kept(call) < CALLS
    assert [*map(sys.getrefcount, heads)] == references
