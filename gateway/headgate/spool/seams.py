"""Events that are with the producer and on disk at once: each ends once for its client.

Whichever comes first, the acknowledgement or the disk, answers the request. If Kafka acknowledges,
the chunk is forgotten; if the events end otherwise there, what is on disk is published later.
"""

from collections.abc import Iterable, Sequence

from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish
from headgate.spool.backlog import Backlog, Seam, Waiting
from headgate.spool.placement import by_count, count_of
from headgate.spool.reports import SpoolReports


def is_open(publish: Publish) -> bool:
    """Whether a request waits for it that has no answer to it yet."""
    ticket = publish.ticket
    return ticket is not None and ticket.outcomes[publish.index] is None


def worse(failure: Failure | None, of_disk: Failure) -> Failure:
    """How it ends that ended in its lane, if it did, and of which the disk did not take all."""
    return of_disk if failure is None or of_disk.reason is Reason.UNKNOWN else failure


class Seams:
    """Those whose end is not known."""

    def __init__(self, reports: SpoolReports) -> None:
        self._reports = reports
        self._of: dict[Publish, Seam] = {}

    def __contains__(self, publish: Publish) -> bool:
        return publish in self._of

    def begin(self, backlog: Backlog, publishes: Iterable[Publish]) -> list[Waiting]:
        """The producer has these, and they are to go to disk now."""
        waiting = list[Waiting]()
        for some in by_count(publishes):
            seam = Seam(some)
            backlog.seams.append(seam)
            for publish in some:
                self._of[publish] = seam
                publish.spooled = True
            waiting.append(Waiting(some, count_of(some[0]), seam))
        return waiting

    def acknowledged(self, batch: Sequence[Publish]) -> None:
        """Kafka has these, and those who wait for them have heard."""
        if self._of:
            for publish in batch:
                seam = self._of.pop(publish, None)
                if seam is not None:
                    seam.landed.add(seam.open.pop(publish))

    def failed(self, publish: Publish, failure: Failure) -> bool:
        """It ended in its lane without acknowledgement; False if it is none of these."""
        seam = self._of.pop(publish, None)
        if seam is None:
            return False
        del seam.open[publish]
        seam.again = True
        if seam.number is None:
            seam.failed[publish] = failure
        else:
            self._reports.spooled((publish,), failure.reason is not Reason.UNKNOWN)
        return True

    def written(self, seam: Seam, publishes: Sequence[Publish], number: int) -> None:
        """Their chunk is on disk."""
        seam.number = number
        if seam.open:
            self._reports.spooled_in_flight([one for one in publishes if one in seam.open])
        for publish, failure in seam.failed.items():
            self._reports.spooled((publish,), failure.reason is not Reason.UNKNOWN)
        seam.failed.clear()

    def not_written(self, seam: Seam, of_disk: Failure) -> None:
        """The disk did not take them: they end as they do in the lane."""
        for publish in seam.open:
            del self._of[publish]
            publish.spooled = of_disk.reason is Reason.UNKNOWN
        for publish, failure in seam.failed.items():
            self._reports.failed((publish,), worse(failure, of_disk))
