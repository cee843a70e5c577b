"""Batches of copied records, decoded by a decoder of our own: they are what the source has."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest
from aiokafka.consumer import fetcher
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.kafka.aiokafka_internals import keep_header_names, legible
from headgate.replays.packed import NO_TIMESTAMP
from headgate_spark.copying.batches import Batch
from support.kafka.record_batches import Decoded, decode, encoded

NOW_MS = 1_700_000_000_000
CODECS = {"none": 0, "gzip": 1, "lz4": 3, "zstd": 4}
timestamps = st.sampled_from([NO_TIMESTAMP, NO_TIMESTAMP, 0, 1, NOW_MS]) | st.integers(
    0, 2 * NOW_MS
)
contents = st.none() | st.binary(max_size=40) | st.just(bytes(300))
names = st.binary(max_size=4) | st.sampled_from([b"n", "ü".encode(), b"\xff", b"\xed\xb3\xbf"])
rows = st.builds(
    Decoded, timestamps, contents, contents, st.lists(st.tuples(names, contents), max_size=3)
)
keep_header_names()


class Source(NamedTuple):
    """A record as the consumer gives it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @classmethod
    def of(cls, offset: int, one: Decoded) -> Source:
        headers = tuple((text(name), value) for name, value in one.headers)
        return cls(offset, one.timestamp_ms, one.key, one.value, headers)


def text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def batches_of(codec: int, max_bytes: int, many: list[Decoded]) -> list[bytes]:
    """As the writers do it: a record that a batch does not take begins the next one."""
    source = [Source.of(number, one) for number, one in enumerate(many)]
    batches, first = list[Batch](), 0
    while first < len(source):
        batches.append(Batch(codec, max_bytes))
        behind = batches[-1].fill(source, first)
        assert behind - first == batches[-1].record_count() > 0
        first = behind
    built = []
    for number, batch in enumerate(batches):
        batch._set_producer_state(2**40, 3, number)
        built.append(bytes(batch._build()))
        assert batch.size() == len(built[-1])
    return built


@pytest.mark.parametrize("codec", CODECS.values(), ids=list(CODECS))
@settings(deadline=None)
@given(st.lists(rows, min_size=1, max_size=12), st.sampled_from([62, 400, 1 << 20]))
@example([Decoded(NO_TIMESTAMP, None, b"", []), Decoded(NOW_MS, None, b"", [])], 1 << 20)
@example([Decoded(NOW_MS, None, b"", []), Decoded(NOW_MS, b"", None, [(b"\xff", b"")])], 1 << 20)
def test_I3_what_is_copied_comes_out_as_it_was(
    codec: int, many: list[Decoded], max_bytes: int
) -> None:
    found: list[Decoded] = []
    for number, batch in enumerate(batches_of(codec, max_bytes, many)):
        decoded = decode(batch)
        assert decoded.is_transactional
        assert decoded.producer == (2**40, 3, number)
        assert decoded.max_timestamp_ms == max(one.timestamp_ms for one in decoded.records)
        found += decoded.records
    assert found == many


@settings(deadline=None)
@given(st.lists(rows, min_size=1, max_size=12), st.sampled_from(list(CODECS.values())))
def test_what_is_read_is_what_was_written(many: list[Decoded], codec: int) -> None:
    """Also header names that are not UTF-8, which are no text."""
    found = [
        Decoded(
            one.timestamp,
            one.key,
            one.value,
            [(name.encode("utf-8", "surrogateescape"), value) for name, value in one.headers],
        )
        for one in read(b"".join(batches_of(codec, 400, many)))
    ]
    assert found == many


def read(data: bytes) -> list[Any]:
    """As aiokafka's consumer does it, which leaves out what it has had already."""
    records, found = fetcher.MemoryRecords(data), []
    while records.has_next():
        batch, next_offset = records.next_batch(), 0
        for one in batch:
            if one.offset >= next_offset:
                found.append(one)
                next_offset = one.offset + 1
    return found


@pytest.mark.parametrize("codec", CODECS.values(), ids=list(CODECS))
def test_compression_never_makes_a_batch_larger(codec: int) -> None:
    """A record that just fits into the source's topic fits into the target's."""
    value = random.Random(1).randbytes(5000)
    plain = encoded(NOW_MS, value, [])
    for timestamp_ms in (NOW_MS, NO_TIMESTAMP):
        one = Decoded(timestamp_ms, b"k", value, [])
        (batch,) = batches_of(codec, 1 << 20, [one])
        assert decode(batch)[::4] == (0, [one])
        assert len(batch) == len(plain)
    (smaller,) = batches_of(codec, 1 << 20, [Decoded(NOW_MS, b"k", bytes(5000), [])])
    assert decode(smaller).codec == codec


def test_a_strange_name_can_be_shown() -> None:
    assert legible("n\udcff") == "n\\xff"
    assert legible("ü") == "ü"
