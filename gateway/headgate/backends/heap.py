"""Gives memory back that was freed: glibc keeps it, for each thread apart."""

import ctypes
from collections.abc import Callable


def _trim_function() -> Callable[[int], int]:
    """glibc's malloc_trim(3); nothing where the C library has none."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return lambda pad: 0
    return trim


_TRIM = _trim_function()


def give_back() -> None:
    """Some milliseconds at most, without the interpreter's lock; for after megabytes were freed."""
    _TRIM(0)
