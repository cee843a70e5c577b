"""Held records: what a gateway writes is what the coalescer reads back."""

from __future__ import annotations

import pytest

from headgate.core.coalescing import (
    BurstEnd,
    DoneMark,
    Foreign,
    HeldEvent,
    Metadata,
    burst_end_headers,
    held_topic,
    mark_headers,
    read_held,
    topic_of,
)

OURS = [
    ("content-type", b"application/json"),
    ("mine", b"x"),
    ("hg-event-id", b"e"),
    ("hg-producer", b"shop"),
    ("hg-received-at", b"1234"),
]


def test_the_name_of_a_held_topic_says_whose_events_it_holds() -> None:
    assert topic_of(held_topic("deals")) == "deals"
    assert topic_of("deals") is None


def test_an_event_keeps_the_headers_of_its_record_and_loses_those_of_its_way() -> None:
    headers = [*OURS, ("hg-burst", b"b1"), ("hg-forced", b"1"), ("hg-timestamp", b"99")]
    found = read_held(7, b"k", b"v", 1250, headers)
    assert isinstance(found, HeldEvent)
    assert found.headers == [*OURS, ("hg-burst", b"b1")]
    assert found[:3] == (7, b"k", b"v")
    assert found[4:9] == (99, 1234, "shop", True, b"b1")


def test_header_values_may_be_null() -> None:
    found = read_held(7, b"k", b"v", 1250, [*OURS, ("ключ", None)])
    assert isinstance(found, HeldEvent)
    assert found.headers == [*OURS, ("ключ", None)]
    nameless = [(name, None if name == "hg-producer" else value) for name, value in OURS]
    assert read_held(7, b"k", b"v", 1250, nameless) == Foreign(7)
    for name in ("hg-done", "hg-burst-end"):
        assert isinstance(read_held(7, b"k", b"v", 1250, [*OURS, (name, None)]), HeldEvent)


def test_without_a_wanted_timestamp_it_is_the_arrival() -> None:
    found = read_held(0, b"k", None, 1250, OURS)
    assert isinstance(found, HeldEvent)
    assert (found.value, found.timestamp_ms, found.forced) == (None, 1250, False)


def test_a_tombstone_is_no_done_mark() -> None:
    assert isinstance(read_held(0, b"k", None, 0, OURS), HeldEvent)
    assert read_held(0, b"k", b"", 0, mark_headers(DoneMark(b"k", 41, "0a"))) == DoneMark(
        b"k", 41, "0a"
    )


def test_the_end_of_a_burst() -> None:
    assert read_held(0, None, b"", 0, burst_end_headers(b"b1")) == BurstEnd(b"b1")


@pytest.mark.parametrize(
    ("key", "headers"),
    [(None, OURS), (b"k", []), (b"k", [("hg-done", b"x 0a")]), (b"k", [("hg-done", b"7")])],
)
def test_whatever_else_is_there_is_foreign(
    key: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    assert read_held(3, key, b"v", 0, headers) == Foreign(3)


def test_what_is_committed_beside_an_offset_is_read_back() -> None:
    metadata = Metadata("ab" * 16, has_unreserved=True)
    assert Metadata.read(metadata.text()) == metadata
    assert len(metadata.text()) < 4096


@pytest.mark.parametrize("text", [None, "", "2 abc 0", "1 abc", "1 abc x", "somebody else's"])
def test_other_metadata_says_nothing(text: str | None) -> None:
    assert Metadata.read(text) is None
