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

    def pass_on_to(self, suppression: Suppression, oversize: Deliveries) -> None:
        """Suppression settles what was reserved; the oversize policy must know when the first of
        an event's records is handed over."""
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

    def _fail(self, batch: Sequence[Publish], failure: Failure) -> None:
        self._complete.failed(batch, failure)
        if self._suppression is not None:
            is_certain = failure.reason is not Reason.UNKNOWN
            for publish in batch:
                self._suppression.ended(publish, is_certain)
