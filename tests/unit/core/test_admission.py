"""The in-flight budget."""

from headgate.core.admission import Admission
from headgate.core.outcome import Reason


def test_bytes_and_events_are_admitted_up_to_the_budget() -> None:
    admission = Admission(100, 10)
    assert admission.take_bytes(60) is None
    assert admission.take_bytes(40) is None
    failure = admission.take_bytes(1)
    assert failure is not None
    assert (failure.reason, failure.retry_after_s) == (Reason.OVERLOADED, 1)
    assert failure.figures == {"limit": "in_flight_max_bytes"}
    assert admission.take_events(10) is None
    failure = admission.take_events(1)
    assert failure is not None
    assert failure.figures == {"limit": "in_flight_max_events"}
    admission.give(60, 10)
    assert (admission.bytes, admission.events) == (40, 0)
    assert admission.take_bytes(60) is None


def test_what_is_larger_than_the_whole_budget_is_admitted_alone() -> None:
    admission = Admission(100, 10)
    assert admission.take_bytes(1000) is None
    assert admission.take_bytes(1) is not None
    admission.give(1000, 0)
    assert admission.take_events(50) is None
    assert admission.take_events(1) is not None
    admission.give(0, 50)
    assert (admission.bytes, admission.events) == (0, 0)


def test_a_refusal_takes_nothing() -> None:
    admission = Admission(10, 1)
    admission.take_bytes(10)
    admission.take_events(1)
    for _ in range(5):
        assert admission.take_bytes(3) is not None
        assert admission.take_events(3) is not None
    assert (admission.bytes, admission.events) == (10, 1)
