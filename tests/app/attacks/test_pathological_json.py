"""Documents that are small to send and costly to read: memory is counted, and work by its growth.

What a document of 2 MB costs in memory is bounded by a multiple of its own bytes. Some of these
once took 25 to 65 times as much, and a body may have 16 MiB.
"""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable

import pytest

from headgate.formats.json_text import KeyReader
from headgate.model.keys import KeyRule
from headgate.model.outcome import Reason, Refused
from headgate.native.chosen import is_too_deep
from support.gateway.data_plane_world import DataPort, data_port

SIZE = 2_000_000
TIMES = 6  # of the document's size: it is copied, and taken apart once


def filled(piece: bytes) -> bytes:
    """An array of so many pieces."""
    return b"[" + piece * (SIZE // len(piece)) + b"1]"


def read(pointers: tuple[str, ...], document: bytes) -> bytes | Reason | None:
    """The key, or why there is none."""
    reader = KeyReader(KeyRule.parse(pointers))
    try:
        return reader(document)
    except Refused as refused:
        return refused.failure.reason


def peak_of(work: Callable[[], object]) -> int:
    """Bytes that were in use beside what was there before, at the worst moment."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


ONES = b'{"a":' + filled(b"1,") + b"}"
CASES: dict[str, tuple[tuple[str, ...], bytes, bytes | Reason]] = {
    "into an array": (("/a/0",), ONES, b"1"),
    "into an object": (("/a/x",), b'{"a":{' + b'"k":1,' * (SIZE // 6) + b'"x":7}}', b"7"),
    "an array": (("/id",), filled(b"{},"), Reason.MISSING_KEY),
    "an array with its key": (("/0",), filled(b"1,"), b"1"),
    "texts": (("/id",), filled(b'"a",'), Reason.MISSING_KEY),
    "a lone surrogate": (
        ("/id",), b'{"id":1,"s":"\\ud800","n":' + filled(b"{},") + b"}", Reason.MALFORMED
    ),
    "a number": (("/id",), b'{"id":1,"n":' + b"9" * SIZE + b"}", b"1"),
    "an exponent": (("/id",), b'{"id":1,"n":1e' + b"9" * SIZE + b"}", b"1"),
    "duplicate names": (("/id",), b"{" + b'"id":1,' * (SIZE // 7) + b'"id":2}', b"2"),
    "eight pointers": (tuple(f"/a/{n}" for n in range(8)), ONES, b":".join([b"1"] * 8)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_pathological_json_takes_no_multiple_of_memory(case: str) -> None:
    pointers, document, expected = CASES[case]
    assert read(pointers, document) == expected
    assert peak_of(lambda: read(pointers, document)) < TIMES * len(document)


@pytest.mark.parametrize("sign", [b"[", b"{", b'{"a":', b"[[],"])
def test_pathological_json_that_nests_without_end(sign: bytes) -> None:
    assert is_too_deep(sign * (SIZE // 10), 128)
    assert read(("/id",), sign * (SIZE // 10)) is Reason.MALFORMED


def test_pathological_json_with_names_that_collide() -> None:
    """Names that collide in one process do not in the next: their hashes are keyed by chance."""
    names = [f"k{number}" for number in range(1000)]
    document = b'{"id":1,' + b",".join(f'"{name}":1'.encode() for name in names) + b"}"
    assert read(("/id",), document) == b"1"
    program = "print(hash('k1'), hash(b'k1'))"
    seen = {subprocess.check_output([sys.executable, "-c", program]) for _ in range(3)}
    assert len(seen) == 3


@pytest.fixture
async def port() -> AsyncIterator[DataPort]:
    async with data_port() as running:
        yield running


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"[" * 200_000, "application/json", 400),
        (b'{"a":' * 200_000, "application/json", 400),
        (b"[" * 200_000, "application/vnd.x+json", 400),
        (b'{"id":' + b"9" * 50 + b"}", "application/json", 201),
        (b'{"id":1,"id":2}', "application/json", 201),
        (b'{"id":1e400}', "application/json", 422),
        (b'{"id":"\\ud800"}', "application/json", 422),
        (b'{"id":"\\u0000"}', "application/json", 201),
        (b'{"events":' + b"[" * 200_000, "application/vnd.headgate.batch+json", 400),
        (b"[" * 200_000, "application/cloudevents-batch+json", 400),
    ],
)
async def test_pathological_json_is_answered(
    port: DataPort, body: bytes, content_type: str, status: int
) -> None:
    answer = await port.post("orders", body, {"Content-Type": content_type})
    assert answer.status == status, answer
    after = await port.post("orders", b'{"id":1}', {"Content-Type": "application/json"})
    assert after.status == 201
