"""Windows: what closes when, what may be committed, and that nothing held is ever dropped."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.coalescer.windows import (
    BurstEnd,
    DoneMark,
    Foreign,
    HeldBounds,
    HeldEvent,
    HeldRecord,
    Sum,
    Window,
    Windows,
    WindowTimes,
    marks_of,
)

TIMES = WindowTimes(quiet=100, max_delay=500, burst_max=5000)
BOUNDS = HeldBounds(keys=1000, bytes=1_000_000)


def held(offset: int, key: str, at_ms: int, **fields: object) -> HeldEvent:
    one = HeldEvent(offset, key.encode(), b"%d" % offset, (), at_ms, at_ms, "p", False, None, 100)
    return one._replace(**fields)  # type: ignore[arg-type]


def windows(
    *records: HeldRecord, times: WindowTimes = TIMES, bounds: HeldBounds = BOUNDS, target: int = 0
) -> Windows:
    found = Windows(times, bounds, target, 0)
    found.read(records, len(records), 10**9)
    return found


def due(open_windows: Windows, now_ms: int, limit: int = 1000) -> list[tuple[str, int]]:
    closed = open_windows.take_due(now_ms, limit, 10**9)
    return [(one.last.key.decode(), one.last.offset) for one in closed]


def test_the_quiet_time_restarts_at_each_event_and_the_newest_wins() -> None:
    found = windows(held(0, "a", 0), held(1, "a", 90))
    assert due(found, 189) == []
    assert due(found, 190) == [("a", 1)]
    assert found.is_empty


def test_the_longest_delay_does_not_restart() -> None:
    found = windows(*(held(number, "a", 90 * number) for number in range(7)))
    assert due(found, 499) == []
    assert due(found, 500) == [("a", 6)]


def test_time_is_counted_from_arrival_so_that_another_owner_loses_none() -> None:
    found = Windows(TIMES, BOUNDS, 0, 0)
    found.read([held(0, "a", 1000)], 1, 5000)  # read four seconds later
    assert due(found, 5000) == [("a", 0)]


def test_a_gateway_whose_clock_is_ahead_holds_nothing_back() -> None:
    found = Windows(TIMES, BOUNDS, 0, 0)
    found.read([held(0, "a", 10_000_000)], 1, 1000)
    assert due(found, 1100) == [("a", 0)]


def test_a_forced_event_closes_its_window_and_force_is_sticky() -> None:
    found = windows(held(0, "a", 0, is_forced=True), held(1, "a", 10))
    (closed,) = found.take_due(10, 10, 10**9)
    assert (closed.last.offset, closed.is_forced) == (1, True)


def test_the_first_event_of_a_quiet_key_leads() -> None:
    times = TIMES._replace(is_leading=True)
    found = windows(held(0, "a", 0), times=times)
    assert due(found, 0) == [("a", 0)]
    found.read([held(1, "a", 50)], 2, 50)
    assert due(found, 50) == []
    assert due(found, 150) == [("a", 1)]
    found.read([held(2, "a", 151)], 3, 151)
    assert due(found, 151) == [("a", 2)]  # quiet again


def test_a_leading_event_is_replaced_by_what_is_read_before_it_is_emitted() -> None:
    found = windows(held(0, "a", 0), held(1, "a", 1), times=TIMES._replace(is_leading=True))
    assert due(found, 1) == [("a", 1)]


def test_a_burst_holds_its_keys_until_it_is_committed() -> None:
    found = windows(*(held(n, "ab"[n % 2], 200 * n, burst=b"x") for n in range(10)))
    assert due(found, 4000) == []
    found.read([BurstEnd(b"x")], 11, 4000)
    assert sorted(due(found, 4000)) == [("a", 8), ("b", 9)]


def test_a_burst_that_nobody_commits_ends_by_itself() -> None:
    found = windows(held(0, "a", 0, burst=b"x"), held(1, "a", 900, burst=b"y"))
    assert due(found, 4999) == []
    assert due(found, 5000) == [("a", 1)]


def test_a_burst_limit_below_the_quiet_time_is_kept() -> None:
    times = WindowTimes(quiet=100_000, max_delay=500_000, burst_max=5000)
    for first in (None, b"x"):  # the burst's first event opens the window, or finds it open
        found = Windows(times, HeldBounds(100, 100_000), 0, 0)
        found.read([held(0, "a", 0, burst=first), held(1, "a", 0, burst=b"x")], 2, 0)
        assert found.next_due_ms() == 5000
        assert not found.take_due(4999, 10, 10_000)
        assert len(found.take_due(5000, 10, 10_000)) == 1


def test_a_backlog_that_does_not_fit_needs_its_marks_first() -> None:
    found = Windows(TIMES, HeldBounds(2, 100_000), 10, 0)
    found.read([held(n, "abc"[n], 0) for n in range(3)], 3, 10**9)
    assert found.needs_marks
    assert not found.must_close  # nothing may be emitted before the marks are known
    assert due(found, 10**9) == []
    marks = {b"a": 3}
    found = Windows(TIMES, HeldBounds(2, 100_000), 10, 0, marks)
    found.read([held(n, "abcab"[n], 0) for n in range(5)], 5, 10**9)
    assert not found.needs_marks
    assert due(found, 10**9) == []  # events 0 and 3 are done, and two keys fit
    found.read([held(5, "d", 0), held(6, "a", 0)], 7, 10**9)
    assert found.next_due_ms() == 0
    assert due(found, 10**9) == [("b", 4), ("c", 2)]  # no more than must be
    assert found.next_due_ms() is None
    found.read([held(7, "d", 0), held(8, "d", 0), held(9, "a", 0)], 10, 10**9)
    assert due(found, 10**9) == [("d", 8), ("a", 9)]


def test_a_key_in_two_bursts_waits_for_both() -> None:
    found = windows(held(0, "a", 0, burst=b"x"), held(1, "a", 1, burst=b"y"), BurstEnd(b"x"))
    assert due(found, 1000) == []
    found.read([BurstEnd(b"y")], 4, 1000)
    assert due(found, 1000) == [("a", 1)]


def test_an_event_behind_the_end_of_its_burst_is_an_ordinary_one() -> None:
    found = windows(BurstEnd(b"x"), held(1, "a", 0, burst=b"x"))
    assert due(found, 100) == [("a", 1)]


def test_nothing_closes_while_catching_up_not_even_when_full() -> None:
    found = windows(held(0, "a", 0, is_forced=True), bounds=HeldBounds(0, 0), target=2)
    assert (found.is_catching_up, due(found, 10**9)) == (True, [])
    found.read([held(1, "a", 0)], 2, 0)
    assert due(found, 0) == [("a", 1)]


def test_the_oldest_leaves_early_when_keys_or_bytes_are_too_many() -> None:
    found = windows(*(held(n, str(n), 0) for n in range(5)), bounds=HeldBounds(3, 10**6))
    assert due(found, 0) == [("0", 0), ("1", 1)]
    found = windows(*(held(n, str(n), 0) for n in range(5)), bounds=HeldBounds(10, 300))
    assert due(found, 0) == [("0", 0), ("1", 1)]


def test_the_low_water_mark_is_the_first_event_of_what_is_open() -> None:
    found = windows(held(0, "a", 0), held(1, "b", 50), held(2, "a", 60))
    assert found.low_water() == 0
    assert due(found, 150) == [("b", 1)]
    assert found.low_water() == 0
    assert due(found, 160) == [("a", 2)]
    assert found.low_water() == 3


def test_marks_are_for_emitted_events_that_will_be_read_again() -> None:
    closed = [Window(held(4, "a", 0)), Window(held(9, "b", 0))]
    assert marks_of(closed, 7, "0a") == [DoneMark(b"b", 9, "0a")]


def test_a_mark_skips_what_a_former_owner_has_emitted() -> None:
    found = windows(held(0, "a", 0), held(1, "b", 0), DoneMark(b"a", 0, "0a"), target=3)
    assert due(found, 10**9) == [("b", 1)]


def test_a_mark_leaves_what_came_later() -> None:
    found = windows(held(0, "a", 0), held(1, "a", 0), DoneMark(b"a", 0, "0a"))
    assert due(found, 10**9) == [("a", 1)]


def test_what_could_not_be_emitted_is_merged_with_what_came_meanwhile() -> None:
    found = windows(held(0, "a", 0, is_forced=True), held(1, "b", 0))
    closed = found.take_due(100, 10, 10**9)
    found.read([held(2, "a", 100)], 3, 100)
    found.put_back(closed, not_before_ms=1000)
    assert (found.low_water(), due(found, 999)) == (0, [])
    again = found.take_due(1000, 10, 10**9)
    assert [(one.last.offset, one.is_forced, one.first) for one in again] == [
        (2, True, 0),
        (1, False, 1),
    ]
    assert again[0].superseded["p"].events == 1


def test_records_that_no_gateway_wrote_are_counted() -> None:
    assert Windows(TIMES, BOUNDS, 0, 0).read([Foreign(0), Foreign(1)], 2, 0) == 2


@st.composite
def histories(draw: st.DrawFn) -> list[HeldEvent]:
    clock, found = 0, []
    for offset in range(draw(st.integers(1, 60))):
        clock += draw(st.integers(0, 150))
        burst = draw(st.sampled_from([None, None, None, b"x"]))
        forced = draw(st.integers(0, 9)) == 0
        found.append(
            held(offset, draw(st.sampled_from("abcd")), clock, burst=burst, is_forced=forced)
        )
    return found


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    histories(),
    st.booleans(),
    st.integers(1, 4),
    st.integers(1, 5),
    st.lists(st.integers(0, 10), max_size=20),
)
def test_every_event_is_emitted_or_superseded_once_and_keys_never_go_back(
    history: list[HeldEvent], is_leading: bool, limit: int, keys: int, readings: list[int]
) -> None:
    times = TIMES._replace(is_leading=is_leading)
    found, ended = Windows(times, HeldBounds(keys, 10**9), 0, 0), list[Window]()
    at = now_ms = 0
    while at < len(history) or not found.is_empty:
        count = readings.pop() if readings else 5
        some = history[at : at + count]
        at += len(some)
        now_ms = max(now_ms, some[-1].arrived_ms) if some else now_ms + 100
        found.read(some, at, now_ms)
        low = found.low_water()
        closed = found.take_due(now_ms, limit, 10**9)
        assert all(one.first >= low for one in closed)
        if len(closed) < limit:
            assert not found.is_full
            due_ms = found.next_due_ms()
            assert due_ms is None or due_ms > now_ms
        ended += closed
    emitted = [one.last.offset for one in ended]
    assert len(emitted) == len(set(emitted))
    superseded = sum(total.events for one in ended for total in one.superseded.values())
    assert len(emitted) + superseded == len(history)
    newest = {one.key: one.offset for one in history}
    for key, offset in newest.items():
        mine = [one.last.offset for one in ended if one.last.key == key]
        assert mine == sorted(mine)
        assert mine[-1] == offset
    assert Counter(one.is_forced for one in ended)[True] >= (
        1 if any(one.is_forced for one in history) else 0
    )
    figures = found.figures  # the bytes are those of keys that are not quiet yet
    assert (figures.keys, figures.oldest_ms) == (0, None)
    assert is_leading or not figures.bytes


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.integers(1, 4), st.lists(st.booleans(), min_size=1, max_size=40))
def test_what_is_put_back_is_as_old_as_it_was(
    history: list[HeldEvent], limit: int, is_put_back: list[bool]
) -> None:
    """The group's offset never passes an open window, in whatever order they come back."""
    found, returned, ended, now_ms = Windows(TIMES, BOUNDS, 0, 0), list(is_put_back), 0, 0
    for at in range(len(history) + 200):
        some = history[at : at + 1]
        now_ms = max(now_ms, some[0].arrived_ms) if some else now_ms + 100
        found.read(some, min(at + 1, len(history)), now_ms)
        closed = found.take_due(now_ms, limit, 10**9)
        if closed and (returned.pop() if returned else False):
            found.put_back(closed, now_ms + 50)
        else:
            ended += sum(1 + total.events for one in closed for total in [_superseded(one)])
        firsts = [one.first for one in found._windows.values()]
        assert found.low_water() == min(firsts, default=found.position)
        assert found._bytes == sum(one.cost for one in found._windows.values())
        assert {key for keys in found._by_burst.values() for key in keys} == {
            key for key, one in found._windows.items() if one.bursts
        }
        if not some and found.is_empty:
            break
    assert ended == len(history)


def _superseded(window: Window) -> Sum:
    return window.superseded.get("p", Sum(0, 0))


@pytest.mark.parametrize("count", [20_000])
def test_planning_stays_small_however_long_a_key_is_pushed_on(count: int) -> None:
    found = windows(*(held(n, "a", n) for n in range(count)), times=WindowTimes(100, 10**9, 1))
    for now_ms in range(count, count + 90):
        assert due(found, now_ms) == []
    assert len(found._due) < 100
