"""Answers tickets whose time is up. One sweep for all instead of a timer for each request."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish, Ticket
from headgate.core.times import shown_time
from headgate.core.topics.topic import TopicState
from headgate.metrics.health import Dependency

log = logging.getLogger("headgate.pipeline.clock")

SWEEP_S = 0.05  # how late an answer may come after its deadline


class Deadlines:
    """Tickets in the order of their arrival; all have the same time, so the oldest is due first."""

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
        """Forget what is done and expire what is due."""
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
            except Exception:  # the outermost frame of this task: the others must be answered
                log.exception("deadline callback failed")


# Whether this gateway's clock is right, as far as Kafka's answers tell.
#
# Records carry the time of their arrival here. Where Kafka refuses such a time, this clock and the
# broker's differ by more than the topic allows, and no client can do anything about it.


# Nothing else tells that the clock was set right: so long after the last refusal, events are let
# in again, and the next one shows it.
_TRY_AGAIN_S = 60.0
_LOG_EVERY_S = 60.0
_TELLING_MS = 60_000  # a topic that allows for less says nothing about the gateway as a whole
_FAR_MS = 10**13  # further ahead or back than that is no limit

WRONG = Failure(
    Reason.CLOCK_WRONG,
    "Kafka refuses the time of this gateway's clock; nothing was written",
    None,
    5,
)


def now_ms() -> int:
    """Milliseconds since 1970, by this machine's clock."""
    return time.time_ns() // 1_000_000


class ClockWatch:
    """state: of a topic.  monotonic: seconds.

    suspects: topics that have refused our time and have not taken it since, and when last.
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
        """Kafka refused so many records for the time that we gave them: what their clients hear."""
        self.suspects[topic] = self._monotonic()
        self._unlogged += records
        self._report(topic, stamped_ms)
        return WRONG

    def acknowledged(self, topic: str) -> None:
        """Kafka took a record with a time of ours."""
        if self.suspects.pop(topic, None) is not None:
            log.info("clock: topic %s accepts this gateway's timestamps again", topic)

    def dependencies(self) -> list[Dependency]:
        """As /ready shows it: nothing as long as the clock may be right."""
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
    """Whether its record has the time of this gateway's clock, and none that its client chose."""
    common = publish.common
    return common is None or publish.record.timestamp_ms == common.now_ms


def _bounds(state: TopicState, stamped_ms: int) -> str:
    """When it must have been there, for Kafka to refuse the time. Its answer does not say."""
    bounds, rules = [], state.rules
    if rules.after_ms is not None and rules.after_ms < _FAR_MS:
        bounds.append(f"a time before {shown_time(stamped_ms - rules.after_ms)}")
    if rules.before_ms is not None and rules.before_ms < _FAR_MS:
        bounds.append(f"a time after {shown_time(stamped_ms + rules.before_ms)}")
    return " or ".join(bounds) or "another time"
