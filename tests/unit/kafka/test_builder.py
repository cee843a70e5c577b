"""A lane's own batches against aiokafka's, byte by byte."""

from __future__ import annotations

import random

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder

from headgate.kafka.producer import Builder
from headgate.model.publish import Record

MAX_BYTES = 3_000
NONE, ZSTD = 0, 4


def records(count: int) -> list[Record]:
    dice = random.Random(1)
    headers = [("content-type", b"application/json"), ("hg-event-id", b"id")]
    return [
        Record("t", 0, dice.choice((None, b"key")), dice.randbytes(90), headers, 1_700_000_000_000)
        for _ in range(count)
    ]


@pytest.mark.parametrize("compression", [NONE, ZSTD])
def test_a_batch_is_the_one_that_aiokafka_makes(compression: int) -> None:
    ours, theirs = Builder(compression, MAX_BYTES), BatchBuilder(MAX_BYTES, compression)
    taken = [ours.append(one) for one in records(40)]
    for one in records(40):
        theirs.append(timestamp=one.timestamp_ms, key=one.key, value=one.value, headers=one.headers)
    assert ours.record_count() == theirs.record_count() == sum(taken)
    assert not all(taken)
    assert ours.size() == theirs.size()
    for builder in (ours, theirs):
        builder.close()
        builder._set_producer_state(7, 3, 11)
    assert ours.closed()
    assert bytes(ours._build()) == bytes(theirs._build())
    assert ours._build() is ours._build()
    assert ours.size() == len(theirs._build())


def test_the_first_record_fits_whatever_its_size() -> None:
    builder = Builder(NONE, 10)
    large, small = records(2)
    assert builder.append(large)
    assert not builder.append(small)


def test_what_cannot_be_encoded_is_raised_and_leaves_the_batch_as_it_was() -> None:
    builder = Builder(NONE, MAX_BYTES)
    assert builder.append(records(1)[0])
    with pytest.raises((TypeError, ValueError, AttributeError)):
        builder.append(Record("t", 0, b"key", b"value", [("\ud800", b"")], 1))
    assert builder.record_count() == 1
