"""JSON in pieces: the texts pass that a parser takes as a whole, however they are cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.core.formats.json_stream import JsonStream
from headgate.core.refusal import Refused

TEXTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
).map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))  # fmt: skip
# Signs of which wrong texts are made, often enough right ones.
SIGNS = st.lists(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b",", b":", b'"', b'"a"', b"1", b"0", b"-", b".5", b"e9", b"true",
         b"null", b" ", b"\n", b"\\", b"\\u00", b"61", b"\x01", b"\x02", b"\xc3", b"\xa9", b"s",
         b"\t"]
    ),
    max_size=12,
).map(b"".join)  # fmt: skip


def passes(text: bytes, cuts: list[int], depth: int = 128) -> bool:
    stream = JsonStream(depth)
    ends = [*sorted({cut for cut in cuts if cut < len(text)}), len(text)]
    try:
        for start, end in zip([0, *ends], ends, strict=False):
            stream.feed(text[start:end])
        stream.end()
    except Refused:
        return False
    return True


def is_json(text: bytes) -> bool:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(text.decode(), parse_constant=refuse)
    except ValueError:
        return False
    return True


CUTS = st.lists(st.integers(0, 40), max_size=6)


@given(TEXTS, CUTS)
@example(b'"\\u00e9\\n"', [2, 3, 4, 5, 6, 7, 8])
@example(b"-1.5e+10", [1, 2, 3, 4, 5, 6, 7])
@example('["ü€😀"]'.encode(), [3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
def test_every_json_text_passes_however_it_is_cut(text, cuts):
    assert passes(text, cuts)


@given(SIGNS, CUTS)
@example(b"[1,]", [])
@example(b"truefalse", [4])
@example(b"01", [1])
@example(b'{"a" 1}', [])
@example(b'"a', [])
@example(b"[\x01]", [1])
@example(b"1.", [1])
@example(b"", [])
@example(b"[1}", [])
@example(b"1 2", [2])
@example(b'"\\x"', [2])
@example(b"\xc3", [])
def test_it_agrees_with_a_parser_that_has_the_whole_text(text, cuts):
    assert passes(text, cuts) == is_json(text)


@given(TEXTS, st.integers(0, 60), st.binary(min_size=1, max_size=2), CUTS)
def test_one_damage_anywhere_is_seen_as_the_parser_sees_it(text, at, damage, cuts):
    text = text[:at] + damage + text[at + 1 :]
    assert passes(text, cuts) == is_json(text)


def test_depth_is_bounded_and_steps_are_no_limit():
    assert passes(b"[" * 128 + b"]" * 128, [])
    assert not passes(b"[" * 129 + b"]" * 129, [])
    assert passes(b'{"a":"' + b"x" * 300_000 + b'","b":' + b"1" * 200_000 + b"}", [7, 150_001])
    assert not passes(b"1" * 1_200_000, [])


@pytest.mark.parametrize("text", [b'"a\nb"', b'"a\tb"', b"\xef\xbb\xbf1", b"NaN", b"[1,NaN]"])
def test_what_lenient_parsers_take_is_refused(text):
    assert not passes(text, [])
