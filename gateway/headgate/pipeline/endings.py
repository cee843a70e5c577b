"""How events end: what lanes and suppression report becomes outcomes, and the answer's time.

`Endings` is the listener of both (`Deliveries`, `Verdicts`); `onward.Onward` adds the way to the
lanes, and `ingest.Ingest` the way in.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from headgate.backends.base import Lanes, Suppression
from headgate.core.admission import Admission
from headgate.core.coalescing.held import HELD_PREFIX
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure, Name, Outcome, Reason
from headgate.core.publish import Publish, Stage
from headgate.core.record import EVENT_ID
from headgate.core.route import Route
from headgate.pipeline.steps import Steps, Whole
from headgate.pipeline.ticket import Ticket, rejected

# Looking a member up in an Enum class costs 0.1 us in Python 3.11: as much as a small call.
_NEW: Final = Stage.NEW
_QUEUED: Final = Stage.QUEUED
_RESERVING: Final = Stage.RESERVING
_LANE: Final = Stage.LANE
_HANDED: Final = Stage.HANDED
_ENDED: Final = Stage.ENDED
_PUBLISHED: Final = Name.PUBLISHED
_UNCHANGED: Final = Name.UNCHANGED
_HELD: Final = Name.HELD

DRAINING = Failure(Reason.DRAINING, "this instance takes no more events", None, 1)
RETRY_AFTER_S = 2  # an ordinary leader change takes 5-11 s; clients back off by themselves


class Accounts(Protocol):
    """What ingest reports: each request's outcomes, once, when all are known."""

    def account(
        self, producer: str, topic: str, outcomes: Sequence[Outcome], sizes: Sequence[int]
    ) -> None: ...


