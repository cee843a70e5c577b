"""When a record was written, told from the ends that were seen: for any traffic with pauses."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import given, settings
from hypothesis import strategies as some

from headgate.monitor.rules import LogEnds

POLL_MS = 10_000


class Traffic:
    """A log that is polled every ten seconds, and when it had which end."""

    def __init__(self) -> None:
        self.ends = LogEnds()
        self.now_ms = 0
        self._seen = [(0, 0)]
        self.ends.note(0, 0)

    def poll(self, records: int) -> None:
        self.now_ms += POLL_MS
        end = self._seen[-1][1] + records
        self._seen.append((self.now_ms, end))
        self.ends.note(self.now_ms, end)

    def check(self) -> None:
        """Of every record that was there at a poll, the error is within what is promised."""
        ends = [end for _, end in self._seen]
        for offset in {end - 1 for end in ends if end} | {*ends}:
            told_ms = self.ends.written_ms(offset)
            if offset >= ends[-1]:
                assert told_ms is None
                continue
            assert told_ms is not None
            seen_ms = self._seen[bisect_right(ends, offset)][0]
            age_ms = self.now_ms - seen_ms
            assert abs(told_ms - seen_ms) <= max(POLL_MS, age_ms / 3)


phases = some.lists(
    some.tuples(some.integers(1, 400), some.sampled_from([0, 0, 1, 7, 5_000])), max_size=12
)


@settings(deadline=None, max_examples=60)
@given(phases)
def test_the_error_of_an_age_is_at_most_a_third_of_it(traffic: list[tuple[int, int]]) -> None:
    log = Traffic()
    for polls, records in traffic:
        for _ in range(polls):
            log.poll(records)
        log.check()


@settings(deadline=None, max_examples=60)
@given(some.lists(some.tuples(some.integers(0, 40), some.integers(1, 3)), max_size=300))
def test_also_of_many_short_times_of_traffic(bursts: list[tuple[int, int]]) -> None:
    log = Traffic()
    for quiet, busy in bursts:
        for _ in range(quiet):
            log.poll(0)
        for _ in range(busy):
            log.poll(100)
    log.check()


def test_a_quiet_hour_is_not_spread_over_what_came_after_it() -> None:
    log = Traffic()
    log.poll(100)
    for _ in range(360):
        log.poll(0)
    for _ in range(120):
        log.poll(10)
    log.check()


def test_half_a_year_is_known_and_memory_is_bounded() -> None:
    """With a pause after each hour of traffic."""
    log = Traffic()
    for number in range(180 * 24 * 6):  # a poll every ten minutes
        log.now_ms += 590_000
        log.poll(number // 6 % 2)
    assert log.ends.first_ms() == 0
    assert len(log.ends._points) <= 96
