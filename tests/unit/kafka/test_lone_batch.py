"""The batch that is compressed beforehand is, byte for byte of meaning, aiokafka's own."""

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from headgate.kafka.producer import SingleRecordBatch
from headgate.model.publish import Record

headers = st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=9)), max_size=3)


def decoded(buffer: bytes) -> tuple[Any, ...]:
    batch: Any = DefaultRecordBatch(buffer)
    assert batch.validate_crc()
    (one,) = list(batch)
    state = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    more = (batch.magic, batch.compression_type, batch.is_transactional, batch.is_control_batch)
    return (one.offset, one.timestamp, one.key, one.value, list(one.headers), *state, *more)


@pytest.mark.filterwarnings("ignore")
@given(st.none() | st.binary(max_size=9), st.binary(max_size=5000), headers, st.integers(0, 2**41))
def test_it_reads_as_what_aiokafka_would_have_built(key, value, headers, timestamp_ms):
    lone = SingleRecordBatch(Record("t", 0, key, value, headers, timestamp_ms))
    for sequence in (7, 8):  # a second hand-over has another sequence
        builder = lone.builder()
        builder._set_producer_state(5, 6, sequence)
        theirs: Any = DefaultRecordBatchBuilder(2, 4, 0, -1, -1, -1, 1 << 30)
        theirs.append(0, timestamp_ms, key, value, headers)
        theirs.set_producer_state(5, 6, sequence)
        built = bytes(builder._build())
        assert len(built) == lone.size == builder.size()
        expected = decoded(bytes(theirs.build()))
        # aiokafka leaves a batch uncompressed that compression does not make smaller
        assert decoded(built)[:9] == expected[:9]
        assert decoded(built)[9] == 4


def test_a_document_becomes_a_fraction():
    value = (
        b'{"id":"7","options":['
        + b",".join(b'{"id":%d,"on":true}' % n for n in range(40000))
        + b"]}"
    )
    assert SingleRecordBatch(Record("t", 0, b"7", value, [], 0)).size < len(value) / 4