class Endings:
    """Every event gets exactly one outcome here, and every budget is given back."""

    def __init__(
        self, admission: Admission, accounts: Accounts, ids: EventIds, request_timeout_ms: int
    ) -> None:
        self._admission = admission
        self._accounts = accounts
        self._ids = ids
        self._timeout_s = request_timeout_ms / 1000
        self._idle: asyncio.Event | None = None

    def connect(self, lanes: Lanes, suppression: Suppression, steps: Steps | None = None) -> None:
        """Close the circle: all of them are built with this object as their listener."""
        self._lanes = lanes
        self._suppression = suppression
        found = steps or Steps()
        self._identity, self._examining, self._ladder, self._facts, self._clock = found

    @property
    def is_draining(self) -> bool:
        """Whether new requests are refused."""
        return self._idle is not None

    async def drain(self) -> None:
        """Take nothing more and wait until everything under way has ended."""
        self._idle = asyncio.Event()
        if self._admission.events:
            await self._idle.wait()

    def hand_over(self, publish: Publish) -> None:
        """Give the record what only a written record needs, and put it into its lane."""
        common = publish.common
        event_id = publish.event_id
        if event_id is None:
            event_id = publish.event_id = self._ids.take(common.now_ms)
        record = publish.record
        record.headers = [*record.headers, (EVENT_ID, event_id.encode()), *common.headers]
        self._lanes.put(publish)

    # ---- events end

    def _refuse(self, ticket: Ticket, failure: Failure) -> None:
        """The request fails as a whole: one outcome, and nothing was started."""
        ticket.is_batch = False
        ticket.outcomes = [rejected(failure)]
        ticket.sizes = [ticket.body_bytes]
        ticket.done = True
        self._account(ticket)
        self._admission.give(ticket.body_bytes, 0)
        self._remember(ticket)

    def _end(self, ticket: Ticket, index: int, outcome: Outcome) -> None:
        if ticket.put(index, outcome):
            self._close(ticket)

    def _close(self, ticket: Ticket) -> None:
        """All outcomes are known: count them and wake whoever waits for the answer."""
        ticket.done = True
        if ticket.attempt is not None:
            self._answer_repeats(ticket)
        self._account(ticket)
        if ticket.waiter is not None:
            ticket.waiter(ticket)
        if ticket.open_publishes == 0:
            self._release(ticket)

    def _account(self, ticket: Ticket) -> None:
        outcomes = ticket.answered()
        self._accounts.account(ticket.producer, ticket.topic, outcomes, ticket.sizes)
        if ticket.facts:
            self._tell(ticket, outcomes, ticket.sizes)

    def _tell(self, ticket: Ticket, outcomes: list[Outcome], sizes: list[int]) -> None:
        if self._facts is not None:
            self._facts.take(ticket.producer, ticket.topic, ticket.facts, outcomes, sizes)

    def _release(self, ticket: Ticket) -> None:
        ticket.publishes = []  # the sweep may keep the ticket behind an older one that is open
        self._admission.give(ticket.body_bytes, len(ticket.outcomes))
        if self._idle is not None and not self._admission.events:
            self._idle.set()

    def _finish(self, publish: Publish, name: Name, offset: int, failure: Failure | None) -> None:
        """A publish and its followers have ended; followers have no record of their own."""
        record, records = publish.record, 1 if name is _PUBLISHED else 0
        event_id = publish.event_id
        outcome = Outcome(name, record.partition, offset, record.key, event_id, failure, records)
        self._settle(publish, outcome)
        if publish.followers is not None:
            self._settle_followers(publish, outcome)

    def _settle_followers(self, publish: Publish, outcome: Outcome) -> None:
        followers, publish.followers = publish.followers, None
        for follower in followers or ():
            own_id = follower.event_id or outcome.event_id
            self._settle(follower, outcome.of(outcome.name, own_id))

    def _settle(self, publish: Publish, outcome: Outcome) -> None:
        publish.stage = _ENDED
        if publish.whole is not None:  # one record of an event: its whole waits for it
            publish.whole.ended(publish, outcome)
            return
        ticket: Ticket = publish.ticket
        ticket.open_publishes -= 1
        if ticket.put(publish.index, outcome):
            self._close(ticket)
        elif ticket.done:
            self._end_late(ticket, publish.index, outcome)

    def _end_late(self, ticket: Ticket, index: int, outcome: Outcome) -> None:
        """An event that was answered `unknown` has ended after all."""
        attempt = ticket.attempt
        if attempt is not None:
            attempt.late(index, outcome)
        if ticket.facts:
            self._tell(ticket, [outcome], [ticket.sizes[index]])
        if ticket.open_publishes == 0:
            self._release(ticket)
            self._remember(ticket)

    def _answer_repeats(self, ticket: Ticket) -> None:
        assert ticket.attempt is not None
        ticket.attempt.answer_twins(ticket.outcomes)
        if ticket.open_publishes == 0:
            self._remember(ticket)

    def _remember(self, ticket: Ticket) -> None:
        """No outcome of the ticket can change any more."""
        if ticket.attempt is not None and self._identity is not None:
            self._identity.ended(ticket)

    # ---- Verdicts

    def publish(self, publish: Publish) -> None:
        if publish.dropped:
            self._suppression.ended(publish, True)
        elif publish.climbs and self._ladder is not None:
            self._ladder.take(publish)
        else:
            self.hand_over(publish)

    def unchanged(self, publish: Publish, offset: int) -> None:
        if not publish.dropped:
            self._finish(publish, _UNCHANGED, offset, None)

    def refused(self, publish: Publish, failure: Failure) -> None:
        if not publish.dropped:
            self._finish(publish, Name.REJECTED, -1, failure)

    # ---- Deliveries

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """The stage on each publish says it; an event of several records must be told."""
        if self._ladder is not None:
            self._ladder.handed_over(batch)

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        if self._clock is not None and self._clock.is_suspect and any(map(is_stamped_here, batch)):
            self._clock.acknowledged(batch[0].record.topic)
        if batch[0].record.topic.startswith(HELD_PREFIX):  # a lane's batch has one topic
            for publish in batch:  # the place there is none of its topic's, and nobody follows
                key, event_id = publish.record.key, publish.event_id
                self._settle(publish, Outcome(_HELD, key=key, event_id=event_id))
            return
        step = 1 if base_offset >= 0 else 0
        offset = base_offset
        for publish in batch:
            self._finish(publish, _PUBLISHED, offset, None)
            offset += step
        self._suppression.acknowledged(batch, base_offset)

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        if failure.reason is Reason.TIMESTAMP_OUT_OF_RANGE and self._clock is not None:
            ours = [publish for publish in batch if is_stamped_here(publish)]
            if ours:  # no client can do anything about it
                record = ours[0].record
                wrong = self._clock.refused(record.topic, record.timestamp_ms, len(ours))
                self._fail(ours, wrong)
                batch = [publish for publish in batch if not is_stamped_here(publish)]
        self._fail(batch, failure)

    def _fail(self, batch: Sequence[Publish], failure: Failure) -> None:
        is_unknown = failure.reason is Reason.UNKNOWN
        for publish in batch:
            self._finish(publish, Name.UNKNOWN if is_unknown else Name.REJECTED, -1, failure)
            self._suppression.ended(publish, not is_unknown)

    # ---- the deadline

    def expire(self, ticket: Ticket) -> None:
        """Answer what is still open: `unknown` for what Kafka may have, else certainly not written.

        The publishes of `unknown` events go on: their end settles the suppression state.
        """
        for publish in ticket.publishes:
            if ticket.outcomes[publish.index] is None:
                self._expire(ticket, publish)

    def _expire(self, ticket: Ticket, publish: Publish) -> None:
        leader = publish.leader or publish
        seconds = self._timeout_s
        if leader.stage >= _HANDED or publish.followers:
            # With followers the record goes on for their sake, and it carries this event's id.
            publish.event_id = publish.event_id or self._ids.take(publish.common.now_ms)
            detail = f"Kafka did not acknowledge within {seconds:g} s; the event may yet arrive"
            failure = Failure(Reason.UNKNOWN, detail, None, RETRY_AFTER_S)
            self._end(ticket, publish.index, self._open(publish, failure))
            return
        if leader is not publish and leader.followers is not None:
            leader.followers.remove(publish)
        was_in_lane = publish.stage is _LANE
        publish.dropped = True
        waits_for_redis = leader.stage is _QUEUED or leader.stage is _RESERVING
        if leader.stage is _NEW:  # it is examined, or its id is asked for
            is_examined = self._examining is not None and self._examining.drop(publish)
            waits_for_redis = not is_examined
        reason = Reason.REDIS_UNAVAILABLE if waits_for_redis else Reason.KAFKA_UNAVAILABLE
        detail = f"not handed to Kafka within {seconds:g} s; nothing was written"
        failure = Failure(reason, detail, None, RETRY_AFTER_S)
        ticket.open_publishes -= 1
        self._end(ticket, publish.index, self._open(publish, failure))
        if was_in_lane:
            self._suppression.ended(publish, True)
            if self._ladder is not None:
                self._ladder.drop(publish)

    # ---- the ladder

    def written(self, publish: Publish, whole: Whole) -> None:
        """All records of an oversized event are in Kafka; the last one stands for it."""
        key, event_id = publish.record.key, publish.event_id
        place = (whole.partition, whole.offset)
        outcome = Outcome(_PUBLISHED, *place, key, event_id, None, whole.count, whole.rung)
        self._settle(publish, outcome)
        if publish.followers is not None:
            self._settle_followers(publish, outcome)
        self._suppression.acknowledged([publish], whole.offset)

    def too_large(self, publish: Publish, route: Route) -> None:
        """No rung takes it: tell how large it is, and where its bytes are."""
        value = publish.record.value
        if value is not None:
            publish.ticket.weigh(publish.index, value)
        self.failed([publish], route.oversize(len(value or b""), publish.size))

    def _open(self, publish: Publish, failure: Failure) -> Outcome:
        return rejected(failure, publish.record.key, publish.event_id)


def is_stamped_here(publish: Publish) -> bool:
    """Whether its record has the time of this gateway's clock, and none that its client chose."""
    common = publish.common
    return common is None or bool(publish.record.timestamp_ms == common.now_ms)
