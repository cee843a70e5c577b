"""Ids of events and requests: UUIDs of version 7, which sort by time like those of the gateway."""

import os
import time
from collections.abc import Callable


def uuid7(
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    random: Callable[[int], bytes] = os.urandom,
) -> str:
    """Return a new UUID, version 7 (RFC 9562)."""
    bits = now_ms() << 80 | int.from_bytes(random(10), "big")
    bits = bits & ~(0xF << 76) | 0x7 << 76
    text = f"{bits & ~(0x3 << 62) | 0x2 << 62:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
