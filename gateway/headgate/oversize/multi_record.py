"""The records that one oversized event became, and the one outcome that they share.

A part goes through the lanes as any publish; only its end goes to its `MultiRecordPublish` instead
of a ticket. The event itself (`MultiRecordPublish.parent`) never enters a lane: it has the
reservation, the followers, and the place in its request."""

from collections.abc import Callable, Sequence

from headgate.core.outcome import Failure, Name, Outcome, Reason
from headgate.core.oversize.strategies import Large
from headgate.core.publish import Publish, Stage
from headgate.oversize.plans import PlannedRecord

_SOME_MISSING = Failure(
    Reason.UNKNOWN,
    "not all of the event's records are known to be written; it may be in Kafka in part",
    None,
    2,
)


class MultiRecordPublish:
    """A countdown over parts.

    parent: the event.  strategy: what it became.  count: of its records.  on_end: called once, when
    all parts have ended or the last one will not be sent.  on_others_written: the last part waits
    for this, called when all others are in Kafka.  last: the last part's outcome, once written.
    """

    def __init__(
        self,
        parent: Publish,
        strategy: str,
        records: Sequence[PlannedRecord],
        on_end: "Callable[[MultiRecordPublish], None]",
        on_others_written: "Callable[[MultiRecordPublish], None] | None" = None,
    ) -> None:
        self.parent = parent
        self.strategy = strategy
        self.count = len(records)
        self.last: Outcome | None = None
        self._records = records
        self._on_end = on_end
        self._on_others_written = on_others_written
        self._parts: list[Publish] = []
        self._ended = self._written = 0
        self._refusal: Failure | None = None
        self._is_unknown = False

    @property
    def written(self) -> Outcome | None:
        """How the last part ended, if every part is in Kafka."""
        return self.last if self._written == self.count else None

    @property
    def failure(self) -> Failure:
        """Why it is not all written: certain only if no part is or may be in Kafka."""
        if self._refusal is not None and not self._written and not self._is_unknown:
            return self._refusal
        return _SOME_MISSING

    def next_part(self) -> Publish:
        """The publish of the next record."""
        planned = self._records[len(self._parts)]
        part = Publish(planned.record, planned.size, None, len(self._parts), planned.event_id)
        part.common, part.owner = self.parent.common, self
        if planned.batch is not None:
            part.large = Large(batch=planned.batch)
        self._parts.append(part)
        return part

    def handed_over(self) -> None:
        """One part was: from now on the event's end is Kafka's."""
        if self.parent.stage < Stage.HANDED:
            self.parent.advance(Stage.HANDED)

    def drop(self) -> list[Publish]:
        """The event was given up before that: no lane hands a part over any more.

        Returns the parts whose end nobody else reports: the others still wait for their verdict.
        """
        parts = self._let_go()
        for part in parts:
            part.dropped = True
        return [part for part in parts if part.stage is Stage.LANE]

    def ended(self, part: Publish, outcome: Outcome) -> None:
        """A part has ended."""
        self._ended += 1
        if outcome.name is Name.PUBLISHED:
            self._written += 1
            if part.index == self.count - 1:
                self.last = outcome
        elif outcome.name is Name.UNKNOWN:
            self._is_unknown = True
        else:
            self._refusal = self._refusal or outcome.failure
        if self._ended == self.count:
            self._end()
        elif self._on_others_written is not None and self._ended == self.count - 1:
            if self._written == self._ended:
                self._on_others_written(self)
            else:  # the last one is not sent
                self._end()

    def _end(self) -> None:
        self._let_go()
        self._on_end(self)

    def _let_go(self) -> list[Publish]:
        """No longer keep the parts, which know this: a cycle would keep their values for long, as
        the collector looks seldom (`wiring.collector`)."""
        parts, self._parts, self._records = self._parts, [], ()
        return parts
