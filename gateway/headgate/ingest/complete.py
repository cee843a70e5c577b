"""The last stage: it turns reports of lanes and suppression into outcomes, answers and metrics.

Every event gets exactly one outcome here, and every admission budget is returned.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence, Sized
from typing import Final, Protocol, cast

from headgate.audits.facts import Facts
from headgate.backends.base import Identities, Suppression
from headgate.ingest.admission import Admission
from headgate.metrics.health import Dependency
from headgate.metrics.meter import Meter
from headgate.model.internal_topics import HELD_PREFIX
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason, rejected
from headgate.model.publish import Publish, Stage, Ticket
from headgate.model.times import shown_time
from headgate.model.topics import TopicState
from headgate.tracing.spans import Traces

log = logging.getLogger("headgate.ingest")

# Looking a member up in an Enum class costs 0.1 us in Python 3.11: as much as a small call.
_ENDED: Final = Stage.ENDED
_PUBLISHED: Final = OutcomeName.PUBLISHED
_UNCHANGED: Final = OutcomeName.UNCHANGED
_HELD: Final = OutcomeName.HELD
_SPOOLED: Final = OutcomeName.SPOOLED
_NO_OFFSET: Final = Failure(
    Reason.UNKNOWN, "it is on disk here and is published later, so there is no offset yet"
)


class Complete:
    """Stage that ends events and requests.

    Args:
        admission: Budget of all requests.
        meter: Counts the outcomes.
        identities: Remembers successful events by id; None without Redis.
        facts: Records audit facts; None if no topic records any.
    """

    def __init__(
        self,
        admission: Admission,
        meter: Meter,
        identities: Identities | None = None,
        facts: Facts | None = None,
    ) -> None:
        self._admission = admission
        self._meter = meter
        self._identities = identities
        self._facts = facts
        self._idle: asyncio.Event | None = None

    async def drain(self) -> None:
        """Admit no more events, and wait until all events in flight have ended."""
        self._admission.close()
        self._idle = asyncio.Event()
        if self._admission.events:
            await self._idle.wait()

    # ---- requests

    def refuse_request(self, ticket: Ticket, failure: Failure, events: int = 1) -> None:
        """Refuse a request as a whole: it gets one outcome, and none of its events is started.

        Args:
            ticket: Ticket of the request.
            failure: Reason for the refusal.
            events: Number of its events, if it is known; the metrics count each of them.
        """
        ticket.refuse_request(rejected(failure))
        self._account(ticket, events)
        self._admission.give(ticket.producer, ticket.body_bytes, 0)
        self._remember(ticket)
        waiter, ticket.waiter = ticket.waiter, None  # its future's result is the ticket: a cycle
        if waiter is not None:
            waiter(ticket)

    def abandon(self, ticket: Ticket) -> None:
        """Return the budget of a request that an internal error ended."""
        self._admission.give(ticket.producer, ticket.body_bytes, len(ticket.outcomes))
        self._remember(ticket)

    def close(self, ticket: Ticket) -> None:
        """Close a ticket whose outcomes are all known: count them and wake the waiter."""
        ticket.done = True
        if ticket.needs_offset:
            _answer_without_offset(ticket)
        if ticket.attempt is not None:
            ticket.attempt.answer_repeats(ticket.outcomes)
            # Spooled events count as successful, although their lane may keep them for long.
            if ticket.open_publishes == 0 or all(
                outcome.failure is None for outcome in ticket.answered()
            ):
                self._remember(ticket)
        self._account(ticket)
        if ticket.open_publishes == 0:
            self._release(ticket)
        waiter, ticket.waiter = ticket.waiter, None  # its future's result is the ticket: a cycle
        if waiter is not None:
            waiter(ticket)

    def answer(self, ticket: Ticket, index: int, outcome: Outcome) -> None:
        """Set the answer for an event that has not ended."""
        if ticket.put(index, outcome):
            self.close(ticket)

    def end(self, publish: Publish, outcome: Outcome) -> None:
        """End an event. Its outcome is the answer if the event has no answer yet."""
        if publish.stage is not _ENDED and not publish.dropped:
            publish.advance(_ENDED)  # else the caller has already done so
        ticket = publish.ticket
        if ticket is None:
            if publish.owner is not None:
                publish.owner.ended(publish, outcome)
        elif ticket.end(publish.index, outcome):
            self.close(ticket)
        elif ticket.done:
            self._end_late(ticket, publish.index, outcome)

    def report(self, producer: str, topic: str, one_in: int, failure: Failure) -> None:
        """Record facts of a request that a front refused and counted before it came here.

        Args:
            producer: Producer of the request.
            topic: Topic of the request.
            one_in: Facts of one in this many events are recorded; 0: none.
            failure: Reason for the refusal.
        """
        if one_in and self._facts is not None:
            self._facts.take(producer, topic, one_in, [rejected(failure)], [0])

    # ---- verdicts of suppression

    def unchanged(self, publish: Publish, offset: int) -> None:
        """End an event as unchanged: the key's newest record, at this offset, is equal."""
        self._finish(publish, _UNCHANGED, offset, None)

    def reject(self, publish: Publish, failure: Failure) -> None:
        """Reject an event of which nothing was written."""
        self._finish(publish, OutcomeName.REJECTED, -1, failure)

    # ---- reports of lanes

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        if batch[0].record.topic.startswith(HELD_PREFIX):  # a lane's batch has one topic
            for publish in batch:  # it has no offset in its own topic yet, and no followers
                key, event_id = publish.record.key, publish.event_id
                self.end(publish, Outcome(_HELD, key=key, event_id=event_id))
            return
        step = 1 if base_offset >= 0 else 0
        offset = base_offset
        for publish in batch:
            self._finish(publish, _PUBLISHED, offset, None)
            offset += step

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        name = OutcomeName.UNKNOWN if failure.reason is Reason.UNKNOWN else OutcomeName.REJECTED
        for publish in batch:
            self._finish(publish, name, -1, failure)

    # ---- reports of the spool

    def spooled(self, batch: Sequence[Publish]) -> None:
        """End events that are on disk and in no lane."""
        for publish in batch:
            self._finish(publish, _SPOOLED, -1, None)

    def spooled_in_flight(self, batch: Sequence[Publish]) -> None:
        """Answer events that are on disk, but have not yet ended in their lane."""
        for publish in batch:
            for spooled in (publish, *(publish.followers or ())):
                ticket = spooled.ticket
                if ticket is not None and ticket.outcomes[spooled.index] is None:
                    event_id = spooled.event_id or publish.event_id
                    outcome = Outcome(_SPOOLED, key=spooled.record.key, event_id=event_id)
                    self.answer(ticket, spooled.index, outcome)

    # ---- reports of the oversize stage

    def written(self, publish: Publish, strategy: str, last: Outcome, records: int) -> None:
        """End an oversized event that is in Kafka.

        Args:
            publish: The event.
            strategy: Strategy that made its records.
            last: Outcome of the last record, whose partition and offset the event gets.
            records: Number of its records.
        """
        key, event_id = publish.record.key, publish.event_id
        fields = (_PUBLISHED, last.partition, last.offset, key, event_id)
        outcome = Outcome(*fields, None, records, strategy, last.timestamp_ms)
        self.end(publish, outcome)
        if publish.followers is not None:
            self._end_followers(publish, outcome)

    # ---- ends of events

    def _finish(
        self, publish: Publish, name: OutcomeName, offset: int, failure: Failure | None
    ) -> None:
        record, records, timestamp_ms = publish.record, 0, -1
        if name is _PUBLISHED:
            records, timestamp_ms = 1, record.timestamp_ms
        event_id = publish.event_id
        partition = record.partition if name is not _SPOOLED else -1
        outcome = Outcome(
            name, partition, offset, record.key, event_id, failure, records, None, timestamp_ms
        )
        self.end(publish, outcome)
        if publish.followers is not None:
            self._end_followers(publish, outcome)

    def _end_followers(self, publish: Publish, outcome: Outcome) -> None:
        """End an event's followers like the event; they have no records of their own."""
        followers, publish.followers = publish.followers, None
        for follower in followers or ():
            own_id = follower.event_id or outcome.event_id
            self.end(follower, outcome.of(outcome.name, own_id))

    def _end_late(self, ticket: Ticket, index: int, outcome: Outcome) -> None:
        """Record the end of an event that was already answered, for example as `unknown`."""
        if ticket.attempt is not None:
            ticket.attempt.late[index] = outcome
        if ticket.facts:
            self._report(ticket, [outcome], [ticket.sizes[index]])
        if ticket.open_publishes == 0:
            self._release(ticket)
            self._remember(ticket)

    def _account(self, ticket: Ticket, refused: int = 1) -> None:
        """Report a request that has ended.

        Args:
            ticket: Ticket of the request.
            refused: Number of events for which its only outcome stands.
        """
        outcomes, sizes = cast(list[Outcome], ticket.outcomes), ticket.sizes  # none is open
        if ticket.trace is not None:
            ticket.trace.answer = (ticket.producer, ticket.topic, outcomes)
        counted = outcomes
        if refused > 1:
            counted, sizes = outcomes * refused, [ticket.body_bytes // refused] * refused
        self._meter.account(ticket.producer, ticket.topic, counted, sizes, ticket.request_id)
        if ticket.facts:
            self._report(ticket, outcomes, ticket.sizes)

    def _report(self, ticket: Ticket, outcomes: list[Outcome], sizes: list[int]) -> None:
        if self._facts is not None:
            self._facts.take(ticket.producer, ticket.topic, ticket.facts, outcomes, sizes)

    def _release(self, ticket: Ticket) -> None:
        ticket.publishes = []  # the sweep may keep the ticket behind an older one that is open
        self._admission.give(ticket.producer, ticket.body_bytes, len(ticket.outcomes))
        if self._idle is not None and not self._admission.events:
            self._idle.set()

    def _remember(self, ticket: Ticket) -> None:
        """Store the final outcomes of a ticket's idempotency attempt, once."""
        attempt = ticket.attempt
        if attempt is not None and not attempt.is_told and self._identities is not None:
            attempt.is_told = True
            self._identities.ended(ticket)


def _answer_without_offset(ticket: Ticket) -> None:
    """Replace `spooled` by `unknown` in a ticket whose client needs offsets.

    This happens if a reload turned spooling on or off while the event was in its lane.
    """
    for index, outcome in enumerate(ticket.outcomes):
        if outcome is not None and outcome.name is _SPOOLED:
            ticket.outcomes[index] = Outcome(
                OutcomeName.UNKNOWN, key=outcome.key, event_id=outcome.event_id, failure=_NO_OFFSET
            )


# ---- detection of a wrong clock
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
    retry_after_s=5,
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


# ---- fan-out of lane reports, in a fixed order


class Oversize(Protocol):
    """The stage for all events of topics with an oversize policy (`oversize.stage`).

    It takes small events too: they must not overtake a large event of their key.

    Attributes:
        waiting: Keys with an event that later events of the key must not overtake.
        in_parts: Events of which several records are in lanes.
    """

    waiting: Sized
    in_parts: Sized

    def take(self, publish: Publish) -> None: ...

    def is_preparing(self, publish: Publish) -> bool:
        """Return whether an event waits for its preparation, or for that of an earlier one."""
        ...

    def drop(self, publish: Publish) -> None:
        """Drop an event of which no record was handed over."""
        ...

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """Mark the oversized events of a batch as handed over to the producer."""
        ...


class Reports:
    """Fan-out of lane reports to completion, suppression and oversize.

    Implements `base.Deliveries`. Lanes are built with it, before the stages that need lanes.

    Args:
        clock: Watch on the timestamps that Kafka refuses.
        complete: Stage that ends events.
        suppression: Returns the suppression state, which settles the reservations of ended events.
        oversize: Returns the oversize stage, which must know when the first record of an event is
            handed over; None if there is no such stage.
        traces: Open traces; None without tracing.
    """

    def __init__(
        self,
        clock: ClockWatch,
        complete: Complete,
        suppression: Callable[[], Suppression],
        oversize: Callable[[], Oversize] | None = None,
        traces: Traces | None = None,
    ) -> None:
        self._clock = clock
        self._complete = complete
        self._suppression_of = suppression
        self._suppression: Suppression | None = None
        self._oversize_of = oversize
        self._oversize: Oversize | None = None
        self._traces = traces

    def handed_over(self, batch: Sequence[Publish]) -> None:
        if self._traces is not None:
            self._traces.handed_over(batch)
        if self._oversize is None and self._oversize_of is not None:
            self._oversize = self._oversize_of()
        if self._oversize is not None and len(self._oversize.in_parts) > 0:
            self._oversize.handed_over(batch)

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        if self._traces is not None:
            self._traces.acknowledged(batch, base_offset)
        if self._clock.suspects and any(map(is_stamped_here, batch)):
            self._clock.acknowledged(batch[0].record.topic)
        self._complete.acknowledged(batch, base_offset)
        (self._suppression or self._settling()).acknowledged(batch, base_offset)

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        if self._traces is not None:
            self._traces.failed(batch, str(failure.reason))
        if failure.reason is Reason.TIMESTAMP_OUT_OF_RANGE:
            ours = [publish for publish in batch if is_stamped_here(publish)]
            if ours:  # no client can correct it
                record = ours[0].record
                wrong = self._clock.refused(record.topic, record.timestamp_ms, len(ours))
                self._fail(ours, wrong)
                batch = [publish for publish in batch if not is_stamped_here(publish)]
        self._fail(batch, failure)

    def spooled(self, batch: Sequence[Publish], certain: bool) -> None:
        """Report events that are on disk only.

        Args:
            batch: The events.
            certain: Whether certainly none of them is in Kafka.
        """
        if self._traces is not None:
            self._traces.failed(batch, str(_SPOOLED))
        self._complete.spooled(batch)
        self._settle(batch, certain)

    def spooled_in_flight(self, batch: Sequence[Publish]) -> None:
        """Report events that are on disk; their lane still reports their end."""
        self._complete.spooled_in_flight(batch)

    def withdrawn(self, batch: Sequence[Publish]) -> None:
        """Report events that were taken out of their lane: none can be in Kafka."""
        self._settle(batch, True)

    def _fail(self, batch: Sequence[Publish], failure: Failure) -> None:
        self._complete.failed(batch, failure)
        self._settle(batch, failure.reason is not Reason.UNKNOWN)

    def _settle(self, batch: Sequence[Publish], certain: bool) -> None:
        suppression = self._settling()
        for publish in batch:
            suppression.ended(publish, certain)

    def _settling(self) -> Suppression:
        if self._suppression is None:
            self._suppression = self._suppression_of()
        return self._suppression
