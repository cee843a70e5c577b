"""One producer and topic inside a worker: cheap to feed, folded into figures about once a second.

`add` only keeps references to the request's outcomes and sizes; `fold` counts many requests
together, so that the sketches are fed with distinct keys and whole arrays.
"""

from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np

from headgate.core.outcome import Name, Outcome, Reason
from headgate.metrics import METRICS
from headgate.stats.sketches import Sketches
from headgate.stats.snapshot import REJECTS_KEPT, WINDOW_S, Detail, Reject, Window

FOLD_EVENTS: Final = 4000  # bounds what `add` keeps alive; such a fold takes about 2 ms
_KEY_SHOWN: Final = 200  # bytes; a longer key is cut and made unique by a digest
_DETAIL_SHOWN = 300  # characters of a reject's detail

_BOUNDS: Final = np.array(METRICS["headgate_event_bytes"].buckets)


class _Hour:
    """The live form of `Window`."""

    __slots__ = ("bytes", "coalesced", "ends", "oversize", "sketches")

    def __init__(self) -> None:
        self.ends: dict[tuple[str, str], int] = {}
        self.oversize: dict[str, int] = {}
        self.coalesced: dict[str, int] = {}
        self.bytes = 0
        self.sketches = Sketches()

    def frozen(self) -> Window:
        """As plain data."""
        sketched = self.sketches.serialise()
        return Window(
            dict(self.ends), self.bytes, sketched, dict(self.oversize), dict(self.coalesced)
        )


class _Tally:
    """One fold: events and bytes by key, events by (outcome, reason), other sums."""

    __slots__ = ("ended", "keyless", "keys", "suppressed_bytes")

    def __init__(self) -> None:
        self.keys: dict[bytes, list[int]] = {}
        self.ended: dict[tuple[str, str], int] = {}
        self.keyless = 0
        self.suppressed_bytes = 0


