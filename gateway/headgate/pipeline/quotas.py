"""Each producer's quota on this worker."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headgate.config.settings import ProducerSettings
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import brief
from headgate.core.topics.quota import TokenBucket, quota_policy


class _Buckets(NamedTuple):
    """of: the settings that they were made or confirmed for."""

    of: ProducerSettings
    events: TokenBucket | None
    bytes: TokenBucket | None

    def named(self) -> list[tuple[str, TokenBucket]]:
        """Those that there are."""
        both = (("events", self.events), ("bytes", self.bytes))
        return [(name, bucket) for name, bucket in both if bucket is not None]


class ProducerQuotas:
    """Token buckets by producer; an instance's quota is split evenly over its workers.

    policies: the RateLimit-Policy of each producer that has a quota.
    """

    def __init__(
        self, workers: int, clock: Callable[[], float], count_rejected: Callable[[str, int], None]
    ) -> None:
        self._workers = workers
        self._clock = clock
        self._count_rejected = count_rejected
        self._settings: Mapping[str, ProducerSettings] = {}
        self.policies: dict[str, str] = {}
        self._buckets: dict[str, _Buckets] = {}

    def replace(self, producers: Mapping[str, ProducerSettings]) -> None:
        """Put a configuration in force; buckets whose quota did not change keep their level."""
        self._settings = producers
        named = ((name, _policy(settings)) for name, settings in producers.items())
        self.policies = {name: policy for name, policy in named if policy}
        kept = {name: buckets for name, buckets in self._buckets.items() if name in producers}
        self._buckets = kept

    def _of(self, producer: str) -> _Buckets | None:
        """The producer's buckets. Made when it first posts: thousands may be configured."""
        settings = self._settings.get(producer)
        if settings is None:
            return None
        buckets = self._buckets.get(producer)
        if buckets is None or buckets.of is not settings:
            buckets = self._buckets[producer] = self._made(settings, buckets)
        return buckets

    def _made(self, settings: ProducerSettings, before: _Buckets | None) -> _Buckets:
        if before is not None and _same(before.of, settings):
            return before._replace(of=settings)
        events = self._bucket(settings.quota_events_per_s)
        size = self._bucket(settings.quota_bytes_per_s)
        return _Buckets(settings, events, size)

    def _bucket(self, per_second: int | None) -> TokenBucket | None:
        if per_second is None:
            return None
        return TokenBucket(per_second / self._workers, self._clock())

    def check(self, producer: str, events: int, size: int) -> Failure | None:
        """Spend the quota for a batch, or say how long to wait. size: body bytes."""
        failure = self._check(producer, events, size, spends=True)
        if failure is not None:
            self._count_rejected(producer, events)
        return failure

    def refusal(self, producer: str, size: int) -> Failure | None:
        """Why not even one event of that size may come now; spends nothing. size: body bytes."""
        failure = self._check(producer, 1, size, spends=False)
        if failure is not None:
            self._count_rejected(producer, 1)
        return failure

    def _check(self, producer: str, events: int, size: int, *, spends: bool) -> Failure | None:
        buckets = self._of(producer)
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
                return self._exceeded(producer, name, bucket, wait)
        for _, bucket, amount in spent if spends else ():
            bucket.take(amount)
        return None

    def fields(self, producer: str) -> tuple[tuple[str, str], ...]:
        """The fields RateLimit and RateLimit-Policy of an answer to one that has a quota."""
        buckets = self._of(producer)
        if buckets is None:
            return ()
        now = self._clock()
        limits = []
        for name, bucket in buckets.named():
            bucket.wait(0, now)
            limits.append(f'"{name}";r={bucket.remaining()};t={bucket.seconds_to_full()}')
        return (("RateLimit", ", ".join(limits)), ("RateLimit-Policy", self.policies[producer]))

    def _exceeded(self, producer: str, name: str, bucket: TokenBucket, wait: float) -> Failure:
        detail = f"producer {brief(producer)} has used up its quota of {name}; nothing was written"
        figures = {
            "quota": name,
            "limit_per_s": round(bucket.per_second * self._workers),
            "remaining": bucket.remaining(),
        }
        return Failure(Reason.QUOTA_EXCEEDED, detail, figures, max(1, math.ceil(wait)))


def _policy(settings: ProducerSettings) -> str:
    both = (("events", settings.quota_events_per_s), ("bytes", settings.quota_bytes_per_s))
    return ", ".join(quota_policy(name, quota) for name, quota in both if quota is not None)


def _same(old: ProducerSettings, new: ProducerSettings) -> bool:
    return (old.quota_events_per_s, old.quota_bytes_per_s) == (
        new.quota_events_per_s,
        new.quota_bytes_per_s,
    )
