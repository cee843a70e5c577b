"""Commands for Redis against hiredis' own way of writing them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.native import plain
from headgate.native.chosen import packed

Pack = Callable[[bytes, Iterable[bytes | int]], bytes]

ARGUMENTS = st.lists(st.binary(max_size=40) | st.integers(-(2**63), 2**63 - 1), max_size=20)
BOTH = pytest.mark.parametrize("pack", [plain.packed, packed], ids=["python", "chosen"])


def test_the_compiled_build_packs_in_c() -> None:
    wanted = os.environ.get("EXPECT_COMPILED") == "1"
    assert (packed is not plain.packed) is wanted


@BOTH
@given(name=st.binary(min_size=1, max_size=20), arguments=ARGUMENTS)
def test_a_command_is_written_as_hiredis_writes_it(
    pack: Pack, name: bytes, arguments: list[bytes | int]
) -> None:
    expected = hiredis.pack_command((name, *arguments))
    assert pack(name, arguments) == pack(name, iter(arguments)) == expected


@BOTH
@pytest.mark.parametrize("length", [0, 1, 9, 10, 99, 100, 1023, 1024, 1025, 70_000])
def test_long_arguments_have_their_length(pack: Pack, length: int) -> None:
    text = bytes(length)
    assert pack(b"SET", [b"key", text]) == hiredis.pack_command((b"SET", b"key", text))


@BOTH
@pytest.mark.parametrize("wrong", ["text", None, bytearray(b"x")])
def test_anything_else_is_refused(pack: Pack, wrong: object) -> None:
    with pytest.raises(TypeError):
        pack(b"SET", [b"key", wrong])  # type: ignore[list-item]
