"""What is said of the memory that held events take, beside what they take."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from headgate.core.coalescing import HeldBounds, HeldRecord, Windows, WindowTimes, read_held
from support.scale import scaled

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


def test_what_leaves_costs_nothing() -> None:
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
