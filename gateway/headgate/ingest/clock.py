"""Request deadlines, and detection of a wrong gateway clock.

One periodic sweep checks all deadlines, so requests need no timers.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from headgate.metrics.health import Dependency
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Publish, Ticket
from headgate.model.times import shown_time
from headgate.model.topics import TopicState

log = logging.getLogger("headgate.ingest")

SWEEP_S = 0.05  # how late an answer may come after its deadline


class Deadlines:
    """Tickets in order of arrival. All have the same timeout, so the oldest is due first."""

    def __init__(
        self, expire: Callable[[Ticket], None], timeout_s: float, clock: Callable[[], float]
    ) -> None:
        self._expire = expire
        self._timeout_s = timeout_s
        self._clock = clock
        self._tickets: deque[Ticket] = deque()

    def watch(self, ticket: Ticket) -> None:
        self._tickets.append(ticket)

    def sweep(self) -> None:
        """Forget tickets that are done, and expire tickets that are due."""
        tickets = self._tickets
        due = self._clock() - self._timeout_s
        while tickets and (tickets[0].done or tickets[0].arrived <= due):
            ticket = tickets.popleft()
            if not ticket.done:
                self._expire(ticket)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                self.sweep()
            except Exception:  # the outermost frame of this task: other tickets must be answered
                log.exception("deadline callback failed")


# Detection of a wrong clock.
#
# Records carry the time of their arrival at the gateway. If Kafka refuses such a timestamp, the
# clocks of gateway and broker differ by more than the topic allows. Clients cannot correct that.


# Time after the last refusal until the gateway accepts events again. Only a new record can show
# that the clock was corrected.
_TRY_AGAIN_S = 60.0
_LOG_EVERY_S = 60.0
_TELLING_MS = 60_000  # smaller limits of a topic say nothing about the gateway
_FAR_MS = 10**13  # a larger difference counts as no limit

WRONG = Failure(
    Reason.CLOCK_WRONG,
    "Kafka refuses the time of this gateway's clock; nothing was written",
    None,
    5,
)


def now_ms() -> int:
    """Return the time of this machine's clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class ClockWatch:
    """Watch on the timestamps that Kafka refuses.

    Args:
        state: Returns the state of a topic.
        monotonic: Monotonic clock, in seconds.

    Attributes:
        suspects: Topics that have refused the gateway's time and have not accepted it since, with
            the monotonic time of the last refusal.
    """

    def __init__(
        self, state: Callable[[str], TopicState | None], monotonic: Callable[[], float]
    ) -> None:
        self._state = state
        self._monotonic = monotonic
        self.suspects: dict[str, float] = {}
        self._logged_s: float | None = None
        self._unlogged = 0

    def refused(self, topic: str, stamped_ms: int, records: int) -> Failure:
        """Record that Kafka refused timestamps of the gateway, and return the clients' failure.

        Args:
            topic: Topic of the records.
            stamped_ms: A refused timestamp, in milliseconds since 1970.
            records: Number of refused records.
        """
        self.suspects[topic] = self._monotonic()
        self._unlogged += records
        self._report(topic, stamped_ms)
        return WRONG

    def acknowledged(self, topic: str) -> None:
        """Record that Kafka accepted a timestamp of the gateway."""
        if self.suspects.pop(topic, None) is not None:
            log.info("clock: topic %s accepts this gateway's timestamps again", topic)

    def dependencies(self) -> list[Dependency]:
        """Return the clock's entry for /ready; empty while the clock may be right."""
        since = self._monotonic() - _TRY_AGAIN_S
        for topic in [name for name, last in self.suspects.items() if last <= since]:
            del self.suspects[topic]
        if any(self._is_telling(topic) for topic in self.suspects):
            detail = "Kafka refuses the time of this gateway's clock"
            return [Dependency("clock", False, True, detail, vital=True)]
        return []

    def _is_telling(self, topic: str) -> bool:
        state = self._state(topic)
        if state is None:
            return False
        limits = state.rules.before_ms, state.rules.after_ms
        return all(limit_ms is None or limit_ms >= _TELLING_MS for limit_ms in limits)

    def _report(self, topic: str, stamped_ms: int) -> None:
        now_s = self._monotonic()
        if self._logged_s is not None and now_s - self._logged_s < _LOG_EVERY_S:
            return
        state = self._state(topic)
        log.error(
            "clock: %d records refused: this gateway's clock showed %s, topic %s's broker %s",
            self._unlogged,
            shown_time(stamped_ms),
            topic,
            "another time" if state is None else _bounds(state, stamped_ms),
        )
        self._logged_s, self._unlogged = now_s, 0


def is_stamped_here(publish: Publish) -> bool:
    """Return whether the gateway, not the client, set the record's timestamp."""
    common = publish.common
    return common is None or publish.record.timestamp_ms == common.now_ms


def _bounds(state: TopicState, stamped_ms: int) -> str:
    """Return the broker times at which Kafka refuses the timestamp, as text.

    Kafka's response does not contain the broker's time.
    """
    bounds, rules = [], state.rules
    if rules.after_ms is not None and rules.after_ms < _FAR_MS:
        bounds.append(f"a time before {shown_time(stamped_ms - rules.after_ms)}")
    if rules.before_ms is not None and rules.before_ms < _FAR_MS:
        bounds.append(f"a time after {shown_time(stamped_ms + rules.before_ms)}")
    return " or ".join(bounds) or "another time"
