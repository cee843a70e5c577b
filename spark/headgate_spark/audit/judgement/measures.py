"""Measures of how unequal loads are. A load is a vector: records or bytes of each partition."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Load: TypeAlias = NDArray[np.float64]


class Balance(NamedTuple):
    """How a topic's load lies on its partitions.

    max_over_mean: 1 = even, n = all on one.  cv: standard deviation over mean.  gini: 0 = even.
    effective_partitions: 1 / sum(share^2).  p_max: the largest share that one key has.
    """

    max_over_mean: float
    cv: float
    gini: float
    effective_partitions: float
    p_max: float


def balance(load: Load, p_max: float) -> Balance:
    """The measures of one load vector."""
    return Balance(max_over_mean(load), cv(load), gini(load), effective_partitions(load), p_max)


def max_over_mean(load: Load) -> float:
    """1 for an even load, and for none at all."""
    mean = load.mean() if load.size else 0.0
    return float(load.max() / mean) if mean > 0 else 1.0


def cv(load: Load) -> float:
    """Coefficient of variation of the whole population."""
    mean = load.mean() if load.size else 0.0
    return float(load.std() / mean) if mean > 0 else 0.0


def gini(load: Load) -> float:
    """Gini's coefficient: twice the area between the Lorenz curve and the even line."""
    total, n = load.sum(), load.size
    if total <= 0:
        return 0.0
    ranks = np.arange(1, n + 1)
    return float(((2 * ranks - n - 1) * np.sort(load)).sum() / (n * total))


def effective_partitions(load: Load) -> float:
    """How many equally loaded partitions would be as concentrated; 0 without load."""
    total = load.sum()
    return float(total**2 / (load**2).sum()) if total > 0 else 0.0


def lorenz(load: Load) -> Load:
    """The Lorenz curve at 0, 1/n ... 1: the share that the least loaded i hold together."""
    total = load.sum()
    shares = np.sort(load) / total if total > 0 else np.full(load.size, 1 / max(load.size, 1))
    return np.concatenate([[0.0], np.cumsum(shares)])


def floor_of(partitions: int, p_max: float) -> float:
    """The least max/mean that any placement of whole keys can reach on so many partitions."""
    return max(1.0, partitions * p_max)


def max_useful_partitions(p_max: float) -> int | None:
    """Beyond so many partitions the top key alone fills more than its partition's fair share.

    None where no record has a key: any number is useful then.
    """
    return int(1 / p_max + 1e-9) if p_max > 0 else None


def usefulness(p_max: float, what: str) -> str:
    """The same as a clause. what: records or bytes, of which `p_max` is a share.

    Whoever tells of useful partitions says it in these words, and of what: a topic whose values
    differ in size has two such numbers, which would contradict each other without it.
    """
    highest = max_useful_partitions(p_max)
    if highest is None:
        return "no record has a key, so that any number of partitions is useful"
    if highest == 1:
        return f"by {what} a second partition is of no use"
    return f"by {what} at most {highest} partitions are useful"
