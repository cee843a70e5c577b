"""The in-flight budget: how many bytes and events may be between arrival and their end."""

from headgate.core.outcome import Failure, Reason

DRAINING = Failure(Reason.DRAINING, "this instance takes no more events", None, 1)
OVERLOADED_RETRY_S = 1  # the budget turns over within a batch's acknowledgement


class Admission:
    """Admits or sheds. Bytes are taken before a body is read, events once it is decoded."""

    __slots__ = ("bytes", "events", "is_closed", "max_bytes", "max_events")

    def __init__(self, max_bytes: int, max_events: int) -> None:
        self.max_bytes = max_bytes
        self.max_events = max_events
        self.bytes = 0
        self.events = 0
        self.is_closed = False

    def close(self) -> None:
        """Let no more events in; what is in flight ends."""
        self.is_closed = True

    def take_bytes(self, size: int) -> Failure | None:
        """A body larger than the whole budget is admitted alone, or it would never get in."""
        if self.bytes and self.bytes + size > self.max_bytes:
            return _overloaded("in_flight_max_bytes", self.max_bytes)
        self.bytes += size
        return None

    def take_events(self, count: int) -> Failure | None:
        if self.is_closed:
            return DRAINING
        if self.events and self.events + count > self.max_events:
            return _overloaded("in_flight_max_events", self.max_events)
        self.events += count
        return None

    def give(self, size: int, events: int) -> None:
        """Return what an ended request held."""
        self.bytes -= size
        self.events -= events


def _overloaded(limit: str, maximum: int) -> Failure:
    detail = f"more than admission.{limit} = {maximum} are in flight; nothing was written"
    return Failure(Reason.OVERLOADED, detail, {"limit": limit}, OVERLOADED_RETRY_S)
