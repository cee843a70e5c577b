"""The last stage: what lanes and suppression report becomes outcomes, answers, figures, facts.

Every event gets exactly one outcome here, and every budget is given back.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from headgate.audits.facts import Facts
from headgate.backends.base import Deliveries, Identities, Suppression
from headgate.core.admission import Admission
from headgate.core.coalescing import HELD_PREFIX
from headgate.core.outcome import Failure, Name, Outcome, Reason, rejected
from headgate.core.publish import Publish, Stage, Ticket
from headgate.pipeline.clock import ClockWatch, is_stamped_here

# Looking a member up in an Enum class costs 0.1 us in Python 3.11: as much as a small call.
_ENDED: Final = Stage.ENDED
_PUBLISHED: Final = Name.PUBLISHED
_UNCHANGED: Final = Name.UNCHANGED
_HELD: Final = Name.HELD
_SPOOLED: Final = Name.SPOOLED
_NO_OFFSET: Final = Failure(
    Reason.UNKNOWN, "it is on disk here and is published later, so there is no offset yet"
)


class Accounts(Protocol):
    """Who counts: each request's outcomes, once, when all are known."""

    def account(
        self,
        producer: str,
        topic: str,
        outcomes: Sequence[Outcome],
        sizes: Sequence[int],
        request_id: str,
    ) -> None: ...


class Complete:
    """Implements `base.Deliveries`.

    identities: remember what ended well; None where there is no Redis.  facts: None where no
    topic tells any.
    """

    def __init__(
        self,
        admission: Admission,
        accounts: Accounts,
        identities: Identities | None = None,
        facts: Facts | None = None,
    ) -> None:
        self._admission = admission
        self._accounts = accounts
        self._identities = identities
        self._facts = facts
        self._idle: asyncio.Event | None = None

    async def drain(self) -> None:
        """Take nothing more and wait until everything in flight has ended."""
        self._admission.close()
        self._idle = asyncio.Event()
        if self._admission.events:
            await self._idle.wait()

    # ---- requests

    def refuse(self, ticket: Ticket, failure: Failure) -> None:
        """The request fails as a whole: one outcome, and nothing was started."""
        ticket.refuse(rejected(failure))
        self._account(ticket)
        self._admission.give(ticket.producer, ticket.body_bytes, 0)
        self._remember(ticket)

    def abandon(self, ticket: Ticket) -> None:
        """A mistake of ours ended the request: it must not eat the budget."""
        self._admission.give(ticket.producer, ticket.body_bytes, len(ticket.outcomes))
        self._remember(ticket)

    def close(self, ticket: Ticket) -> None:
        """All outcomes are known: count them and wake whoever waits for the answer."""
        ticket.done = True
        if ticket.needs_offset:
            _answer_without_offset(ticket)
        if ticket.attempt is not None:
            ticket.attempt.answer_twins(ticket.outcomes)
            # What is on disk has ended well, though its lane may have it for long.
            if ticket.open_publishes == 0 or all(one.failure is None for one in ticket.answered()):
                self._remember(ticket)
        self._account(ticket)
        if ticket.waiter is not None:
            ticket.waiter(ticket)
        if ticket.open_publishes == 0:
            self._release(ticket)

    def answer(self, ticket: Ticket, index: int, outcome: Outcome) -> None:
        """This is the answer, whatever becomes of the event."""
        if ticket.put(index, outcome):
            self.close(ticket)

    def end(self, publish: Publish, outcome: Outcome) -> None:
        """It has ended, and this is the answer if there was none before."""
        if publish.stage is not _ENDED and not publish.dropped:
            publish.advance(_ENDED)  # else whoever reports this has said so
        ticket = publish.ticket
        if ticket is None:
            if publish.owner is not None:
                publish.owner.ended(publish, outcome)
        elif ticket.end(publish.index, outcome):
            self.close(ticket)
        elif ticket.done:
            self._end_late(ticket, publish.index, outcome)

    def report(self, producer: str, topic: str, one_in: int, failure: Failure) -> None:
        """A request was refused before it came here, by who has counted it."""
        if one_in and self._facts is not None:
            self._facts.take(producer, topic, one_in, [rejected(failure)], [0])

    # ---- what suppression decides

    def unchanged(self, publish: Publish, offset: int) -> None:
        """The key's newest record, at this offset, has the same content."""
        self._finish(publish, _UNCHANGED, offset, None)

    def refused(self, publish: Publish, failure: Failure) -> None:
        """It does not go on, and nothing of it was written."""
        self._finish(publish, Name.REJECTED, -1, failure)

    # ---- what lanes report

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """The stage of each event says it."""

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        if batch[0].record.topic.startswith(HELD_PREFIX):  # a lane's batch has one topic
            for publish in batch:  # the place there is none of its topic's, and nobody follows
                key, event_id = publish.record.key, publish.event_id
                self.end(publish, Outcome(_HELD, key=key, event_id=event_id))
            return
        step = 1 if base_offset >= 0 else 0
        offset = base_offset
        for publish in batch:
            self._finish(publish, _PUBLISHED, offset, None)
            offset += step

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        name = Name.UNKNOWN if failure.reason is Reason.UNKNOWN else Name.REJECTED
        for publish in batch:
            self._finish(publish, name, -1, failure)

    # ---- what the spool reports

    def spooled(self, batch: Sequence[Publish]) -> None:
        """They are on disk: that is how these ended."""
        for publish in batch:
            self._finish(publish, _SPOOLED, -1, None)

    def spooled_in_flight(self, batch: Sequence[Publish]) -> None:
        """They are on disk, which answers them; their end in the lane is yet to come."""
        for publish in batch:
            for one in (publish, *(publish.followers or ())):
                ticket = one.ticket
                if ticket is not None and ticket.outcomes[one.index] is None:
                    event_id = one.event_id or publish.event_id
                    outcome = Outcome(_SPOOLED, key=one.record.key, event_id=event_id)
                    self.answer(ticket, one.index, outcome)

    # ---- what the oversize policy reports

    def written(self, publish: Publish, strategy: str, last: Outcome, records: int) -> None:
        """An event is in Kafka as so many records. last: of the last one, which has its place."""
        key, event_id = publish.record.key, publish.event_id
        place = (_PUBLISHED, last.partition, last.offset, key, event_id)
        outcome = Outcome(*place, None, records, strategy, last.timestamp_ms)
        self.end(publish, outcome)
        if publish.followers is not None:
            self._end_followers(publish, outcome)

    # ---- events end

    def _finish(self, publish: Publish, name: Name, offset: int, failure: Failure | None) -> None:
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
        """They end as it has; they have no record of their own."""
        followers, publish.followers = publish.followers, None
        for follower in followers or ():
            own_id = follower.event_id or outcome.event_id
            self.end(follower, outcome.of(outcome.name, own_id))

    def _end_late(self, ticket: Ticket, index: int, outcome: Outcome) -> None:
        """An event that was answered `unknown` has ended after all."""
        if ticket.attempt is not None:
            ticket.attempt.late(index, outcome)
        if ticket.facts:
            self._report(ticket, [outcome], [ticket.sizes[index]])
        if ticket.open_publishes == 0:
            self._release(ticket)
            self._remember(ticket)

    def _account(self, ticket: Ticket) -> None:
        outcomes = ticket.answered()
        self._accounts.account(
            ticket.producer, ticket.topic, outcomes, ticket.sizes, ticket.request_id
        )
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
        """No outcome of the ticket can change any more."""
        attempt = ticket.attempt
        if attempt is not None and not attempt.is_told and self._identities is not None:
            attempt.is_told = True
            self._identities.ended(ticket)


