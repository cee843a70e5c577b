"""A producer's quota: a token bucket that is told the time."""

import math


class TokenBucket:
    """Tokens that come back at a steady rate.

    per_second: tokens regained a second; the bucket holds one second's worth (at least one), so a
    producer may send its second's quota at once.
    """

    __slots__ = ("_at", "_level", "capacity", "per_second")

    def __init__(self, per_second: float, now: float) -> None:
        self.per_second = per_second
        self.capacity = max(per_second, 1.0)
        self._level = self.capacity
        self._at = now

    def _refill(self, now: float) -> None:
        gained = (now - self._at) * self.per_second
        self._level = min(self.capacity, self._level + max(0.0, gained))
        self._at = now

    def wait(self, tokens: float, now: float) -> float:
        """Seconds until so many tokens are there; 0 when they are there now.

        More than the bucket holds are lent: such a batch waits for a full bucket and leaves a
        debt, instead of never getting through.
        """
        self._refill(now)
        needed = min(tokens, self.capacity)
        return max(0.0, (needed - self._level) / self.per_second)

    def take(self, tokens: float) -> None:
        """Spend tokens; call it after `wait` answered 0."""
        self._level -= tokens

    def remaining(self) -> int:
        return max(0, math.floor(self._level))
