"""Which groups have shown that they keep up: a new one is on probation first."""

from typing import NamedTuple


class Probation(NamedTuple):
    """kept_ms: since when its lag is under the bound; None: it is not.  admitted_ms: since when it
    counts as one that keeps up; None: it is on probation. Times are ms since 1970."""

    first_seen_ms: int
    kept_ms: int | None = None
    admitted_ms: int | None = None

    def polled(self, now_ms: int, *, keeps_up: bool, long_ms: int) -> "Probation":
        """After one more poll. long_ms: how long it must have kept up without a break."""
        if self.admitted_ms is not None:
            return self
        if not keeps_up:
            return self._replace(kept_ms=None)
        kept_ms = now_ms if self.kept_ms is None else self.kept_ms
        admitted_ms = now_ms if now_ms - kept_ms >= long_ms else None
        return self._replace(kept_ms=kept_ms, admitted_ms=admitted_ms)