def _answer_without_offset(ticket: Ticket) -> None:
    """An event that is on disk is published, but nobody knows where: after a reload, say, which
    let its topic spool, or no longer spool, while it was in its lane."""
    for index, outcome in enumerate(ticket.outcomes):
        if outcome is not None and outcome.name is _SPOOLED:
            ticket.outcomes[index] = Outcome(
                Name.UNKNOWN, key=outcome.key, event_id=outcome.event_id, failure=_NO_OFFSET
            )


# What lanes report goes to all whom it concerns, in one order.


class Reports:
    """Implements `base.Deliveries`. Lanes are built with it, and before the stages that need
    lanes: those are connected with `pass_on_to`, before the first event.

    clock: hears how Kafka takes this gateway's times.
    """

    def __init__(self, clock: ClockWatch, complete: Complete) -> None:
        self._clock = clock
        self._complete = complete
        self._suppression: Suppression | None = None
        self._oversize: Deliveries | None = None

    def pass_on_to(self, suppression: Suppression, oversize: Deliveries | None) -> None:
        """Suppression settles what was reserved; the oversize policy, if there is one, must know
        when the first of an event's records is handed over."""
        self._suppression = suppression
        self._oversize = oversize

    def handed_over(self, batch: Sequence[Publish]) -> None:
        if self._oversize is not None:
            self._oversize.handed_over(batch)

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        if self._clock.suspects and any(map(is_stamped_here, batch)):
            self._clock.acknowledged(batch[0].record.topic)
        self._complete.acknowledged(batch, base_offset)
        if self._suppression is not None:
            self._suppression.acknowledged(batch, base_offset)

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        if failure.reason is Reason.TIMESTAMP_OUT_OF_RANGE:
            ours = [publish for publish in batch if is_stamped_here(publish)]
            if ours:  # no client can do anything about it
                record = ours[0].record
                wrong = self._clock.refused(record.topic, record.timestamp_ms, len(ours))
                self._fail(ours, wrong)
                batch = [publish for publish in batch if not is_stamped_here(publish)]
        self._fail(batch, failure)

    def spooled(self, batch: Sequence[Publish], certain: bool) -> None:
        """They are on disk, and nobody else has them. certain: none can be in the log."""
        self._complete.spooled(batch)
        self._settle(batch, certain)

    def spooled_in_flight(self, batch: Sequence[Publish]) -> None:
        """They are on disk; how they end in the lane is reported as of any other."""
        self._complete.spooled_in_flight(batch)

    def withdrawn(self, batch: Sequence[Publish]) -> None:
        """These wait for nothing, and were taken out of the lane: none can be in the log."""
        self._settle(batch, True)

    def _fail(self, batch: Sequence[Publish], failure: Failure) -> None:
        self._complete.failed(batch, failure)
        self._settle(batch, failure.reason is not Reason.UNKNOWN)

    def _settle(self, batch: Sequence[Publish], certain: bool) -> None:
        if self._suppression is not None:
            for publish in batch:
                self._suppression.ended(publish, certain)
