"""Who hears how spooled events end."""

from collections.abc import Sequence
from typing import Protocol

from headgate.backends.base import Deliveries
from headgate.core.publish import Publish


class SpoolReports(Deliveries, Protocol):
    """Who hears of ends (`pipeline.reports`)."""

    def spooled(self, batch: Sequence[Publish], certain: bool) -> None:
        """They are on disk, and that is their end. certain: no record of them can be in the log."""
        ...

    def spooled_in_flight(self, batch: Sequence[Publish]) -> None:
        """They are on disk, so they are answered; their end in the lane is reported later."""
        ...

    def withdrawn(self, batch: Sequence[Publish]) -> None:
        """These are no request's, and were taken out of their lane before they were handed over."""
        ...
