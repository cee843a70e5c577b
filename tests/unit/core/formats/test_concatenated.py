"""Objects cut out of a stream, however it is split into pieces."""

import asyncio
import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.formats.concatenated import Documents
from headgate.core.outcome import Reason
from headgate.core.refusal import Refused
from headgate.http.confluent.records import RecordStreams
from headgate.http.confluent.service import ProduceService

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
