"""JSON in pieces: the texts pass that a parser takes as a whole, however they are cut."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.formats.json_stream import Documents, JsonStream
from headgate.http.confluent.records import RecordStreams
from headgate.http.confluent.service import ProduceService
from headgate.model.outcome import Reason, Refused

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


# Objects cut out of a stream, however it is split into pieces.


MOST = 1_000_000
OBJECTS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.integers() | st.text(alphabet='"\\{}[] a\né\u2028'),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)


def refusal(stream: Documents, piece: bytes | None = None) -> Reason:
    with pytest.raises(Refused) as caught:
        stream.end() if piece is None else stream.feed(piece)
    return caught.value.failure.reason


@given(
    st.lists(st.tuples(OBJECTS, st.text(" \t\r\n", max_size=3), st.booleans()), max_size=6),
    st.data(),
)
def test_objects_come_out_as_they_went_in(
    sent: list[tuple[dict[str, object], str, bool]], data: st.DataObject
) -> None:
    texts = [json.dumps(one, ensure_ascii=plain).encode() for one, _, plain in sent]
    blanks = [blank.encode() for _, blank, _ in sent]
    Documents(MOST).check()
    stream = b"".join(text + blank for text, blank in zip(texts, blanks, strict=True))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    documents = Documents(MOST)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += documents.feed(stream[start:end])
        documents.check()
    documents.end()
    assert found == texts
    assert documents.pending == 0


def test_every_byte_alone() -> None:
    text = b'{"a":"\\\\"}{"b":"\\"}{"}\r\n{"c":{"d":{}}}'
    documents = Documents(MOST)
    found = [each for at in range(len(text)) for each in documents.feed(text[at : at + 1])]
    assert found == [b'{"a":"\\\\"}', b'{"b":"\\"}{"}', b'{"c":{"d":{}}}']


@pytest.mark.parametrize("text", [b"[1]", b"7", b'"x"', b"}", b",{}", b"\x00", b"\xef\xbb\xbf{}"])
def test_anything_else_breaks_the_stream(text: bytes) -> None:
    assert refusal(Documents(MOST), text) is Reason.MALFORMED
    documents = Documents(MOST)
    assert documents.feed(b"{} {}" + text) == [b"{}", b"{}"]  # what was whole still counts
    with pytest.raises(Refused):
        documents.check()
    documents = Documents(MOST)
    documents.feed(b"{}" + text)
    assert refusal(documents) is Reason.MALFORMED


@pytest.mark.parametrize("text", [b"{", b'{"a', b'{"a\\', b'{"a":{}', b'{} {"'])
def test_an_object_that_never_ends(text: bytes) -> None:
    documents = Documents(MOST)
    documents.feed(text)
    assert documents.pending > 0
    assert refusal(documents) is Reason.MALFORMED


def test_an_object_is_bounded() -> None:
    documents = Documents(100)
    assert documents.feed(b'{"a":"' + b"x" * 90) == []
    assert refusal(documents, b"x" * 10) is Reason.TOO_LARGE
    assert len(Documents(100).feed(b'{"a":1}' * 50)) == 50  # the stream is not


def test_a_large_object_in_small_pieces_is_linear() -> None:
    documents = Documents(MOST)
    documents.feed(b'{"a":"')
    for _ in range(900):
        assert documents.feed(b"x" * 1000) == []
    (found,) = documents.feed(b'"}')
    assert len(found) == 900_008


async def test_cutting_a_body_lets_others_have_their_turn() -> None:
    """256 kB of small records take tens of milliseconds."""
    body, turns = b'{"value":{"type":"JSON","data":{"id":"abcdefgh"}}}' * 5000, 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    texts, broken = await RecordStreams(cast(ProduceService, None), 5000, 1_000_000, 1.0)._cut(body)
    beside.cancel()
    assert (len(texts), broken) == (5000, None)
    assert turns >= 5
