"""Chunks: whatever arrives, in whatever order, a value comes out whole or not at all."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.record import CHUNK_COUNT, CHUNK_INDEX, CHUNK_SET, size_of
from headgate.oversize.chunks import (
    DEFAULT_BOUNDS,
    HEADERS_BYTES,
    BadChunkError,
    Bounds,
    Chunk,
    ChunkSets,
    CompleteValue,
    Dropped,
    Head,
    cut,
    headers_of,
    read_head,
)

PLACE = ("documents", 3)


def chunks_of(
    value: bytes, set_id: bytes, limit: int = 10, key: bytes | None = b"k", owner: bytes = b"p"
) -> list[Chunk]:
    """A set as the gateway writes it; the offsets come later."""
    pieces = cut(value, limit)
    digest = sha256(value).digest()
    heads = [Head(set_id, at, len(pieces), len(value), digest) for at in range(len(pieces))]
    return [
        Chunk(PLACE, -1, key, head, piece, owner) for head, piece in zip(heads, pieces, strict=True)
    ]


class Reader:
    """A partition as a consumer reads it."""

    def __init__(self, bounds: Bounds = DEFAULT_BOUNDS) -> None:
        self.sets = ChunkSets(bounds)
        self.offset = 0
        self.now_s = 0.0
        self.seen: list[CompleteValue] = []

    def read(self, chunk: Chunk | None) -> CompleteValue | None:
        """The next record; None is one that is no chunk."""
        self.sets.passed(PLACE, self.offset, self.now_s)
        found = None
        if chunk is not None:
            found = self.sets.add(chunk._replace(offset=self.offset), self.now_s)
        self.offset += 1
        if found is not None:
            self.seen.append(found)
        return found


def interleaved(sets: list[list[Chunk]], random) -> list[Chunk]:
    """The chunks of all sets as several gateways write them: each set in its own order."""
    sets = [list(chunks) for chunks in sets]
    turns = [number for number, chunks in enumerate(sets) for _ in chunks]
    random.shuffle(turns)
    return [sets[number].pop(0) for number in turns]


values = st.binary(min_size=1, max_size=200)


@given(st.lists(values, min_size=1, max_size=6), st.integers(1, 40), st.randoms())
def test_interleaved_repeated_and_reordered_sets_give_exactly_their_values(contents, limit, random):
    sets = []
    for number, value in enumerate(contents):
        first, *rest = chunks_of(value, b"%d" % number, limit)
        rest += random.choices([first, *rest], k=random.randrange(3))
        random.shuffle(rest)
        sets.append([first, *rest])
    pool = interleaved(sets, random)
    reader = Reader()
    for chunk in pool:
        reader.read(chunk)
    assert Counter(one.value for one in reader.seen) == Counter(contents)
    assert (len(reader.sets), reader.sets.bytes) == (0, 0)
    assert reader.sets.low_water(PLACE) == len(pool)
    assert not reader.sets.dropped


@given(st.lists(values, min_size=1, max_size=6), st.randoms(), st.integers(0, 30))
def test_nothing_behind_an_incomplete_set_is_committed(contents, random, until):
    """Starting again from the mark, every set that was not complete by then is read whole."""
    sets = [chunks_of(value, b"%d" % number, 7) for number, value in enumerate(contents)]
    pool = interleaved(sets, random)
    reader = Reader()
    for chunk in pool[:until]:
        reader.read(chunk)
    mark = reader.sets.low_water(PLACE)
    before = [one.value for one in reader.seen]
    again = Reader()
    again.offset = mark or 0
    for chunk in pool[mark or 0 :]:
        again.read(chunk)
    got = Counter(before + [one.value for one in again.seen])
    assert not Counter(contents) - got  # none lacks; some may come twice
    assert again.sets.low_water(PLACE) in (None, len(pool)), "the rest of a set is held for whole"


def test_the_rest_of_a_set_that_began_before_is_no_set():
    """Whoever committed an offset in the middle of a set had ended it."""
    reader = Reader()
    for chunk in chunks_of(b"x" * 30, b"s")[1:]:
        assert reader.read(chunk) is None
    assert (len(reader.sets), reader.sets.low_water(PLACE)) == (0, 2)
    assert reader.sets.dropped == {Dropped.HEADLESS: 1}
    assert [reader.read(chunk) for chunk in chunks_of(b"x" * 30, b"t")][-1] is not None


@given(values, st.data())
def test_one_wrong_byte_and_nothing_comes_out(value, data):
    chunks = chunks_of(value, b"s")
    at = data.draw(st.integers(0, len(chunks) - 1))
    piece = bytearray(chunks[at].value or b"")
    piece[data.draw(st.integers(0, len(piece) - 1))] ^= data.draw(st.integers(1, 255))
    chunks[at] = chunks[at]._replace(value=bytes(piece))
    reader = Reader()
    for chunk in chunks:
        assert reader.read(chunk) is None
    assert reader.sets.dropped == {Dropped.CORRUPT: 1}
    assert reader.sets.bytes == 0
    assert reader.sets.low_water(PLACE) == len(chunks)


def test_a_longer_or_shorter_chunk_than_promised_is_noticed():
    for change in (b"x", b""):
        chunks = chunks_of(b"0123456789abcdef", b"s")
        chunks[1] = chunks[1]._replace(value=(chunks[1].value or b"")[:-1] + change * 2)
        reader = Reader()
        assert [reader.read(chunk) for chunk in chunks] == [None, None]
        assert reader.sets.dropped == {Dropped.CORRUPT: 1}


@pytest.mark.parametrize("change", [{"total": 3}, {"size": 21}, {"sha256": b"x" * 32}])
def test_chunks_that_disagree_end_their_set(change):
    first, second = chunks_of(b"x" * 20, b"s")
    second = second._replace(head=second.head._replace(**change))
    reader = Reader()
    assert reader.read(first) is None
    assert reader.read(second) is None
    assert reader.read(chunks_of(b"x" * 20, b"s")[1]) is None  # too late for a set that ended
    assert reader.sets.dropped == {Dropped.CONFLICT: 1}
    assert len(reader.sets) == 0


def test_another_key_is_another_value():
    first, second = chunks_of(b"x" * 20, b"s")
    reader = Reader()
    reader.read(first)
    assert reader.read(second._replace(key=b"other")) is None
    assert reader.sets.dropped == {Dropped.CONFLICT: 1}


def test_a_set_that_stays_incomplete_holds_the_mark_until_it_is_too_old():
    reader = Reader(Bounds(max_age_s=60))
    reader.read(None)
    reader.read(chunks_of(b"x" * 20, b"dead")[0])
    for _ in range(5):
        reader.read(None)
    assert reader.sets.low_water(PLACE) == 1
    reader.now_s = 60.0
    reader.sets.expire(reader.now_s)
    assert reader.sets.low_water(PLACE) == 1
    reader.now_s = 60.1
    reader.sets.expire(reader.now_s)  # nothing arrives, time passes all the same
    assert reader.sets.low_water(PLACE) == 7
    assert reader.sets.dropped == {Dropped.EXPIRED: 1}
    assert reader.read(chunks_of(b"x" * 20, b"dead")[1]) is None
    assert reader.sets.low_water(PLACE) == 8  # a late chunk begins no set again


def test_or_until_it_lies_too_far_behind():
    reader = Reader(Bounds(max_gap=100))
    reader.read(chunks_of(b"x" * 20, b"dead")[0])
    for _ in range(100):
        reader.read(None)
    assert reader.sets.low_water(PLACE) == 0
    reader.read(None)
    assert reader.sets.low_water(PLACE) == 102
    assert reader.sets.dropped == {Dropped.GAP: 1}


def test_the_second_attempt_comes_out_while_the_first_never_ends():
    reader = Reader()
    for chunk in chunks_of(b"x" * 30, b"first")[:2] + chunks_of(b"x" * 30, b"second"):
        reader.read(chunk)
    assert [one.value for one in reader.seen] == [b"x" * 30]
    assert reader.sets.low_water(PLACE) == 0


def test_a_partition_that_is_read_again_starts_over():
    reader = Reader()
    chunks = chunks_of(b"x" * 30, b"s")
    for chunk in chunks:
        reader.read(chunk)
    reader.offset = 0  # a seek
    for chunk in chunks:
        reader.read(chunk)
    assert len(reader.seen) == 2


def test_what_is_held_of_a_lost_partition_goes():
    reader = Reader()
    reader.read(chunks_of(b"x" * 30, b"s")[0])
    reader.sets.forget(PLACE)
    assert (len(reader.sets), reader.sets.bytes, reader.sets.low_water(PLACE)) == (0, 0, None)
    reader.sets.forget(PLACE)


def test_memory_is_bounded_with_a_thousand_incomplete_sets():
    bounds = Bounds(max_bytes=50_000, max_sets=400)
    reader = Reader(bounds)
    for number in range(1000):
        reader.read(chunks_of(b"x" * 2000, b"%d" % number, 1000)[0])
        assert reader.sets.bytes <= bounds.max_bytes
        assert len(reader.sets) <= bounds.max_sets
    assert reader.sets.dropped == {Dropped.EVICTED: 950}
    whole = chunks_of(b"y" * 2000, b"last", 1000)
    assert [reader.read(chunk) for chunk in whole][-1] is not None


def test_the_number_of_sets_is_bounded_too():
    reader = Reader(Bounds(max_sets=10))
    for number in range(1000):
        reader.read(chunks_of(b"xy", b"%d" % number, 1)[0])
    assert len(reader.sets) == 10


def test_one_producer_does_not_push_out_another():
    reader = Reader(Bounds(max_bytes=10_000))
    kept = chunks_of(b"x" * 2000, b"kept", 1000, owner=b"modest")
    reader.read(kept[0])
    for number in range(100):
        reader.read(chunks_of(b"x" * 2000, b"%d" % number, 1000, owner=b"greedy")[0])
    assert reader.read(kept[1]) is not None


def test_headers_say_what_the_chunk_is_and_fit_their_bound():
    head = Head(b"0" * 36, 16_000, 16_384, 16_777_216, b"\xff" * 32)
    headers = headers_of(head)
    assert read_head(headers) == head
    assert all(name.isascii() and content.isascii() for name, content in headers)
    assert size_of(None, None, headers) - size_of(None, None, []) <= HEADERS_BYTES
    assert read_head([("content-type", b"application/json")]) is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (CHUNK_INDEX, b"2"), (CHUNK_INDEX, b"-1"), (CHUNK_INDEX, None), (CHUNK_INDEX, b"x"),
        (CHUNK_COUNT, b"99999999"), (CHUNK_SET, b""), (CHUNK_SET, b"x" * 100),
        ("hg-chunk-sha256", b"12"), ("hg-chunk-bytes", b"1"), ("hg-chunk-bytes", b"999999999999"),
    ],
)  # fmt: skip
def test_headers_that_make_no_sense_are_refused(name, content):
    headers = dict(headers_of(Head(b"s", 0, 2, 20, b"\1" * 32)))
    with pytest.raises(BadChunkError):
        read_head([*(headers | {name: content}).items()])
    del headers[name]
    if name != CHUNK_SET:
        with pytest.raises(BadChunkError):
            read_head([*headers.items()])
