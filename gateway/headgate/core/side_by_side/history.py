"""What a topic says of each key: its contents, in the order of the log."""

from collections import Counter
from hashlib import blake2b
from typing import Final, NamedTuple

_DIGEST: Final = 8  # bytes of a content's: two of a key's contents meet once in 10^19
_NO_PARTITION: Final = -1


class Window(NamedTuple):
    """Which records count, by their timestamps in ms, and how near to its ends none is judged.

    begin_ms: None = from the first record.  end_ms: it is not part of it.  margin_ms: of what one
    topic has within it, the other may have its equal beyond the end.
    """

    begin_ms: int | None
    end_ms: int
    margin_ms: int

    def has(self, at_ms: int) -> bool:
        """Whether a record of this time counts."""
        return (self.begin_ms is None or at_ms >= self.begin_ms) and at_ms < self.end_ms

    def is_edge(self, at_ms: int) -> bool:
        """Whether its equal may lie outside."""
        begins = self.begin_ms is not None and at_ms < self.begin_ms + self.margin_ms
        return begins or at_ms >= self.end_ms - self.margin_ms


class History:
    """Of one key. is_edge: some of it is at an end of the window.  is_split: it is in several
    partitions, so that nothing says what came first.  is_reference: some record only refers to
    its value (claim check, chunks)."""

    __slots__ = ("_contents", "_partition", "is_edge", "is_reference", "is_split")

    def __init__(self) -> None:
        self._contents = bytearray()
        self._partition = _NO_PARTITION
        self.is_edge = False
        self.is_reference = False
        self.is_split = False

    def add(self, content: bytes, partition: int) -> bool:
        """One record more; whether it repeats the one before it."""
        if partition != self._partition:
            self.is_split = self._partition != _NO_PARTITION
            self._partition = partition
        repeats = self._contents.endswith(content) and bool(self._contents)
        self._contents += content
        return repeats

    @property
    def contents(self) -> list[bytes]:
        """Digests, the oldest first."""
        whole = bytes(self._contents)
        return [whole[at : at + _DIGEST] for at in range(0, len(whole), _DIGEST)]


class Side:
    """One topic, as far as it was read.

    records, value_bytes: of the window.  repeats: how many said again what the one before it of
    their key had said.  first_ms, last_ms: of the records, None without any.  keys: their
    histories.  keyless: how often each content was there without a key.
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
        """One record of the window. content: what is compared; None of a tombstone."""
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
        """The record that was seen last only refers to its value."""
        if key is not None:
            self.keys[key].is_reference = True


def digest_of(content: bytes | None) -> bytes:
    """8 bytes. A tombstone equals no content, empty or not."""
    if content is None:
        return blake2b(digest_size=_DIGEST, person=b"tombstone").digest()
    return blake2b(content, digest_size=_DIGEST).digest()


def part_of(key: bytes) -> float:
    """A place of this key from 0 to 1 that is the same in every topic: so a part can be taken."""
    number = int.from_bytes(blake2b(key, digest_size=_DIGEST, person=b"share").digest(), "big")
    return number / (1 << 8 * _DIGEST)
