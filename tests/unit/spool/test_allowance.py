"""How many spooled events may go back to Kafka, by the time that has passed."""

from __future__ import annotations

from headgate.spool.draining import Allowance


def test_a_backlog_goes_back_at_the_rate_and_as_fast_as_events_come() -> None:
    now_s = 0.0
    allowance = Allowance(100, lambda: now_s)
    went = 0
    for _ in range(100):  # a second
        now_s += 0.01
        while allowance.left() > 0:
            allowance.take(1)
            went += 1
    assert 90 <= went <= 110
    went = 0
    for _ in range(300):
        now_s += 0.01
        allowance.came(10)  # 1,000 a second come meanwhile
        while allowance.left() > 0:
            allowance.take(1)
            went += 1
    assert 1.5 * 1000 < went <= 3.3 * 1000 + 330  # it follows within a second or so


def test_a_batch_that_goes_beyond_the_rate_is_paid_for_by_a_pause() -> None:
    now_s = 0.0
    allowance = Allowance(100, lambda: now_s)
    now_s += 0.1
    assert allowance.left() > 0
    allowance.take(500)
    for _ in range(49):
        now_s += 0.1
        if allowance.left() > 0:
            break
    assert now_s > 4.5
