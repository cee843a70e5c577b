"""Partition rules over columns equal the scalar rule and other clients' rules."""

from __future__ import annotations

import numpy as np
from aiokafka.partitioner import murmur2 as other_murmur2
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.keys import murmur2, partition_for
from headgate_spark.audit.predictions import (
    crc32_partitions,
    hashes,
    hashes_of,
    partitions_for,
)

# From org.apache.kafka.common.utils.UtilsTest.testMurmur2.
JAVA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_the_vectors_of_the_java_client() -> None:
    assert hashes_of(list(JAVA_VECTORS)).tolist() == list(JAVA_VECTORS.values())


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 1000))
def test_a_column_equals_the_scalar_rule(keys: list[bytes], partitions: int) -> None:
    found = hashes_of(keys)
    assert found.tolist() == [murmur2(key) for key in keys]
    assert [int(one) & 0xFFFFFFFF for one in found] == [
        other_murmur2(key) & 0xFFFFFFFF for key in keys
    ]
    expected = [partition_for(key, partitions) for key in keys]
    assert partitions_for(found, partitions).tolist() == expected


def test_a_slice_of_a_column() -> None:
    data = np.frombuffer(b"xxfoobar21", dtype=np.uint8)
    found = hashes(data, np.array([2, 8]), np.array([6, 2]))
    assert found.tolist() == [JAVA_VECTORS[b"foobar"], JAVA_VECTORS[b"21"]]


def test_crc32_vectors() -> None:
    # CRC-32/ISO-HDLC's check value, as in the catalogue of CRC algorithms
    assert crc32_partitions([b"123456789"], 1 << 32).tolist() == [0xCBF43926]
