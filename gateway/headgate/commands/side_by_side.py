"""Comparison of two topics: differences in cost and differences for consumers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from itertools import groupby
from typing import Final, NamedTuple

from headgate.formats.json_text import KeyReader
from headgate.model.content import Comparison
from headgate.model.keys import KeyRule
from headgate.model.outcome import Refused
from headgate.model.record import CHUNK_SET, DATAREF, OVERSIZE, SPLIT

# ---- the compared parts of a record: its key and its content

_JSON: Final = b"application/json"  # whatever content type a record has, because some have none
_STANDS_FOR_A_VALUE: Final = frozenset((OVERSIZE, DATAREF, CHUNK_SET, SPLIT))
_NO_LIMIT: Final = 1 << 40  # bytes

Headers = Iterable[tuple[str, bytes | None]]


class Seen(NamedTuple):
    """The compared parts of a record.

    Attributes:
        key: The key, or None.
        content: The content; None for a tombstone.
        is_reference: Whether the record only refers to its value.
    """

    key: bytes | None
    content: bytes | None
    is_reference: bool


class ContentRule:
    """Rule for reading the records of both topics.

    Args:
        key: JSON Pointers whose values form the key; if empty, the record's own key counts.
        ignore: JSON Pointers to parts that are not compared.
        as_sent: Whether to compare bytes instead of JSON values.

    Raises:
        BadPointer: A pointer is malformed.
    """

    def __init__(self, key: Sequence[str], ignore: Sequence[str], *, as_sent: bool) -> None:
        self._key = KeyReader(KeyRule.parse(key)) if key else None
        self._comparison = None if as_sent else Comparison(b"compare", ignore, _NO_LIMIT)

    def see(self, key: bytes | None, value: bytes | None, headers: Headers) -> Seen:
        """Return the compared parts of a record."""
        if self._key is not None and value is not None:
            try:
                key = self._key(value)
            except Refused:  # not JSON, or without the key
                key = None
        content = value
        if value is not None and self._comparison is not None:
            content, _ = self._comparison.digest(value, _JSON)
        return Seen(key, content, any(name in _STANDS_FOR_A_VALUE for name, _ in headers))


# ---- the contents of each key, in the order of the log

_DIGEST: Final = 8  # bytes of a digest: two contents of a key collide once in 10^19
_NO_PARTITION: Final = -1


class Window(NamedTuple):
    """A range of timestamps, in milliseconds, with a margin.

    Attributes:
        begin_ms: The begin; None for the first record.
        end_ms: The end, exclusive.
        margin_ms: The equal of a record within this distance of an end may be outside the range.
    """

    begin_ms: int | None
    end_ms: int
    margin_ms: int

    def has(self, at_ms: int) -> bool:
        """Return whether the range includes this time."""
        return (self.begin_ms is None or at_ms >= self.begin_ms) and at_ms < self.end_ms

    def is_edge(self, at_ms: int) -> bool:
        """Return whether the time is in the margin."""
        begins = self.begin_ms is not None and at_ms < self.begin_ms + self.margin_ms
        return begins or at_ms >= self.end_ms - self.margin_ms


class History:
    """The contents of one key, in their order.

    Attributes:
        is_edge: Whether any of its records is in the margin of the window.
        is_split: Whether its records are in several partitions, so that their order is not known.
        is_reference: Whether any of its records only refers to its value (claim check, chunks).
    """

    __slots__ = ("_contents", "_partition", "is_edge", "is_reference", "is_split")

    def __init__(self) -> None:
        self._contents = bytearray()
        self._partition = _NO_PARTITION
        self.is_edge = False
        self.is_reference = False
        self.is_split = False

    def add(self, content: bytes, partition: int) -> bool:
        """Add a record, and return whether it repeats the previous one."""
        if partition != self._partition:
            self.is_split = self._partition != _NO_PARTITION
            self._partition = partition
        repeats = self._contents.endswith(content) and bool(self._contents)
        self._contents += content
        return repeats

    @property
    def contents(self) -> list[bytes]:
        """Return the digests, the oldest first."""
        digests = bytes(self._contents)
        return [digests[at : at + _DIGEST] for at in range(0, len(digests), _DIGEST)]


class Side:
    """The records of one topic that were read so far.

    Attributes:
        records: The number of records in the window.
        value_bytes: The bytes of their values.
        tombstones: The number of tombstones.
        repeats: The number of records that equal the previous record of their key.
        first_ms: The earliest timestamp; None without records.
        last_ms: The latest timestamp; None without records.
        keys: The histories by key.
        keyless: The number of records without a key, by digest of their content.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self.records = self.value_bytes = self.tombstones = self.repeats = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.keys: dict[bytes, History] = {}
        self.keyless: Counter[bytes] = Counter()

    def see(
        self, key: bytes | None, content: bytes | None, size: int, partition: int, at_ms: int
    ) -> None:
        """Add a record of the window.

        Args:
            key: The key, or None.
            content: The compared content; None for a tombstone.
            size: The bytes of the value.
            partition: The partition of the record.
            at_ms: The timestamp of the record.
        """
        self.records += 1
        self.value_bytes += size
        self.first_ms = at_ms if self.first_ms is None else min(self.first_ms, at_ms)
        self.last_ms = at_ms if self.last_ms is None else max(self.last_ms, at_ms)
        digest = digest_of(content)
        if content is None:
            self.tombstones += 1
        if key is None:
            self.keyless[digest] += 1
            return
        history = self.keys.get(key)
        if history is None:
            history = self.keys[key] = History()
        self.repeats += history.add(digest, partition)
        history.is_edge = history.is_edge or self._window.is_edge(at_ms)

    def refers(self, key: bytes | None) -> None:
        """Mark the key of the last record, which only refers to its value."""
        if key is not None:
            self.keys[key].is_reference = True


