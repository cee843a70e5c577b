"""Held records: what a gateway writes is what the coalescer reads back."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from headgate.coalescer.windows import (
    BurstEnd,
    DoneMark,
    Foreign,
    HeldBounds,
    HeldEvent,
    HeldRecord,
    Metadata,
    Windows,
    WindowTimes,
    burst_end_headers,
    mark_headers,
    read_held,
)
from headgate.model.internal_topics import held_topic, topic_of
from support.scale import scaled

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
    assert (found.value, found.timestamp_ms, found.is_forced) == (None, 1250, False)


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
def test_foreign_commit_metadata_is_read_as_none(text: str | None) -> None:
    assert Metadata.read(text) is None


# What is said of the memory that held events take, beside what they take.


NOW_MS = 1_700_000_000_000
TIMES = WindowTimes(1000, 5000, 10_000)


def fresh(text: str) -> bytes:
    """An object of its own, as Kafka's client makes them."""
    return bytes(bytearray(text.encode()))


def record(number: int, key: int, value_bytes: int, more: dict[str, str]) -> HeldRecord:
    headers = {
        "content-type": "application/json",
        "hg-event-id": f"0193{number:032d}",
        "hg-producer": "some-producer",
        "hg-received-at": str(NOW_MS + number),
        **more,
    }
    found = tuple((fresh(name).decode(), fresh(content)) for name, content in headers.items())
    value = bytes(bytearray(value_bytes))
    return read_held(number, fresh(f"key-{key:08d}"), value, NOW_MS + number, found)


@pytest.mark.parametrize("share", scaled(8, 1))
@pytest.mark.parametrize(
    ("events", "keys", "value_bytes", "more"),
    [
        (10_000, 10_000, 150, {}),
        (200, 200, 100_000, {}),
        (20_000, 10_000, 150, {}),  # each key has superseded events
        (10_000, 10_000, 150, {"hg-burst": "import-17"}),
        (10_000, 10_000, 150, {"ce_source": "/shop/1234", "ce_type": "saved"}),
    ],
    ids=["small", "large", "superseded", "burst", "cloudevent"],
)
def test_the_memory_of_held_events_is_told_within_a_fifth(
    events: int, keys: int, value_bytes: int, more: dict[str, str], share: int
) -> None:
    is_told_within_a_fifth(TIMES, events // share, keys // share, value_bytes, more)


@pytest.mark.parametrize("keys", scaled(5_000, 10_000))
def test_the_memory_of_windows_that_lead_is_told_within_a_fifth(keys: int) -> None:
    is_told_within_a_fifth(TIMES._replace(is_leading=True), keys, keys, 150, {})


def is_told_within_a_fifth(
    times: WindowTimes, events: int, keys: int, value_bytes: int, more: dict[str, str]
) -> None:
    windows = Windows(times, HeldBounds(10**6, 10**12), 0, 0)
    gc.collect()
    tracemalloc.start()
    try:
        for begin in range(0, events, 100):
            some = [
                record(number, number % keys, value_bytes, more)
                for number in range(begin, min(begin + 100, events))
            ]
            windows.read(some, begin + 100, NOW_MS * 2)
            del some
        gc.collect()
        real = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    told = windows.figures
    assert told.keys == keys
    assert 0.8 <= told.bytes / real <= 1.2, (told.bytes / keys, real / keys)


def test_closed_windows_no_longer_count_in_the_figures() -> None:
    windows = Windows(TIMES, HeldBounds(10**6, 10**12), 0, 0)
    for number in range(300):
        more = {"hg-burst": f"b{number % 3}"} if number % 2 else {}
        windows.read([record(number, number % 100, 50, more)], number + 1, NOW_MS * 2)
    closed = windows.take_due(NOW_MS * 2, 1000, 10**9)
    windows.put_back(closed, 0)
    again = windows.take_due(NOW_MS * 2, 1000, 10**9)
    assert len(closed) == len(again) == 100
    assert windows.figures == (0, 0, None)
    assert not windows._by_burst
