"""Facts of events that got no record of their own, until they are written (`audit_columns`).

Bounded and lossy: what does not fit is counted and forgotten, so that telling facts never delays
or fails an event. Told the time and given its randomness.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import blake2b
from math import log
from typing import Final

import orjson

from headgate.core import audit_columns as names
from headgate.core.outcome import Name, Outcome, Reason

# 0.2 ms of encoding at once, some 130 kB; a fuller record spares requests, not bytes
FACTS_A_RECORD: Final = 2000
MAX_WAITING: Final = 20_000  # some 4 MB; 20 MB if all have keys of KEY_MAX_BYTES
_KEY_BYTES: Final = names.KEY_MAX_BYTES
_DIGEST_BYTES: Final = 8

_PUBLISHED: Final = Name.PUBLISHED
_UNCHANGED: Final = Name.UNCHANGED.value
# What is reported, as texts: orjson takes twice as long for the member of an enum.
_REPORTED: Final[dict[Name, str]] = {
    one: one.value for one in (Name.UNCHANGED, Name.DUPLICATE, Name.SUPERSEDED, Name.REJECTED)
}
_REASONS: Final[dict[Reason, str]] = {one: one.value for one in Reason}


class Columns:
    """Facts of one topic that go into one record. one_in: how many each of them stands for."""

    def __init__(self, topic: str, one_in: int) -> None:
        self.topic: Final = topic
        self.one_in: Final = one_in
        self.at_ms: list[int] = []
        self.producers: list[str] = []
        self.outcomes: list[str] = []
        self.reasons: list[str | None] = []
        self.partitions: list[int | None] = []
        self.offsets: list[int | None] = []
        self.keys: list[bytes | None] = []
        self.sizes: list[int] = []
        self.events: list[int] = []

    def encoded(self) -> bytes:
        """As the value of a record."""
        found: dict[str, object] = {
            names.TOPIC: self.topic,
            names.ONE_IN: self.one_in,
            names.AT_MS: self.at_ms,
            names.PRODUCER: self.producers,
            names.OUTCOME: self.outcomes,
            names.REASON: self.reasons,
            names.PARTITION: self.partitions,
            names.OFFSET: self.offsets,
            names.BYTES: self.sizes,
            names.EVENTS: self.events,
        }
        try:
            found[names.KEY] = [None if key is None else key.decode() for key in self.keys]
        except UnicodeDecodeError:
            texts = [None if key is None else b64encode(key).decode() for key in self.keys]
            found[names.KEY_BASE64] = texts
        return orjson.dumps(found)

    def part(self, start: int, end: int) -> "Columns":
        """The facts from `start` up to, without, `end`."""
        part = Columns(self.topic, self.one_in)
        part.at_ms, part.producers = self.at_ms[start:end], self.producers[start:end]
        part.outcomes, part.reasons = self.outcomes[start:end], self.reasons[start:end]
        part.partitions, part.offsets = self.partitions[start:end], self.offsets[start:end]
        part.keys, part.sizes = self.keys[start:end], self.sizes[start:end]
        part.events = self.events[start:end]
        return part


class WrittenEvents:
    """The value of one record, and how many facts of which topic it has."""

    __slots__ = ("count", "topic", "value")

    def __init__(self, topic: str, count: int, value: bytes) -> None:
        self.topic: Final = topic
        self.count: Final = count
        self.value: Final = value


def written(columns: Columns, limit_bytes: int) -> list[WrittenEvents]:
    """The records of these facts, each value at most limit_bytes long if one fact is."""
    value, count = columns.encoded(), len(columns.keys)
    if len(value) <= limit_bytes or count < 2:
        return [WrittenEvents(columns.topic, count, value)]
    half = count // 2
    first, second = columns.part(0, half), columns.part(half, count)
    return written(first, limit_bytes) + written(second, limit_bytes)


class Facts:
    """What was told and not taken yet.

    draw: random numbers in [0, 1).  on_full: called when there is enough for a record.
    dropped: facts that were not taken in since `take_dropped`, by topic.
    """

    def __init__(self, clock_ms: Callable[[], int], draw: Callable[[], float]) -> None:
        self.waiting = 0
        self.on_full: Callable[[], None] = _nothing
        self.dropped: dict[str, int] = {}
        self._clock_ms = clock_ms
        self._draw = draw
        self._filling: dict[tuple[str, int], Columns] = {}
        self._full: list[Columns] = []
        self._gaps: dict[tuple[str, int], int] = {}

    def take(
        self,
        producer: str,
        topic: str,
        one_in: int,
        outcomes: Sequence[Outcome],
        sizes: Sequence[int],
    ) -> None:
        """Tell of a request's events that got no record. one_in: only of one in so many, by chance.

        sizes: bytes of each event's value. An event that was answered with the record of an equal
        one on its way (`published`, records 0) counts as unchanged.
        """
        place = (topic, one_in)
        now_ms = self._clock_ms()
        for outcome, size in zip(outcomes, sizes, strict=True):
            name = _REPORTED.get(outcome.name)
            if name is None:
                if outcome.name is not _PUBLISHED or outcome.records:
                    continue
                name = _UNCHANGED
            if one_in > 1 and self._is_skipped(place):
                continue
            failure = outcome.failure
            reason = None if failure is None else _REASONS[failure.reason]
            self._put(
                place, now_ms, producer, name, reason, outcome.partition, outcome.offset,
                outcome.key, size, 1,
            )  # fmt: skip

    def coalesced(
        self, producer: str, topic: str, outcome: Name, key: bytes, events: int, size: int
    ) -> None:
        """Tell what became of held events of a key: one fact for all of a producer in a window.

        size: bytes of their values together. They are so few that all are reported, of any topic.
        """
        now_ms = self._clock_ms()
        self._put((topic, 1), now_ms, producer, outcome.value, None, -1, -1, key, size, events)

    def _put(
        self,
        place: tuple[str, int],
        at_ms: int,
        producer: str,
        name: str,
        reason: str | None,
        partition: int,
        offset: int,
        key: bytes | None,
        size: int,
        events: int,
    ) -> None:
        if self.waiting >= MAX_WAITING:
            self.dropped[place[0]] = self.dropped.get(place[0], 0) + 1
            return
        columns = self._filling.get(place)
        if columns is None:
            columns = self._filling[place] = Columns(place[0], place[1])
        columns.at_ms.append(at_ms)
        columns.producers.append(producer)
        columns.outcomes.append(name)
        columns.reasons.append(reason)
        columns.partitions.append(partition if partition >= 0 else None)
        columns.offsets.append(offset if offset >= 0 else None)
        columns.keys.append(key if key is None or len(key) <= _KEY_BYTES else _cut(key))
        columns.sizes.append(size)
        columns.events.append(events)
        self.waiting += 1
        if len(columns.keys) >= FACTS_A_RECORD:
            del self._filling[place]
            self._full.append(columns)
            self.on_full()

    def collect(self, everything: bool) -> list[Columns]:
        """Give away what is enough for a record, or (everything) all there is."""
        found, self._full = self._full, []
        if everything:
            found += self._filling.values()
            self._filling = {}
        self.waiting -= sum([len(columns.keys) for columns in found])
        return found

    def take_dropped(self) -> dict[str, int]:
        """How many facts were dropped since the last call, by topic."""
        found, self.dropped = self.dropped, {}
        return found

    def _is_skipped(self, place: tuple[str, int]) -> bool:
        """Each fact is told with the same chance; one number is drawn for each that is."""
        left = self._gaps.get(place)
        if left is None:
            left = self._gap(place[1])
        self._gaps[place] = self._gap(place[1]) if left == 0 else left - 1
        return left > 0

    def _gap(self, one_in: int) -> int:
        """How many are left out before the next one: geometrically distributed."""
        return int(log(1.0 - self._draw()) / log(1.0 - 1.0 / one_in))


def _cut(key: bytes) -> bytes:
    return key[:_KEY_BYTES] + blake2b(key, digest_size=_DIGEST_BYTES).hexdigest().encode()


def _nothing() -> None:
    return
