"""Statuses that clients rely on: they never change, whatever is renamed behind them."""

import pytest

from headgate.model.outcome import TRAITS, Failure, Outcome, OutcomeName, Reason

# Every reason with its status, and whether the same event may succeed later.
PROMISED = {
    "malformed": (400, False),
    "unauthenticated": (401, False),
    "forbidden": (403, False),
    "not_found": (404, False),
    "unknown_topic": (404, False),
    "unknown_partition": (404, False),
    "method_not_allowed": (405, False),
    "request_timeout": (408, True),
    "idempotency_conflict": (409, True),
    "replay_finished": (409, False),
    "group_active": (409, False),
    "too_large": (413, False),
    "unsupported_encoding": (415, False),
    "idempotency_mismatch": (422, False),
    "missing_key": (422, False),
    "invalid_key": (422, False),
    "schema_violation": (422, False),
    "timestamp_out_of_range": (422, False),
    "too_many_events": (422, False),
    "needs_native_api": (422, False),
    "not_covered": (422, False),
    "quota_exceeded": (429, True),
    "too_many_attempts": (429, True),
    "headers_too_large": (431, False),
    "internal": (500, True),
    "broker_refused": (502, False),
    "overloaded": (503, True),
    "draining": (503, True),
    "kafka_unavailable": (503, True),
    "redis_unavailable": (503, True),
    "issuer_unavailable": (503, True),
    "blobs_unavailable": (503, True),
    "monitor_unavailable": (503, True),
    "clock_wrong": (503, True),
    "unknown": (504, True),
}


@pytest.mark.parametrize(("reason", "expected"), PROMISED.items())
def test_status_and_retryable_stay_as_they_are(reason: str, expected: tuple[int, bool]) -> None:
    traits = TRAITS[Reason(reason)]
    assert (traits.status, traits.retryable) == expected


def test_every_reason_has_its_row_with_words_for_people() -> None:
    assert set(TRAITS) == set(Reason) == set(PROMISED)
    for traits in TRAITS.values():
        assert traits.title
        assert traits.advice.endswith(".")
        assert traits.log_level in ("INFO", "WARNING", "ERROR")
        assert 400 <= traits.status < 600


def test_only_the_gateway_s_own_faults_alarm() -> None:
    alarming = {reason for reason, traits in TRAITS.items() if traits.log_level == "ERROR"}
    assert alarming == {Reason.INTERNAL, Reason.BROKER_REFUSED, Reason.CLOCK_WRONG}


def test_outcomes_without_a_record_say_so() -> None:
    outcome = Outcome(OutcomeName.REJECTED, failure=Failure(Reason.MALFORMED, "why"))
    assert (outcome.partition, outcome.offset, outcome.records) == (-1, -1, 0)


def test_an_outcome_equals_another_with_the_same_fields() -> None:
    first = Outcome(OutcomeName.PUBLISHED, 3, 10, b"key", "id", None, 1)
    again = Outcome(OutcomeName.PUBLISHED, 3, 10, b"key", "id", None, 1)
    assert first == again
    assert hash(first) == hash(again)
    assert first != Outcome(OutcomeName.PUBLISHED, 3, 10, b"key", "id", None, 0)
    assert first.of(OutcomeName.DUPLICATE, "other") == Outcome(
        OutcomeName.DUPLICATE, 3, 10, b"key", "other"
    )


def test_names_and_reasons_are_found_by_their_text() -> None:
    assert {OutcomeName.PUBLISHED: 1}["published"] == 1
    assert {Reason.OVERLOADED: 1}["overloaded"] == 1
