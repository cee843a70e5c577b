"""What lanes report goes to all whom it concerns, in one order."""

from collections.abc import Sequence

from headgate.backends.base import Deliveries, Suppression
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish
from headgate.pipeline.clock_watch import ClockWatch, is_stamped_here
from headgate.pipeline.complete import Complete


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
