"""When to try a broken thing again: at once, then ever more rarely, one probe at a time."""

from enum import StrEnum


class BreakerState(StrEnum):
    """CLOSED: in use. OPEN: left alone until a time. PROBING: one try is under way."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Breaker:
    """A circuit breaker that is told the time (seconds by a clock that never jumps).

    first_delay_s, longest_delay_s: the wait doubles from one to the other.  proven_s: how long it
    must have worked before a failure is a first failure again. Without that, a thing that breaks
    in every use and passes every probe would be tried, and waited for, again and again.
    """

    __slots__ = ("_closed_at", "_delay_s", "_first_delay_s", "_longest_delay_s", "_proven_s",
                 "_retry_at", "state")  # fmt: skip

    def __init__(self, first_delay_s: float, longest_delay_s: float, proven_s: float) -> None:
        self._first_delay_s = first_delay_s
        self._longest_delay_s = longest_delay_s
        self._proven_s = proven_s
        self._delay_s = 0.0
        self._retry_at = 0.0
        self._closed_at: float | None = None
        self.state = BreakerState.OPEN  # nothing is known of it before the first probe

    def failed(self, now: float) -> None:
        """The thing in use, or the probe, failed."""
        if self._closed_at is not None and now - self._closed_at >= self._proven_s:
            self._delay_s = 0.0
        self._retry_at = now + self._delay_s
        self._delay_s = min(max(self._delay_s * 2, self._first_delay_s), self._longest_delay_s)
        self._closed_at = None
        self.state = BreakerState.OPEN

    def succeeded(self, now: float) -> None:
        """The probe did what it should: use it again."""
        self._closed_at = now
        self.state = BreakerState.CLOSED

    def probing(self) -> None:
        """One try begins."""
        self.state = BreakerState.PROBING

    def wait_s(self, now: float) -> float:
        """Return how long to leave it alone from now, in seconds, 0 if a probe is due."""
        return max(0.0, self._retry_at - now)
