"""How long the event loop was held up: the longest stall of the last minute."""

import asyncio
from collections.abc import Callable

_SECONDS_KEPT = 60
_INTERVAL_S = (
    0.02  # a stall of 50 ms is seen as at least 30 ms; 50 wake-ups a second cost 0.1 % CPU
)


class Peaks:
    """The largest value of each of the last seconds; a scraper of any pace sees every stall."""

    __slots__ = ("_by_second",)

    def __init__(self) -> None:
        self._by_second: dict[int, float] = {}

    def note(self, now: float, value: float) -> None:
        """Note a value at now (seconds)."""
        second = int(now)
        before = self._by_second.get(second)
        if before is None:
            oldest = second - _SECONDS_KEPT
            self._by_second = {at: peak for at, peak in self._by_second.items() if at > oldest}
            self._by_second[second] = value
        elif value > before:
            self._by_second[second] = value

    def largest(self, now: float) -> float:
        """The largest value of the last minute; 0 when there was none."""
        oldest = now - _SECONDS_KEPT
        return max((peak for at, peak in self._by_second.items() if at > oldest), default=0.0)


async def watch_loop(note: Callable[[float], None], interval_s: float = _INTERVAL_S) -> None:
    """Measure until cancelled. note: called with the seconds by which a wake-up came late."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval_s
        await asyncio.sleep(interval_s)
        note(max(0.0, loop.time() - due))
