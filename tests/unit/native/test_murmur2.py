"""Kafka's hash of keys: C and Python say the same of any bytes."""

from __future__ import annotations

import os

import pytest
from aiokafka.partitioner import murmur2 as other_murmur2
from hypothesis import given
from hypothesis import strategies as st

from headgate.native import plain
from headgate.native.chosen import murmur2
from support.memory import CALLS, blocks_kept

BOTH = pytest.mark.parametrize("hashed", [plain.murmur2, murmur2], ids=["python", "chosen"])


def test_the_compiled_build_hashes_in_c() -> None:
    wanted = os.environ.get("EXPECT_COMPILED") == "1"
    assert (murmur2 is not plain.murmur2) is wanted


@given(st.binary(max_size=70))
def test_murmur2_agrees_with_its_twin_and_another_library(key: bytes) -> None:
    assert murmur2(key) == plain.murmur2(key)
    assert murmur2(key) & 0xFFFFFFFF == other_murmur2(key) & 0xFFFFFFFF


@BOTH
@pytest.mark.parametrize("size", [4095, 4096, 4097, 8192, 100_003])
def test_long_keys_are_hashed_in_pieces(hashed, size: int) -> None:
    key = bytes(range(256)) * (size // 256 + 1)
    assert hashed(key[:size]) & 0xFFFFFFFF == other_murmur2(key[:size]) & 0xFFFFFFFF


@BOTH
@pytest.mark.parametrize("key", ["text", None, 7])
def test_anything_else_is_refused(hashed, key: object) -> None:
    with pytest.raises(TypeError):
        hashed(key)


@BOTH
def test_murmur2_leaks_no_memory(hashed) -> None:
    assert blocks_kept(lambda: hashed(b"k" * 5000)) < CALLS / 10
