"""`size_of` against what aiokafka's builder really makes."""

from typing import Any

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.model.record import BATCH_OVERHEAD, Header, size_of
from support.scale import examples

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
contents = st.binary(max_size=40) | st.integers(0, 70_000).map(bytes)
records = st.tuples(
    st.none() | contents,
    st.none() | contents,
    st.lists(st.tuples(names, st.none() | contents), max_size=12),
    st.integers(0, 4_102_444_800_000),
)
Sized = tuple[bytes | None, bytes | None, list[Header], int]


def built(batch: list[Sized]) -> int:
    """Bytes of an uncompressed batch of these records."""
    builder: Any = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    for offset, (key, value, headers, timestamp) in enumerate(batch):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    return len(builder.build())


def estimated(batch: list[Sized]) -> int:
    return BATCH_OVERHEAD + sum(size_of(key, value, headers) for key, value, headers, _ in batch)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(records, min_size=1, max_size=6))
def test_the_estimate_is_an_upper_bound_of_the_batch(batch: list[Sized]) -> None:
    actual = built(batch)
    assert actual <= estimated(batch)
    assert estimated(batch) <= actual + sum(40 + 10 * len(headers) for _, _, headers, _ in batch)


@pytest.mark.parametrize("size", [0, 63, 64, 8191, 8192, 1_048_575, 1_048_576, 140_000_000])
@pytest.mark.parametrize("timestamp", [0, 4_102_444_800_000])
@pytest.mark.parametrize("headers", [[], [("x" * 8192, b"y" * 8192)], [("", b"")] * 9000])
def test_at_the_edges_of_variable_length_integers(
    size: int, timestamp: int, headers: list[Header]
) -> None:
    """By aiokafka's own arithmetic: the second record of a batch, far from the first in time."""
    builder: Any = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    builder.append(0, 4_102_444_800_000, None, None, [])
    key, value = bytes(min(size, 9000)), bytes(size)
    actual = builder.size_in_bytes(100_000, timestamp, key, value, headers)
    assert actual <= size_of(key, value, headers)


@settings(deadline=None)
@given(st.lists(records, min_size=1, max_size=6))
def test_records_up_to_a_limit_by_the_estimate_fit_a_builder_of_that_limit(
    batch: list[Sized],
) -> None:
    builder: Any = BatchBuilder(estimated(batch), 0, is_transactional=False)
    for key, value, headers, timestamp in batch:
        sent = builder.append(timestamp=timestamp, key=key, value=value, headers=headers)
        assert sent is not None
    assert builder.size() <= estimated(batch)
