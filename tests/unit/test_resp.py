"""Commands for Redis against hiredis' own way of writing them."""

from __future__ import annotations

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.backends.resp import packed

ARGUMENTS = st.lists(st.binary(max_size=40) | st.integers(-(2**70), 2**70), max_size=20)


@given(st.binary(min_size=1, max_size=20), ARGUMENTS)
def test_a_command_is_written_as_hiredis_writes_it(
    name: bytes, arguments: list[bytes | int]
) -> None:
    assert packed(name, arguments) == hiredis.pack_command((name, *arguments))


@pytest.mark.parametrize("length", [0, 1023, 1024, 1025, 70_000])
def test_long_arguments_have_their_length(length: int) -> None:
    text = bytes(length)
    assert packed(b"SET", [b"key", text]) == hiredis.pack_command((b"SET", b"key", text))
