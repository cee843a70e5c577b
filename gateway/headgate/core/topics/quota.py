"""A producer's quota: a token bucket that is told the time."""

import math


def quota_policy(name: str, per_second: int) -> str:
    """One item of RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10, section 3).

    The draft has a unit for bytes; it knows none for events.
    """
    unit = ';qu="content-bytes"' if name == "bytes" else ""
    return f'"{name}";q={max(1, per_second)};w=1{unit}'


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

    def seconds_to_full(self) -> int:
        """Until the whole of it may be sent at once, rounded up."""
        return math.ceil((self.capacity - self._level) / self.per_second)

    def remaining(self) -> int:
        return max(0, math.floor(self._level))
