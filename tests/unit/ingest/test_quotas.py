"""Producers' quotas on one worker."""

import pytest

from headgate.config.settings import ProducerSettings
from headgate.ingest.admission import ProducerQuotas
from headgate.model.outcome import Reason


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Meter:
    """Remembers what was rejected."""

    def __init__(self) -> None:
        self.rejected: list[tuple[str, int]] = []

    def quota_rejected(self, producer: str, count: int) -> None:
        self.rejected.append((producer, count))


def quota(events: int | None = None, size: int | None = None) -> ProducerSettings:
    return ProducerSettings(quota_events_per_s=events, quota_bytes_per_s=size)


def quotas(workers: int = 1, **producers: ProducerSettings) -> tuple[ProducerQuotas, Clock, Meter]:
    clock, meter = Clock(), Meter()
    made = ProducerQuotas(workers, clock, meter.quota_rejected)
    made.replace(producers)
    return made, clock, meter


def test_who_has_no_quota_may_send_anything() -> None:
    made, _, meter = quotas(free=quota())
    assert made.check("free", 10**9, 10**12) is None
    assert made.check("stranger", 10**9, 10**12) is None
    assert meter.rejected == []


def test_a_used_up_quota_says_when_to_come_back() -> None:
    made, clock, meter = quotas(p=quota(events=10))
    assert made.check("p", 10, 1) is None
    failure = made.check("p", 5, 1)
    assert failure is not None
    assert (failure.reason, failure.retry_after_s) == (Reason.QUOTA_EXCEEDED, 1)
    assert failure.figures == {"quota": "events", "limit_per_s": 10, "remaining": 0}
    assert meter.rejected == [("p", 5)]
    clock.now += 0.5
    assert made.check("p", 5, 1) is None


def test_what_is_refused_for_one_quota_spends_none_of_the_other() -> None:
    made, clock, _ = quotas(p=quota(events=10, size=1000))
    assert made.check("p", 1, 1000) is None
    for _ in range(20):
        failure = made.check("p", 1, 1000)
        assert failure is not None
        assert failure.figures is not None
        assert failure.figures["quota"] == "bytes"
    clock.now += 1
    assert made.check("p", 10, 1000) is None


def test_a_quota_is_split_over_the_workers() -> None:
    made, _, _ = quotas(p=quota(events=10), workers=2)
    assert made.check("p", 5, 1) is None
    assert made.check("p", 1, 1) is not None


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_a_producer_is_told_the_limit_of_the_instance_not_of_a_worker(workers: int) -> None:
    for events, size, name, limit in ((100, 0, "events", 100), (0, 10**6, "bytes", 10**6)):
        made, _, _ = quotas(p=quota(events=100, size=10**6), workers=workers)
        assert made.check("p", events, size) is None  # what a bucket cannot hold is lent
        failure = made.check("p", events, size)
        assert failure is not None
        assert failure.figures == {"quota": name, "limit_per_s": limit, "remaining": 0}


def test_a_reload_keeps_the_level_unless_the_quota_changed() -> None:
    made, _, _ = quotas(p=quota(events=10), q=quota(events=10))
    assert made.check("p", 10, 1) is None
    assert made.check("q", 10, 1) is None
    made.replace({"p": quota(events=10), "q": quota(events=20)})
    assert made.check("p", 1, 1) is not None
    assert made.check("q", 20, 1) is None
    made.replace({})
    assert made.check("p", 100, 1) is None
