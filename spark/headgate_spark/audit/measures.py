"""Measures of the inequality of loads. A load is a vector: records or bytes of each partition."""

import math
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Load: TypeAlias = NDArray[np.float64]


class Balance(NamedTuple):
    """The balance of a topic's load over its partitions.

    Attributes:
        max_over_mean: 1 for an even load, n if all is on one partition.
        cv: Standard deviation over mean.
        gini: 0 for an even load.
        effective_partitions: 1 / sum(share^2).
        p_max: The largest share of one key.
    """

    max_over_mean: float
    cv: float
    gini: float
    effective_partitions: float
    p_max: float


def balance(load: Load, p_max: float) -> Balance:
    """Return the measures of one load vector."""
    return Balance(max_over_mean(load), cv(load), gini(load), effective_partitions(load), p_max)


def max_over_mean(load: Load) -> float:
    """Return the maximum over the mean; 1 for an even load, and without load."""
    mean = load.mean() if load.size else 0.0
    return float(load.max() / mean) if mean > 0 else 1.0


def cv(load: Load) -> float:
    """Return the coefficient of variation of the whole population."""
    mean = load.mean() if load.size else 0.0
    return float(load.std() / mean) if mean > 0 else 0.0


def gini(load: Load) -> float:
    """Return Gini's coefficient: twice the area between the Lorenz curve and the even line."""
    total, n = load.sum(), load.size
    if total <= 0:
        return 0.0
    ranks = np.arange(1, n + 1)
    return float(((2 * ranks - n - 1) * np.sort(load)).sum() / (n * total))


def effective_partitions(load: Load) -> float:
    """Return the number of equally loaded partitions that are as concentrated; 0 without load."""
    total = load.sum()
    return float(total**2 / (load**2).sum()) if total > 0 else 0.0


def lorenz(load: Load) -> Load:
    """Return the Lorenz curve at 0, 1/n ... 1: the common share of the i smallest loads."""
    total = load.sum()
    shares = np.sort(load) / total if total > 0 else np.full(load.size, 1 / max(load.size, 1))
    return np.concatenate([[0.0], np.cumsum(shares)])


def floor_of(partitions: int, p_max: float) -> float:
    """Return the least max/mean of any placement of whole keys on so many partitions."""
    return max(1.0, partitions * p_max)


def max_useful_partitions(p_max: float) -> int | None:
    """Return the partition count beyond which the top key alone fills more than a fair share.

    None if no record has a key: any number is useful then.
    """
    return int(1 / p_max + 1e-9) if p_max > 0 else None


ERROR = 0.05  # how often chance alone may be taken for something


def lower_bound(count: float, total: float) -> float:
    """Return the least share that a count of observations supports, with 95 % confidence.

    This is the lower end of the score interval of E. B. Wilson, "Probable inference, the law of
    succession, and statistical inference", Journal of the American Statistical Association 22
    (1927), pages 209 to 212, one-sided. It is sound for few observations and for shares near 0.

    Args:
        count: Observations of the examined kind; not above `total`.
        total: All observations.
    """
    if total <= 0:
        return 0.0
    z = NormalDist().inv_cdf(1 - ERROR)
    share, spread = count / total, z * z / total
    middle = share + spread / 2
    half = math.sqrt(spread * (share * (1 - share) + spread / 4))
    return max(0.0, (middle - half) / (1 + spread))


def is_above(share: float, total: float, least: float, chosen_of: int) -> bool:
    """Return whether the largest of many shares is above `least`, with 95 % confidence.

    The largest of a thousand partitions or keys has more than its share by chance alone: the error
    is divided by their number (C. E. Bonferroni, 1936). So far out in the tail the interval of
    Wilson is too narrow; this is the bound of H. Chernoff, "A measure of asymptotic efficiency for
    tests of a hypothesis based on the sum of observations", Annals of Mathematical Statistics 23
    (1952), pages 493 to 507, for binomial counts, which holds for any number of observations.

    Args:
        share: The largest share of the observations.
        total: All observations.
        least: The share that needs no explanation.
        chosen_of: From how many shares the largest one was chosen.
    """
    if not least < share <= 1 or total <= 0:
        return False
    distance = share * math.log(share / least)
    if share < 1:
        distance += (1 - share) * math.log((1 - share) / (1 - least))
    return total * distance >= math.log(max(1, chosen_of) / ERROR)


def is_uneven(load: Load, observations: float, above: float = 1.0) -> bool:
    """Return whether one partition has more than `above` times the mean, and not by chance alone.

    Args:
        load: Records or bytes by partition.
        observations: The number of records. The fewer there are for each partition, the more
            uneven partitions are by chance.
        above: The explained part; 1 is even.
    """
    total = load.sum() if load.size else 0.0
    if total <= 0:
        return False
    share = float(load.max() / total)
    return is_above(share, observations, above / load.size, load.size)


def usefulness(p_max: float, what: str) -> str:
    """Return the useful partitions in words. `what`: records or bytes, of which `p_max` is a share.

    The clause names records or bytes. A topic whose values differ in size has two such numbers,
    which would otherwise seem to contradict each other.
    """
    highest = max_useful_partitions(p_max)
    if highest is None:
        return "no record has a key, so that any number of partitions is useful"
    if highest == 1:
        return f"by {what} a second partition is of no use"
    return f"by {what} at most {highest} partitions are useful"
