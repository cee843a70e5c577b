"""The depth of JSON: the Python twin of `_depth.c`."""

from itertools import accumulate
from typing import Final

_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # signed: 1 is down, -1 is up


def is_too_deep(document: bytes, limit: int, /) -> bool:
    """Return whether arrays and objects nest deeper than `limit`. Brackets in texts do not count.

    Args:
        document: JSON document.
        limit: Largest depth.
    """
    if document.count(b"[") + document.count(b"{") <= limit:
        return False
    outside = document.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    steps = b"".join(outside).translate(_STEPS, _NOT_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > limit
