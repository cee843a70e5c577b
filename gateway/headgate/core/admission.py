"""The in-flight budget, and its shares among producers.

Any request may use the first four fifths of the budget, large requests and floods included. In the
last fifth, a request gets at most half of the free part. Small requests are therefore still
admitted when large ones are not. Once several producers have posted, a producer may hold at most
four times the free part: the more the others hold, the less. A producer that floods therefore
leaves a fifth to the others, and several that flood get equal parts. (The rule is that of switches
with shared memory: A. K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for
Shared-Memory Packet Switches", 1998.)
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import brief

DRAINING = Failure(Reason.DRAINING, "this instance takes no more events", None, 1)
OVERLOADED_RETRY_S = 1  # the budget turns over in the time of a batch's acknowledgement
TIMES_FREE: Final = 4


class InFlightLimit(NamedTuple):
    """A producer's own limit; None means only its share of the budget limits it."""

    max_bytes: int | None
    max_events: int | None


class _Held:
    """The bytes and events that a producer has in flight."""

    __slots__ = ("bytes", "events")

    def __init__(self) -> None:
        self.bytes = 0
        self.events = 0


_NO_LIMIT: Final = InFlightLimit(None, None)
_NOTHING: Final = _Held()


class Admission:
    """Admission control. Bytes are taken before a body is read, events once it is decoded.

    Attributes:
        limits: The limits of producers that have their own, by name.
    """

    __slots__ = ("_first", "_held", "_is_shared", "_open_bytes", "_open_events", "bytes", "events",
                 "is_closed", "limits", "max_bytes", "max_events")  # fmt: skip

    def __init__(self, max_bytes: int, max_events: int) -> None:
        self.max_bytes = max_bytes
        self.max_events = max_events
        self._open_bytes = max_bytes * TIMES_FREE // (TIMES_FREE + 1)
        self._open_events = max_events * TIMES_FREE // (TIMES_FREE + 1)
        self.bytes = 0
        self.events = 0
        self.is_closed = False
        self.limits: Mapping[str, InFlightLimit] = {}
        self._held: dict[str, _Held] = {}
        self._first: str | None = None
        self._is_shared = False

    def close(self) -> None:
        """Admit no more events; those in flight continue."""
        self.is_closed = True

    def of(self, producer: str) -> "ProducerBudget":
        """Return the budget for one producer."""
        return ProducerBudget(self, producer)

    def held_by(self, producer: str) -> tuple[int, int]:
        """Return the bytes and events that a producer has in flight."""
        held = self._held.get(producer, _NOTHING)
        return held.bytes, held.events

    def take_bytes(self, producer: str, size: int) -> Failure | None:
        """Take bytes from the budget, or return the refusal.

        A body larger than the whole budget is admitted if nothing else is in flight; otherwise it
        would never be admitted.
        """
        held = self._of(producer)
        total = self.bytes + size
        if total > self._open_bytes and self.bytes:
            failure = self._refusal(producer, "bytes", size, self.bytes, self.max_bytes, held.bytes)
            if failure is not None:
                return self._refused(producer, held, failure)
        if self.limits:
            maximum = self.limits.get(producer, _NO_LIMIT).max_bytes
            if maximum is not None and held.bytes and held.bytes + size > maximum:
                return self._refused(producer, held, _over_own(producer, "bytes", maximum))
        self.bytes = total
        held.bytes += size
        return None

    def take_events(self, producer: str, count: int) -> Failure | None:
        if self.is_closed:
            return DRAINING
        held = self._of(producer)
        total = self.events + count
        if total > self._open_events and self.events:
            figures = (count, self.events, self.max_events, held.events)
            failure = self._refusal(producer, "events", *figures)
            if failure is not None:
                return self._refused(producer, held, failure)
        if self.limits:
            maximum = self.limits.get(producer, _NO_LIMIT).max_events
            if maximum is not None and held.events and held.events + count > maximum:
                return self._refused(producer, held, _over_own(producer, "events", maximum))
        self.events = total
        held.events += count
        return None

    def give(self, producer: str, size: int, events: int) -> None:
        """Return the bytes and events of an ended request to the budget."""
        self.bytes -= size
        self.events -= events
        held = self._held.get(producer)
        if held is not None:
            held.bytes -= size
            held.events -= events
            self._forget(producer, held)

    def _of(self, producer: str) -> _Held:
        held = self._held.get(producer)
        if held is None:
            held = self._held[producer] = _Held()
            if self._first is None:
                self._first = producer
            elif producer != self._first:
                self._is_shared = True
        return held

    def _forget(self, producer: str, held: _Held) -> None:
        if not held.bytes and not held.events:
            del self._held[producer]  # clients without credentials choose their names freely

    def _refused(self, producer: str, held: _Held, failure: Failure) -> Failure:
        self._forget(producer, held)
        return failure

    def _refusal(
        self, producer: str, unit: str, size: int, used: int, maximum: int, held: int
    ) -> Failure | None:
        """Return the refusal of a request above the part that is open to all, or None."""
        option, free = f"in_flight_max_{unit}", maximum - used
        figures: dict[str, object] = {"limit": option}
        if size > free:
            detail = f"more than admission.{option} = {maximum} are in flight"
        elif size > max(1, free // 2):
            detail = f"{size} {unit} are more than half of the free part of admission.{option} = "
            detail += f"{maximum}; smaller requests get in"
        elif self._is_shared and held + size > TIMES_FREE * (free - size):
            detail = f"producer {brief(producer)} has {held} {unit} in flight; what is left of "
            detail += f"admission.{option} = {maximum} is reserved for other producers"
            figures["producer"] = producer
        else:
            return None
        return Failure(
            Reason.OVERLOADED, f"{detail}; nothing was written", figures, OVERLOADED_RETRY_S
        )


class ProducerBudget:
    """The in-flight budget of one producer."""

    __slots__ = ("_admission", "_producer")

    def __init__(self, admission: Admission, producer: str) -> None:
        self._admission = admission
        self._producer = producer

    def take_bytes(self, size: int) -> Failure | None:
        return self._admission.take_bytes(self._producer, size)

    def give(self, size: int, events: int) -> None:
        """Return the bytes and events of an ended request to the budget."""
        self._admission.give(self._producer, size, events)


def _over_own(producer: str, unit: str, maximum: int) -> Failure:
    option = f"max_in_flight_{unit}"
    detail = f"producer {brief(producer)} has used up its {option} = {maximum}; nothing was written"
    figures: dict[str, object] = {"limit": option, "producer": producer}
    return Failure(Reason.OVERLOADED, detail, figures, OVERLOADED_RETRY_S)
