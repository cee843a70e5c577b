"""Return of freed memory to the system, which glibc keeps for each thread."""

import ctypes
from collections.abc import Callable


def _trim_function() -> Callable[[int], int]:
    """Return glibc's malloc_trim(3), or a no-op if the C library has none."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return lambda pad: 0
    return trim


_TRIM = _trim_function()


def give_back() -> None:
    """Return freed memory to the system, after megabytes were freed.

    It takes a few milliseconds at most, without the interpreter's lock.
    """
    _TRIM(0)
