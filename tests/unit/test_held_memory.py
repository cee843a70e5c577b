"""What is said of the memory that held events take, beside what they take."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from headgate.core.coalescing.coalesce import Windows
from headgate.core.coalescing.held import HeldRecord, read_held
from headgate.core.coalescing.window import Bounds, Times

NOW_MS = 1_700_000_000_000
TIMES = Times(1000, 5000, 10_000)


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


@pytest.mark.parametrize(
    ("events", "keys", "value_bytes", "more", "leading"),
    [
        (10_000, 10_000, 150, {}, False),
        (200, 200, 100_000, {}, False),
        (20_000, 10_000, 150, {}, False),  # each key has superseded events
        (10_000, 10_000, 150, {"hg-burst": "import-17"}, False),
        (10_000, 10_000, 150, {"ce_source": "/shop/1234", "ce_type": "saved"}, False),
        (10_000, 10_000, 150, {}, True),
    ],
    ids=["small", "large", "superseded", "burst", "cloudevent", "leading"],
)
def test_the_memory_of_held_events_is_told_within_a_fifth(
    events: int, keys: int, value_bytes: int, more: dict[str, str], leading: bool
) -> None:
    windows = Windows(TIMES._replace(is_leading=leading), Bounds(10**6, 10**12), 0, 0)
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


def test_what_leaves_costs_nothing() -> None:
    windows = Windows(TIMES, Bounds(10**6, 10**12), 0, 0)
    for number in range(300):
        more = {"hg-burst": f"b{number % 3}"} if number % 2 else {}
        windows.read([record(number, number % 100, 50, more)], number + 1, NOW_MS * 2)
    closed = windows.take_due(NOW_MS * 2, 1000, 10**9)
    windows.put_back(closed, 0)
    again = windows.take_due(NOW_MS * 2, 1000, 10**9)
    assert len(closed) == len(again) == 100
    assert windows.figures == (0, 0, None)
    assert not windows._by_burst
