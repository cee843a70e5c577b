"""Spans of spooled events on their way to Kafka, where requests are traced."""

from headgate.core.outcome import Outcome
from headgate.spool.backlog import Unit
from headgate.tracing.spans import Attributes, Carried, LaterSpans, carried


class _Piece:
    """What a request has in a unit. left: events without an end.  place: of the last, in Kafka."""

    __slots__ = ("began_ns", "error", "events", "left", "of", "place")

    def __init__(self, of: Carried, began_ns: int) -> None:
        self.of = of
        self.began_ns = began_ns
        self.events = self.left = 0
        self.place = (-1, -1)
        self.error = ""


class DrainSpans:
    """A span from when events of a request were read until the last of them has ended, however
    many they are, and however often Kafka has to be asked."""

    def __init__(self, spans: LaterSpans) -> None:
        self._spans = spans
        self._open: dict[Unit, dict[int, _Piece]] = {}

    def read(self, unit: Unit) -> None:
        """These go to Kafka now."""
        by_request = dict[Carried, _Piece]()
        found = dict[int, _Piece]()
        for at, row in unit.rows.items():
            of = carried(row.event[2])
            if of is None:
                continue
            piece = by_request.get(of)
            if piece is None:
                piece = by_request[of] = _Piece(of, self._spans.clock_ns())
            piece.events += 1
            piece.left += 1
            found[at] = piece
        if found:
            self._open[unit] = found

    def published(self, unit: Unit, at: int, outcome: Outcome) -> None:
        """Kafka has it."""
        self._ended(unit, at, (outcome.partition, outcome.offset), "")

    def refused(self, unit: Unit, at: int, reason: str) -> None:
        """Kafka will never take it."""
        self._ended(unit, at, (-1, -1), reason)

    def _ended(self, unit: Unit, at: int, place: tuple[int, int], error: str) -> None:
        found = self._open.get(unit, {})
        piece = found.pop(at, None)
        if piece is None:
            return
        if not found:
            del self._open[unit]
        piece.place, piece.error = place, piece.error or error
        piece.left -= 1
        if not piece.left:
            topic = unit.backlog.topic
            attributes = _attributes(piece, topic, unit.at_ms)
            began_ns, error = piece.began_ns, piece.error
            self._spans.end(piece.of, f"drain {topic}", began_ns, attributes, error)


def _attributes(piece: _Piece, topic: str, spooled_ms: int) -> Attributes:
    partition, offset = piece.place
    found: Attributes = {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "headgate.spooled_ms": spooled_ms,
    }
    if piece.events > 1:
        found["messaging.batch.message_count"] = piece.events
    elif offset >= 0:
        found["messaging.destination.partition.id"] = str(partition)
        found["messaging.kafka.offset"] = offset
    return found
