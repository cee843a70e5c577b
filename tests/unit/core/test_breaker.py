"""The breaker's waits, told the time."""

import pytest

from headgate.core.breaker import Breaker, BreakerState


def breaker() -> Breaker:
    return Breaker(first_delay_s=0.1, longest_delay_s=1.0, proven_s=10.0)


def test_first_probe_is_due_at_once() -> None:
    assert breaker().state is BreakerState.OPEN
    assert breaker().wait_s(5.0) == 0.0


def test_waits_double_up_to_the_longest() -> None:
    one, waits = breaker(), []
    for _ in range(7):
        one.probing()
        one.failed(100.0)
        waits.append(one.wait_s(100.0))
    assert waits == pytest.approx([0.0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    assert one.wait_s(100.6) == pytest.approx(0.4)


def test_success_closes_it() -> None:
    one = breaker()
    one.probing()
    assert one.state is BreakerState.PROBING
    one.succeeded(1.0)
    assert one.state is BreakerState.CLOSED


def test_what_breaks_soon_after_a_probe_waits_longer_and_longer() -> None:
    one = breaker()
    waits = []
    for second in range(5):
        one.succeeded(float(second))
        one.failed(second + 0.5)
        waits.append(one.wait_s(second + 0.5))
    assert waits == pytest.approx([0.0, 0.1, 0.2, 0.4, 0.8])


def test_what_has_proven_itself_is_tried_again_at_once() -> None:
    one = breaker()
    for _ in range(5):
        one.failed(0.0)
    one.succeeded(1.0)
    one.failed(11.0)
    assert one.wait_s(11.0) == 0.0
