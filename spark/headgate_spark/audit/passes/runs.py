"""What coalescing would have left of a key's records."""

from collections.abc import Iterable


def kept(seconds: Iterable[int], quiet_s: float, max_s: float) -> int:
    """How many records coalescing leaves of a key that came in these seconds.

    seconds: in order.  A window ends once nothing came for `quiet_s`, or after `max_s`; each
    leaves one record.
    """
    count, begun, last = 0, 0, 0
    for second in seconds:
        if count == 0 or second - last > quiet_s or second - begun >= max_s:
            count, begun = count + 1, second
        last = second
    return count
