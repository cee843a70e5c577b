"""The figures of one producer and topic inside a worker.

The meter passes many ended requests at a time. Each key goes to the sketches once for many events,
because a sketch costs 1 us per key.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from headgate.metrics.catalogue import METRICS
from headgate.metrics.sketches import Sketches
from headgate.metrics.snapshot import (
    MAX_UNCONFIGURED,
    REJECTS_KEPT,
    WINDOW_S,
    Detail,
    ProducerHour,
    Reject,
    Unconfigured,
)
from headgate.model.outcome import Outcome, OutcomeName, Reason

_MAX_KEYS: Final = 2000  # keys that may wait for the sketches before another count
_KEY_SHOWN: Final = 200  # bytes; a longer key is cut and made unique by a digest
_DETAIL_SHOWN = 300  # characters of a reject's detail

_UNCHANGED: Final = OutcomeName.UNCHANGED

_BOUNDS: Final = list(METRICS["headgate_event_bytes"].buckets)

# A request: the time of its end in seconds since 1970, its outcomes, the bytes of each event's
# value, and its id.
Ended = tuple[float, Sequence[Outcome], Sequence[int], str]


class _Hour:
    """The live form of `ProducerHour`."""

    __slots__ = ("bytes", "coalesced", "ends", "oversize", "sketches")

    def __init__(self) -> None:
        self.ends: dict[tuple[str, str], int] = {}
        self.oversize: dict[str, int] = {}
        self.coalesced: dict[str, int] = {}
        self.bytes = 0
        self.sketches = Sketches()

    def frozen(self) -> ProducerHour:
        """Return the hour as plain data."""
        sketched = self.sketches.serialise()
        return ProducerHour(
            dict(self.ends), self.bytes, sketched, dict(self.oversize), dict(self.coalesced)
        )


class _Weight:
    """Events and bytes of one key."""

    __slots__ = ("bytes", "events")

    def __init__(self, events: int, size: int) -> None:
        self.events = events
        self.bytes = size


class Series:
    """The figures of a producer and topic."""

    def __init__(self) -> None:
        self._hours: dict[int, _Hour] = {}
        self._keys: dict[bytes, _Weight] = {}  # not in the sketches of `_keys_hour` yet
        self._keys_hour = _Hour()
        self._detail: Detail | None = None  # until the next request: most pairs are quiet
        self._rejects: deque[tuple[float, Outcome, int, str]] = deque(maxlen=REJECTS_KEPT)
        self.last_seen = 0.0
        self.ended: dict[tuple[str, str], int] = {}  # (outcome, reason or "") -> events
        self.bucket_counts = [0] * (len(_BOUNDS) + 1)
        self.bytes = 0
        self.suppressed_bytes = 0
        self.keyless = 0
        self.limited = 0  # events refused because of their own producer's limit or share
        self.oversize: dict[str, int] = {}  # events published by a strategy, by strategy

    def oversized(self, now_s: float, action: str) -> None:
        """Count an event that a strategy published; `count` counts it as well."""
        self.oversize[action] = self.oversize.get(action, 0) + 1
        hour = self._hour(now_s)
        hour.oversize[action] = hour.oversize.get(action, 0) + 1
        self._detail = None

    def oversize_actions(self) -> dict[str, int]:
        """Return the oversize events by action, rejected ones included."""
        rejected = sum(n for (_, why), n in self.ended.items() if why == Reason.TOO_LARGE)
        return self.oversize | ({"reject": rejected} if rejected else {})

    def coalesced(self, now_s: float, outcome: str, events: int, size: int) -> None:
        """Count the outcomes of held events, which were measured on arrival.

        Args:
            now_s: Seconds since 1970.
            outcome: The outcome.
            events: Number of events.
            size: Bytes of their values.
        """
        end = (outcome, "")
        self.ended[end] = self.ended.get(end, 0) + events
        coalesced = self._hour(now_s).coalesced
        coalesced[outcome] = coalesced.get(outcome, 0) + events
        if outcome != OutcomeName.PUBLISHED:
            self.suppressed_bytes += size
        self._detail = None

    def count(self, requests: Sequence[Ended]) -> None:
        """Count requests in order of their ends; at least one."""
        self.last_seen = requests[-1][0]
        self._detail = None
        hour = self._hour(self.last_seen)
        if hour is not self._keys_hour:
            self.fold_keys()
            self._keys_hour = hour
        ended: dict[tuple[str, str], int] = {}
        for now, outcomes, sizes, request_id in requests:
            self._count(ended, now, outcomes, sizes, request_id)
        for end, count in ended.items():
            self.ended[end] = self.ended.get(end, 0) + count
            hour.ends[end] = hour.ends.get(end, 0) + count
        self._measure([size for _, _, sizes, _ in requests for size in sizes], hour)
        if len(self._keys) >= _MAX_KEYS:
            self.fold_keys()

    def fold_keys(self) -> None:
        """Add the keys counted so far to the sketches."""
        if self._keys:
            keys, self._keys = self._keys, {}
            totals: dict[str, tuple[int, int]] = {}
            for key, weight in keys.items():
                text = _shown(key)
                events, size = totals.get(text, (0, 0))  # keys that are no UTF-8 may collide
                totals[text] = (events + weight.events, size + weight.bytes)
            self._keys_hour.sketches.add_keys(totals)

    def detail(self) -> Detail:
        """Return the figures beyond counters, as plain data."""
        if self._detail is None:
            rejects = [_reject(*row) for row in self._rejects]
            windows = {number: hour.frozen() for number, hour in self._hours.items()}
            self._detail = Detail(self.last_seen, rejects, windows)
        return self._detail

    def _count(
        self,
        ended: dict[tuple[str, str], int],
        now_s: float,
        outcomes: Sequence[Outcome],
        sizes: Sequence[int],
        request_id: str,
    ) -> None:
        keys = self._keys
        end: tuple[str, str] = ("", "")
        failed: Outcome | None = None
        run = 0  # most events of a request have the outcome of the one before
        for outcome, size in zip(outcomes, sizes, strict=True):
            key, failure = outcome.key, outcome.failure
            if key is not None:
                weight = keys.get(key)
                if weight is None:
                    keys[key] = _Weight(1, size)
                else:
                    weight.events += 1
                    weight.bytes += size
            elif failure is None:
                self.keyless += 1
            name: str = outcome.name
            reason = ""
            if failure is not None:
                reason = failure.reason
                if failure.is_of_producer:
                    self.limited += 1
                if outcome is not failed:  # a refused request has one outcome for all its events
                    failed = outcome
                    self._rejects.append((now_s, outcome, size, request_id))
            elif name is _UNCHANGED:
                self.suppressed_bytes += size
            if name is end[0] and reason is end[1]:
                run += 1
                continue
            if run:
                ended[end] = ended.get(end, 0) + run
            end, run = (name, reason), 1
        if run:
            ended[end] = ended.get(end, 0) + run

    def _measure(self, sizes: list[int], hour: _Hour) -> None:
        counts = Counter(sizes)  # in C
        for size, count in counts.items():
            self.bucket_counts[bisect_left(_BOUNDS, size)] += count
        total = sum(sizes)
        self.bytes += total
        hour.bytes += total
        hour.sketches.add_sizes(counts)

    def _hour(self, now_s: float) -> _Hour:
        number = int(now_s // WINDOW_S)
        hour = self._hours.get(number)
        if hour is None:
            self._hours = {old: row for old, row in self._hours.items() if old == number - 1}
            hour = self._hours[number] = _Hour()
        return hour


def _shown(key: bytes) -> str:
    """Return the key as bounded text, which sketches and responses need."""
    if len(key) > _KEY_SHOWN:
        digest = blake2b(key, digest_size=8).hexdigest()
        return f"{key[:_KEY_SHOWN].decode('utf-8', 'backslashreplace')}...{digest}"
    return key.decode("utf-8", "backslashreplace")


def _reject(at: float, outcome: Outcome, size: int, request_id: str) -> Reject:
    failure = outcome.failure
    return Reject(
        at=at,
        outcome=str(outcome.name),
        reason=str(failure.reason) if failure else "",
        detail=failure.detail[:_DETAIL_SHOWN] if failure else "",
        size=size,
        key=None if outcome.key is None else _shown(outcome.key),
        request_id=request_id,
    )


class UnconfiguredProducers:
    """The busiest unconfigured producers of one worker, in bounded memory.

    Space-saving (Metwally, Agrawal and El Abbadi, 2005): a new name replaces the one with the
    fewest events and takes over its count, so that a busy name is never missing.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._seen: dict[str, float] = {}

    def add(self, name: str, events: int, now_s: float) -> None:
        """Count events; `now_s` is in seconds since 1970."""
        before = self._counts.get(name)
        if before is None:
            before = self._make_room()
        self._counts[name] = before + events
        self._seen[name] = now_s

    def _make_room(self) -> int:
        if len(self._counts) < MAX_UNCONFIGURED:
            return 0
        least = min(self._counts, key=self._counts.__getitem__)
        del self._seen[least]
        return self._counts.pop(least)

    def collect(self) -> dict[str, Unconfigured]:
        """Return the producers by name."""
        return {name: Unconfigured(count, self._seen[name]) for name, count in self._counts.items()}
