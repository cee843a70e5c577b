"""Record batches, encoded in C where that is compiled, against aiokafka's own, byte by byte.

`make test-compiled` must not pass without the C: what asks for it is skipped in other runs alone.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.kafka.producer import Builder
from headgate.model.publish import Record
from headgate.native import plain
from headgate.native.chosen import Records
from support.kafka.record_batches import Decoded, decode

NAME = "headgate.native._records"
MAKERS = [Records, plain.Records]
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NOW_MS = 1_700_000_000_000
REFUSALS = (TypeError, ValueError, AttributeError)

# Lengths where a varint gets a byte more (7 bits each, one of them the sign), and around them.
EDGES = [0, 1, 63, 64, 65, 8191, 8192, 8193]
lengths = st.sampled_from(EDGES) | st.integers(0, 300)
contents = st.builds(lambda length, byte: bytes([byte]) * length, lengths, st.integers(0, 255))
texts = st.text(max_size=9) | st.builds(lambda length: "n" * length, st.sampled_from(EDGES))
pairs = st.tuples(texts, st.none() | contents)
# Some tuples again and again, as all events of a request have them.
SHARED = [("content-type", b"application/json"), ("hg-producer", b"shop"), ("", b"")]
header_lists = st.lists(st.sampled_from(SHARED) | pairs, max_size=5)
timestamps = st.integers(NOW_MS - 100, NOW_MS + 100) | st.sampled_from(
    [-(2**63), -(2**31), -2, -1, 0, 1, 63, 64, 8191, 8192, 2**31, 2**62, 2**63 - 1]
)
times = st.sampled_from([-1, 0, 1]) | st.integers(NOW_MS - 100, NOW_MS + 100)
some_rows = st.tuples(times, st.none() | contents, header_lists)
some_bytes = st.sampled_from([0, 100, 500, 1 << 20])
rows = st.tuples(timestamps, st.none() | contents, st.none() | contents, header_lists)


def histories(min_size: int = 0, max_size: int = 12) -> st.SearchStrategy[list[Any]]:
    """Records that aiokafka encodes as they are: the first one has a timestamp."""
    many = st.lists(rows, min_size=min_size, max_size=max_size)
    return many.filter(lambda some: not some or some[0][0] != -1)


def records(max_bytes: int) -> Any:
    if os.environ.get("EXPECT_COMPILED") != "1" and importlib.util.find_spec(NAME) is None:
        pytest.skip("not compiled")
    return importlib.import_module(NAME).Records(max_bytes)


def theirs(codec: int, max_bytes: int) -> Any:
    builder: Any = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, 0, max_bytes)
    return builder


def compare(ours: Builder, other: Any, many: list[Any]) -> None:
    """Both take the same records and refuse the same ones as too many."""
    for timestamp_ms, key, value, headers in many:
        record = Record("t", 0, key, value, headers, timestamp_ms)
        offset = ours.record_count()
        taken = other.append(offset, timestamp_ms, key, value, headers) is not None
        assert ours.append(record) == taken
        assert ours.size() == other.size()
        assert ours.record_count() == offset + taken


def test_the_builder_encodes_in_c() -> None:
    assert type(records(1000)) is Records


@pytest.mark.parametrize("codec", CODECS.values(), ids=list(CODECS))
@settings(deadline=None)
@given(histories(), st.sampled_from([0, 62, 500, 20_000, 1 << 20, 1 << 40]))
@example([], 1000)
@example([(0, b"k", None, []), (7, None, b"", SHARED), (-1, b"", b"v", SHARED)], 1 << 20)
@example([(2**63 - 1, b"", b"", []), (-(2**63), b"", b"", [])], 1 << 20)
@example([(5, b"", b"", SHARED * 40), (4, b"", b"", SHARED), (6, b"", b"", SHARED * 41)], 1 << 20)
def test_a_batch_is_aiokafkas(codec: int, many: list[Any], max_bytes: int) -> None:
    ours, other = Builder(codec, max_bytes), theirs(codec, max_bytes)
    compare(ours, other, many)
    ours._set_producer_state(2**40 + 1, 3, 2**31 - 1)
    other.set_producer_state(2**40 + 1, 3, 2**31 - 1)
    assert ours._build() == other.build()


@given(st.lists(some_rows, min_size=1, max_size=9), some_bytes)
@example([(-1, b"", []), (NOW_MS, None, SHARED)], 1 << 20)
@example([(-1, b"", []), (-1, None, SHARED), (0, b"", [])], 1 << 20)
@pytest.mark.parametrize("make", MAKERS)
@settings(deadline=None)
def test_a_batch_is_what_was_appended(make: Any, many: list[Any], max_bytes: int) -> None:
    """Also records without a timestamp (-1), wherever they are; by a decoder of our own."""
    batch, taken = make(max_bytes), []
    for timestamp_ms, value, headers in many:
        if batch.append(timestamp_ms, None, value, headers):
            names = [(name.encode(), content) for name, content in headers]
            taken.append(Decoded(timestamp_ms, None, value, names))
    assert batch.count == len(taken)
    built = batch.take()
    plain.seal(built, 1, 2, 3)
    found = decode(bytes(built))
    assert found.records == taken
    assert found.max_timestamp_ms == max((one.timestamp_ms for one in taken), default=-1)


@given(histories(min_size=1, max_size=5), st.integers(-2, 2))
@settings(deadline=None)
def test_full_to_the_byte(many: list[Any], spare: int) -> None:
    """Around the size that the last record needs exactly."""
    whole = theirs(0, 1 << 30)
    for offset, (timestamp_ms, key, value, headers) in enumerate(many):
        whole.append(offset, timestamp_ms, key, value, headers)
    max_bytes = whole.size() + spare
    compare(Builder(0, max_bytes), theirs(0, max_bytes), many)


def test_many_records_grow_the_batch_and_its_offsets() -> None:
    many = [(NOW_MS, b"%d" % number, bytes(40), SHARED) for number in range(20_000)]
    ours, other = Builder(0, 1 << 20), theirs(0, 1 << 20)
    compare(ours, other, many)
    assert 8192 < ours.record_count() < len(many)
    ours._set_producer_state(1, 2, 3)
    other.set_producer_state(1, 2, 3)
    assert ours._build() == other.build()


def test_the_first_one_fits_whatever_its_size() -> None:
    value = os.urandom(3_000_000)
    batch = records(10)
    assert batch.append(NOW_MS, None, value, [])
    assert not batch.append(NOW_MS, None, b"", [])
    (one,) = DefaultRecordBatch(bytes(batch.take()))
    assert one.value == value


def test_a_memory_view_is_as_good_as_bytes() -> None:
    ours, plain = records(1000), records(1000)
    assert ours.append(NOW_MS, bytearray(b"key"), memoryview(b"a value")[2:], [])
    assert plain.append(NOW_MS, b"key", b"value", [])
    assert ours.take() == plain.take()


class Name(str):
    __slots__ = ()


class Integer:
    def __index__(self) -> int:
        raise TypeError("not now")


WRONG: list[tuple[Any, ...]] = [
    ("1", b"", b"", []),
    (None, b"", b"", []),
    (Integer(), b"", b"", []),
    (1, "key", b"", []),
    (1, b"", 5, []),
    (1, bytearray(b"1"), "value", []),
    (1, b"", b"", None),
    (1, b"", b"", ()),
    (1, b"", b"", [None]),
    (1, b"", b"", [["a", b""]]),
    (1, b"", b"", [("a",)]),
    (1, b"", b"", [("a", b"", b"")]),
    (1, b"", b"", [(None, b"")]),
    (1, b"", b"", [(b"a", b"")]),
    (1, b"", b"", [("a", "b")]),
    (1, b"", b"", [("a", bytearray())]),
    (1, b"", b"", [(Name("a"), b"")]),
    (1, b"", b"", [("fine", b"fine"), ("\ud800", b"")]),
    (1, b"", b""),
    (1, b"", b"", [], []),
]


@pytest.mark.parametrize("wrong", WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_what_cannot_be_encoded_leaves_the_batch_as_it_was(wrong: tuple[Any, ...]) -> None:
    ours, same = records(1000), records(1000)
    for at_first in (True, False):
        with pytest.raises(REFUSALS):
            ours.append(*wrong)
        assert ours.count == (0 if at_first else 1)
        assert ours.append(NOW_MS, b"key", b"value", SHARED)
    for _ in range(2):
        assert same.append(NOW_MS, b"key", b"value", SHARED)
    assert ours.size == same.size
    assert ours.take() == same.take()


def test_what_is_no_batch_is_not_written_to() -> None:
    module: Any = importlib.import_module(type(records(0)).__module__)
    short = bytearray(60)
    for wrong in (short, bytes(99), None):
        with pytest.raises(REFUSALS):
            module.seal(wrong, 1, 2, 3)
        with pytest.raises(REFUSALS):
            module.with_body(wrong, 4, b"body")
    for wrong in (None, "body"):
        with pytest.raises(REFUSALS):
            module.with_body(bytearray(61), 4, wrong)
    with pytest.raises(OverflowError):
        module.with_body(bytearray(61), 256, b"")
    for state in ((2**63, 0, 0), (0, 2**15, 0), (0, 0, 2**31)):
        with pytest.raises(OverflowError):
            module.seal(bytearray(61), *state)
    assert short == bytearray(60)


def test_a_timestamp_has_64_bits() -> None:
    with pytest.raises(OverflowError):
        records(1000).append(2**63, b"", b"", [])


def test_what_was_taken_takes_no_more() -> None:
    batch = records(1000)
    assert batch.append(NOW_MS, b"key", b"value", SHARED)
    size = batch.size
    taken = batch.take()
    taken.clear()  # it is the caller's
    with pytest.raises(ValueError, match="taken"):
        batch.take()
    with pytest.raises(ValueError, match="taken"):
        batch.append(NOW_MS, b"key", b"value", SHARED)
    assert (batch.count, batch.size) == (1, size)


class Tail:
    """A timestamp that appends to the batch that it is meant for."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __index__(self) -> int:
        self._batch.append(NOW_MS, None, bytes(5000), SHARED)
        return NOW_MS


def test_an_append_within_an_append_comes_first() -> None:
    batch, plain = records(1 << 20), records(1 << 20)
    assert batch.append(Tail(batch), b"second", b"value", SHARED)
    assert plain.append(NOW_MS, None, bytes(5000), SHARED)
    assert plain.append(NOW_MS, b"second", b"value", SHARED)
    assert batch.take() == plain.take()


def test_nothing_that_was_appended_is_kept() -> None:
    key, value, pair = bytes(99), bytearray(99), ("a" * 20, bytes(98))
    headers = [pair]
    parts = (key, value, pair, headers, *pair)
    before = [sys.getrefcount(part) for part in parts]
    for _ in range(100):
        batch = records(5000)
        assert batch.append(NOW_MS, key, value, headers)
        for bad in ([pair, None], [pair, ("\ud800", b"")]):
            with pytest.raises(REFUSALS):
                batch.append(NOW_MS, key, value, bad)
        while batch.append(NOW_MS, key, value, headers):
            pass
        batch.take()
    del batch, bad
    gc.collect()
    assert [sys.getrefcount(part) for part in parts] == before
    value.clear()  # and no buffer of it is held
