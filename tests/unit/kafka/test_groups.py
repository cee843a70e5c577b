"""Records of `__consumer_offsets`: cut, unknown and made-up ones; a broker's own are in
tests/integration/kafka/test_commit_records_kafka.py.
"""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headgate.kafka.groups import (
    CommitNote,
    CommitRecord,
    CommittedOffset,
    Committer,
    OffsetsRecord,
    Partition,
    before_and_after,
    read_note,
    read_record,
)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


KEY = struct.pack(">h", 1) + text("billing") + text("orders") + struct.pack(">i", 3)
PLACE = Partition("orders", 3)
# version -> OffsetCommitValue of offset 70, metadata "me", committed at 9
VALUES = {
    0: struct.pack(">hq", 0, 70) + text("me") + struct.pack(">q", 9),
    1: struct.pack(">hq", 1, 70) + text("me") + struct.pack(">qq", 9, 10),
    3: struct.pack(">hqi", 3, 70, 5) + text("me") + struct.pack(">q", 9),
    4: struct.pack(">hqi", 4, 70, 5) + b"\x03me" + struct.pack(">q", 9) + b"\0",
}


@pytest.mark.parametrize("version", VALUES)
def test_every_version_of_a_commit(version: int) -> None:
    found = read_record(KEY, VALUES[version])
    assert found == CommitRecord("billing", PLACE, CommittedOffset(70, "me"), 9)


def test_a_deleted_offset() -> None:
    assert read_record(KEY, None) == CommitRecord("billing", PLACE, None, 0)


def test_what_is_newer_or_not_needed_is_passed_over() -> None:
    assert read_record(KEY, struct.pack(">hq", 5, 70)) is None
    assert read_record(struct.pack(">h", 99) + b"anything", b"") is None
    assert read_record(None, b"") is None


@given(some.sampled_from(sorted(VALUES)), some.data())
def test_what_is_cut_short_is_an_error_and_nothing_else(
    version: int, data: some.DataObject
) -> None:
    whole = VALUES[version][: -8 if version == 1 else None].removesuffix(b"\0" * (version == 4))
    cut = whole[: data.draw(some.integers(0, len(whole) - 1))]
    with pytest.raises(ValueError, match="cut short"):
        read_record(KEY, cut)


@given(some.binary(max_size=80), some.binary(max_size=200))
def test_any_bytes_are_read_or_refused(key: bytes, value: bytes) -> None:
    with suppress(ValueError):
        read_record(key, value)


@pytest.mark.parametrize("kind", [0, 1, 2, 5, 8])
@given(some.binary(max_size=200))
def test_any_value_of_a_known_kind_is_read_or_refused(kind: int, value: bytes) -> None:
    key = struct.pack(">h", kind) + text("g") + text("m") + struct.pack(">i", 0)
    with suppress(ValueError):
        read_record(key, value)


@pytest.mark.parametrize(
    "said",
    [
        "", "x", "{", "[]", "{}", '{"member": "m"}', '{"member":"m","client":"c","term":"x"}',
        '{"member":"m","client":"c","term":1e999}',
        '{"member":"m","client":"c","term":1,"done_below":[]}',
    ],
)  # fmt: skip
def test_metadata_of_others_names_nobody(said: str) -> None:
    assert read_note(said) is None


@given(some.text(), some.text(), some.integers(0), some.none() | some.integers(0))
def test_a_member_s_own_metadata_says_who_it_is_and_what_is_done(
    member: str, client: str, term: int, done_below: int | None
) -> None:
    note = CommitNote(Committer(member, client, term), done_below)
    assert read_note(note.text()) == note
    assert read_note(note.text() + "\0") == note


COMMITS = some.lists(some.tuples(some.integers(0, 1), some.integers(0, 3)), max_size=20)


def commits_of(place: Partition, records: list[OffsetsRecord]) -> list[CommittedOffset | None]:
    return [
        one.stored for one in records if isinstance(one, CommitRecord) and one.partition == place
    ]


@given(COMMITS, some.data())
def test_a_commit_stream_and_a_poll_that_is_made_when_it_has_begun(
    commits: list[tuple[int, int]], data: some.DataObject
) -> None:
    """The commit stream begins at `first`, and the poll reads the offsets when `read` are there."""
    first = data.draw(some.integers(0, len(commits)))
    read = data.draw(some.integers(first, len(commits)))
    written: list[OffsetsRecord] = [
        CommitRecord("g", Partition("t", place), CommittedOffset(offset, ""), 0)
        for place, offset in commits
    ]
    places = (Partition("t", 0), Partition("t", 1))
    newest = {place: commits_of(place, written[:read]) for place in places}
    stored = {place: known[-1] for place, known in newest.items() if known and known[-1]}
    before, after = before_and_after(written[first:], {"g": stored})
    for place in places:
        truth = commits_of(place, written[first:])
        known = commits_of(place, before)
        assert known + commits_of(place, after) == truth
        if stored.get(place) in truth:
            assert known == truth[: truth.index(stored[place]) + 1]
        else:
            assert known == []