class Series:
    """The public figures are right after `fold`."""

    __slots__ = (
        "_detail",
        "_hours",
        "_pending",
        "_pending_events",
        "_rejects",
        "bucket_counts",
        "bytes",
        "ended",
        "keyless",
        "last_seen",
        "oversize",
        "suppressed_bytes",
    )

    def __init__(self) -> None:
        self._pending: list[tuple[float, Sequence[Outcome], Sequence[int]]] = []
        self._pending_events = 0
        self._hours: dict[int, _Hour] = {}
        self._detail: Detail | None = None  # until the next fold: most pairs are quiet
        self._rejects: deque[tuple[float, Outcome, int]] = deque(maxlen=REJECTS_KEPT)
        self.last_seen = 0.0
        self.ended: dict[tuple[str, str], int] = {}  # (outcome, reason or "") -> events
        self.bucket_counts = [0] * (len(_BOUNDS) + 1)
        self.bytes = 0
        self.suppressed_bytes = 0
        self.keyless = 0
        self.oversize: dict[str, int] = {}  # events published by a rung of the ladder, by rung

    def oversized(self, now: float, action: str) -> None:
        """Count an event that a rung published; `add` counts it as well."""
        self.oversize[action] = self.oversize.get(action, 0) + 1
        hour = self._hour(now)
        hour.oversize[action] = hour.oversize.get(action, 0) + 1
        self._detail = None

    def oversize_actions(self) -> dict[str, int]:
        """What became of events that were too large, those included that no rung took."""
        rejected = sum(n for (_, why), n in self.ended.items() if why == Reason.TOO_LARGE)
        return self.oversize | ({"reject": rejected} if rejected else {})

    def add(self, now: float, outcomes: Sequence[Outcome], sizes: Sequence[int]) -> None:
        """Take a request's outcomes and its events' value bytes, in the same order.

        Neither list may be changed afterwards. now: seconds since 1970. Raises ValueError when
        the lists differ in length: here, where it is the caller's, and not in a later fold.
        """
        if len(outcomes) != len(sizes):
            raise ValueError(f"{len(outcomes)} outcomes, but {len(sizes)} sizes")
        self._pending.append((now, outcomes, sizes))
        self._pending_events += len(outcomes)
        if self._pending_events >= FOLD_EVENTS:
            self.fold()

    def coalesced(self, now: float, outcome: str, events: int, size: int) -> None:
        """Count what became of events that were held: they were measured when they came.

        size: bytes of their values.
        """
        end = (outcome, "")
        self.ended[end] = self.ended.get(end, 0) + events
        coalesced = self._hour(now).coalesced
        coalesced[outcome] = coalesced.get(outcome, 0) + events
        if outcome != Name.PUBLISHED:
            self.suppressed_bytes += size
        self._detail = None

    def fold(self) -> None:
        """Count everything that was added since the last time."""
        pending = self._pending
        if not pending:
            return
        self._pending = []
        self._pending_events = 0
        self.last_seen = pending[-1][0]
        self._detail = None
        tally = _Tally()
        for now, outcomes, sizes in pending:
            self._count(tally, now, outcomes, sizes)
        hour = self._hour(self.last_seen)
        self._keep(tally, hour)
        self._measure([size for _, _, sizes in pending for size in sizes], hour)

    def detail(self) -> Detail:
        """What goes beyond counters, as plain data."""
        if self._detail is None:
            rejects = [_reject(*row) for row in self._rejects]
            windows = {number: hour.frozen() for number, hour in self._hours.items()}
            self._detail = Detail(self.last_seen, rejects, windows)
        return self._detail

    def _count(
        self, tally: _Tally, now: float, outcomes: Sequence[Outcome], sizes: Sequence[int]
    ) -> None:
        keys, ended = tally.keys, tally.ended
        for outcome, size in zip(outcomes, sizes, strict=True):
            key, failure = outcome.key, outcome.failure
            if key is not None:
                row = keys.get(key)
                if row is None:
                    keys[key] = [1, size]
                else:
                    row[0] += 1
                    row[1] += size
            elif failure is None:
                tally.keyless += 1
            if failure is None:
                end: tuple[str, str] = (outcome.name, "")
                if outcome.name == Name.UNCHANGED:
                    tally.suppressed_bytes += size
            else:
                end = (outcome.name, failure.reason)
                self._rejects.append((now, outcome, size))
            ended[end] = ended.get(end, 0) + 1

    def _keep(self, tally: _Tally, hour: _Hour) -> None:
        for end, count in tally.ended.items():
            self.ended[end] = self.ended.get(end, 0) + count
            hour.ends[end] = hour.ends.get(end, 0) + count
        self.keyless += tally.keyless
        self.suppressed_bytes += tally.suppressed_bytes
        hour.sketches.add_keys({_shown(key): (row[0], row[1]) for key, row in tally.keys.items()})

    def _measure(self, sizes: list[int], hour: _Hour) -> None:
        array = np.array(sizes, dtype=np.int32)
        placed = np.bincount(_BOUNDS.searchsorted(array), minlength=len(self.bucket_counts))
        for bucket, count in enumerate(placed.tolist()):
            self.bucket_counts[bucket] += count
        total = sum(sizes)
        self.bytes += total
        hour.bytes += total
        hour.sketches.add_sizes(array)

    def _hour(self, now: float) -> _Hour:
        number = int(now // WINDOW_S)
        hour = self._hours.get(number)
        if hour is None:
            self._hours = {old: row for old, row in self._hours.items() if old == number - 1}
            hour = self._hours[number] = _Hour()
        return hour


def _shown(key: bytes) -> str:
    """The key as text: sketches and answers hold text, and a key may be any bytes of any length."""
    if len(key) > _KEY_SHOWN:
        digest = blake2b(key, digest_size=8).hexdigest()
        return f"{key[:_KEY_SHOWN].decode('utf-8', 'backslashreplace')}...{digest}"
    return key.decode("utf-8", "backslashreplace")


def _reject(at: float, outcome: Outcome, size: int) -> Reject:
    failure = outcome.failure
    return Reject(
        at=at,
        outcome=str(outcome.name),
        reason=str(failure.reason) if failure else "",
        detail=failure.detail[:_DETAIL_SHOWN] if failure else "",
        size=size,
        key=None if outcome.key is None else _shown(outcome.key),
    )