def digest_of(content: bytes | None) -> bytes:
    """Return a digest of 8 bytes. A tombstone equals no content, not even an empty one."""
    if content is None:
        return blake2b(digest_size=_DIGEST, person=b"tombstone").digest()
    return blake2b(content, digest_size=_DIGEST).digest()


def part_of(key: bytes) -> float:
    """Return a number from 0 to 1 that depends only on the key, for taking a sample of keys."""
    number = int.from_bytes(blake2b(key, digest_size=_DIGEST, person=b"share").digest(), "big")
    return number / (1 << 8 * _DIGEST)


EXAMPLES: Final = 5  # example keys of each finding


class Finding(StrEnum):
    """Result of the comparison of one key."""

    SAME = "same"  # the same records
    FEWER_REPEATS = "same but for repeats"
    FEWER_STATES = "same end, fewer states"  # the second topic lacks some, as with coalescing
    EDGE = "too near to an end of the time"
    REFERENCE = "refers to its values"
    MAYBE_BEFORE = "perhaps unchanged since before"
    SPLIT = "in several partitions"
    ONLY_FIRST = "only in the first"
    ONLY_SECOND = "only in the second"
    MORE_STATES = "same end, more states"  # the second topic has some that the first one lacks
    OTHER_STATES = "same end, other states"
    OTHER_ORDER = "in another order"
    OTHER_END = "another end"

    @property
    def is_difference(self) -> bool:
        """Return whether consumers of the two topics see different data."""
        return self in _DIFFERENCES

    @property
    def is_judged(self) -> bool:
        """Return whether the comparison was possible."""
        return self not in _UNJUDGED


_UNJUDGED: Final = (Finding.EDGE, Finding.REFERENCE, Finding.MAYBE_BEFORE)
_DIFFERENCES: Final = (
    Finding.SPLIT,
    Finding.ONLY_FIRST,
    Finding.ONLY_SECOND,
    Finding.MORE_STATES,
    Finding.OTHER_STATES,
    Finding.OTHER_ORDER,
    Finding.OTHER_END,
)


class Found(NamedTuple):
    """A number of keys, and examples of them."""

    keys: int
    examples: tuple[bytes, ...]


def findings(first: Side, second: Side, *, has_before: bool) -> dict[Finding, Found]:
    """Return the findings of all keys that occur, in the order of `Finding`.

    Args:
        first: The first topic.
        second: The second topic.
        has_before: Whether there are records before the window. Then a key may have its content
            from there, and one topic may lack the repetition.
    """
    counts, examples = dict.fromkeys(Finding, 0), {finding: list[bytes]() for finding in Finding}
    for key in _all_keys(first.keys, second.keys):
        finding = judged(first.keys.get(key), second.keys.get(key), has_before=has_before)
        counts[finding] += 1
        if len(examples[finding]) < EXAMPLES:
            examples[finding].append(key)
    return {
        finding: Found(count, tuple(examples[finding]))
        for finding, count in counts.items()
        if count
    }


def keyless_only(first: Side, second: Side) -> tuple[int, int]:
    """Return the numbers of records without a key that only the first or second topic has."""
    only_first, only_second = first.keyless - second.keyless, second.keyless - first.keyless
    return only_first.total(), only_second.total()


def judged(first: History | None, second: History | None, *, has_before: bool) -> Finding:
    """Return the finding of a key that at least one topic has."""
    histories = [history for history in (first, second) if history is not None]
    if any(history.is_reference for history in histories):
        return Finding.REFERENCE
    if first is None or second is None:
        finding = Finding.ONLY_SECOND if first is None else Finding.ONLY_FIRST
        if has_before and len(_without_repeats(histories[0].contents)) == 1:
            finding = Finding.MAYBE_BEFORE
    elif any(history.is_split for history in histories):
        finding = Finding.SPLIT
    else:
        finding = _compared(first.contents, second.contents)
    is_edge = any(history.is_edge for history in histories)
    return Finding.EDGE if is_edge and finding.is_difference else finding


def _compared(first: Sequence[bytes], second: Sequence[bytes]) -> Finding:
    if first == second:
        return Finding.SAME
    first, second = _without_repeats(first), _without_repeats(second)
    if first == second:
        return Finding.FEWER_REPEATS
    if sorted(first) == sorted(second):
        return Finding.OTHER_ORDER
    if first[-1] != second[-1]:
        return Finding.OTHER_END
    if _is_part(second, first):
        return Finding.FEWER_STATES
    return Finding.MORE_STATES if _is_part(first, second) else Finding.OTHER_STATES


def _without_repeats(contents: Sequence[bytes]) -> list[bytes]:
    return [content for content, _ in groupby(contents)]


def _is_part(short: Sequence[bytes], long: Sequence[bytes]) -> bool:
    """Return whether the short sequence is a subsequence of the long one."""
    rest = iter(long)
    return all(content in rest for content in short)


def _all_keys(first: Mapping[bytes, History], second: Mapping[bytes, History]) -> Iterator[bytes]:
    yield from first
    yield from (key for key in second if key not in first)
