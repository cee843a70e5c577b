"""Each producer's quota on this worker."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from headgate.config.settings import ProducerSettings
from headgate.core.outcome import Failure, Reason
from headgate.core.quota import Bucket


class QuotaMeter(Protocol):
    """What quotas report."""

    def quota_rejected(self, producer: str, count: int) -> None: ...


class _Buckets(NamedTuple):
    events: Bucket | None
    bytes: Bucket | None


class ProducerQuotas:
    """Token buckets by producer; an instance's quota is split evenly over its workers."""

    def __init__(self, workers: int, clock: Callable[[], float], meter: QuotaMeter) -> None:
        self._workers = workers
        self._clock = clock
        self._meter = meter
        self._settings: Mapping[str, ProducerSettings] = {}
        self._buckets: dict[str, _Buckets] = {}

    def replace(self, producers: Mapping[str, ProducerSettings]) -> None:
        """Put a configuration in force; buckets whose quota did not change keep their level."""
        old, self._settings = self._settings, producers
        self._buckets = {
            name: self._buckets[name]
            if name in self._buckets and _same(old.get(name), producer)
            else _Buckets(
                self._bucket(producer.quota_events_per_s), self._bucket(producer.quota_bytes_per_s)
            )
            for name, producer in producers.items()
        }

    def _bucket(self, per_second: int | None) -> Bucket | None:
        if per_second is None:
            return None
        return Bucket(per_second / self._workers, self._clock())

    def check(self, producer: str, events: int, size: int) -> Failure | None:
        """Spend the quota for a batch, or say how long to wait. size: body bytes."""
        buckets = self._buckets.get(producer)
        if buckets is None:
            return None
        now = self._clock()
        spent = [
            (name, bucket, amount)
            for name, bucket, amount in (
                ("events", buckets.events, events),
                ("bytes", buckets.bytes, size),
            )
            if bucket is not None
        ]
        for name, bucket, amount in spent:
            wait = bucket.wait(amount, now)
            if wait > 0:
                self._meter.quota_rejected(producer, events)
                return self._exceeded(producer, name, bucket, wait)
        for _, bucket, amount in spent:
            bucket.take(amount)
        return None

    def _exceeded(self, producer: str, name: str, bucket: Bucket, wait: float) -> Failure:
        detail = f"producer {producer!r} has used up its quota of {name}; nothing was written"
        figures = {
            "quota": name,
            "limit_per_s": round(bucket.per_second * self._workers),
            "remaining": bucket.remaining(),
        }
        return Failure(Reason.QUOTA_EXCEEDED, detail, figures, max(1, math.ceil(wait)))


def _same(old: ProducerSettings | None, new: ProducerSettings) -> bool:
    return old is not None and (
        (old.quota_events_per_s, old.quota_bytes_per_s)
        == (new.quota_events_per_s, new.quota_bytes_per_s)
    )
