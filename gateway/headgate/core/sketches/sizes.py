"""How sizes are distributed: a histogram of sizes to 8 significant bits, as HdrHistogram has it.

(Tene, "HdrHistogram", 2012.) A size up to 255 is exact, a larger one is off by at most 0.4 %; there
are 128 bars for each doubling.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

_BITS: Final = 8

_encode = msgspec.msgpack.encode


class _Written(msgspec.Struct, array_like=True):
    largest: int
    bars: dict[int, int]


_decode = msgspec.msgpack.Decoder(_Written).decode


class Sizes:
    """A sketch of sizes. largest: that was seen."""

    __slots__ = ("_bars", "largest")

    def __init__(self, data: bytes = b"") -> None:
        """data: what `serialise` gave."""
        self.largest = 0
        self._bars: dict[int, int] = {}  # by the smallest size of each
        if data:
            written = _decode(data)
            self.largest, self._bars = written.largest, written.bars

    def add(self, counts: Mapping[int, int]) -> None:
        """See sizes with how often each was there."""
        bars = self._bars
        for size, count in counts.items():
            bar = size
            if size >= 256:
                shift = size.bit_length() - _BITS
                bar = size >> shift << shift
            bars[bar] = bars.get(bar, 0) + count
            if size > self.largest:
                self.largest = size

    def merge(self, other: "Sizes") -> None:
        """See all that another sketch has seen."""
        for bar, count in other._bars.items():
            self._bars[bar] = self._bars.get(bar, 0) + count
        self.largest = max(self.largest, other.largest)

    def quantiles(self, ranks: Sequence[float]) -> list[int]:
        """ranks: from 0 to 1, rising. Sizes that this part of all does not exceed; none of none."""
        bars = sorted(self._bars.items())
        total = sum(count for _, count in bars)
        found: list[int] = []
        seen, rows = 0, iter(bars)
        bar = 0
        for rank in ranks if bars else ():
            while seen < max(1.0, rank * total):
                bar, count = next(rows)
                seen += count
            found.append(min(_middle(bar), self.largest))
        return found

    def serialise(self) -> bytes:
        """As bytes; empty where nothing was seen."""
        return _encode(_Written(self.largest, self._bars)) if self._bars else b""


def _middle(bar: int) -> int:
    return bar + (1 << max(0, bar.bit_length() - _BITS)) // 2
