"""Where values lie on an axis, and the round ones among them that are written beside it."""

import math
from collections.abc import Sequence
from typing import NamedTuple

_MAX_TICKS = 5
_MAX_POWERS = 9


class Scale(NamedTuple):
    """ticks: the round values, the first and the last of which are the ends.

    is_log: equal ratios are equally wide.
    """

    ticks: Sequence[float]
    is_log: bool = False

    def at(self, value: float) -> float:
        """Where it lies, as a share of the axis."""
        low, high = self.ticks[0], self.ticks[-1]
        if self.is_log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)


def from_zero(values: Sequence[float]) -> Scale:
    """From 0 to the first round value that is not below any of them."""
    top = max(values, default=1.0) or 1.0
    step = 10.0 ** math.floor(math.log10(top / _MAX_TICKS))
    step = next(step * by for by in (1, 2, 5, 10) if top / (step * by) <= _MAX_TICKS + 1e-9)
    last = math.ceil(top / step - 1e-9)
    return Scale([round(step * number, 12) for number in range(last + 1)])


def logarithmic(values: Sequence[float]) -> Scale:
    """Powers of two. values: above 0."""
    low = math.floor(math.log2(min(values, default=1.0)))
    high = max(low + 1, math.ceil(math.log2(max(values, default=2.0))))
    step = -(-(high - low) // (_MAX_POWERS - 1))
    powers = range(low, high + step, step)
    return Scale([2.0**power for power in powers], is_log=True)
