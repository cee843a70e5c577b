"""Kafka's hash of keys: the Python twin of `_keys.c`."""

import struct
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_PIECE_BYTES: Final = 4096  # words of one piece are in memory as integers together


def murmur2(key: bytes, /) -> int:
    """Return Kafka's murmur2 as a signed 32-bit integer.

    Source: org.apache.kafka.common.utils.Utils.murmur2; murmur2(b"foobar") == -790332482.
    """
    length = len(key)
    aligned = length & ~3
    h = _SEED ^ (length & _MASK)
    for at in range(0, aligned, _PIECE_BYTES):
        words = min(_PIECE_BYTES, aligned - at) >> 2
        for k in struct.unpack_from(f"<{words}I", key, at):
            k = (k * _MULTIPLIER) & _MASK
            k ^= k >> 24
            h = ((h * _MULTIPLIER) & _MASK) ^ ((k * _MULTIPLIER) & _MASK)
    rest = key[aligned:]
    if rest:
        h ^= int.from_bytes(rest, "little")
        h = (h * _MULTIPLIER) & _MASK
    h ^= h >> 13
    h = (h * _MULTIPLIER) & _MASK
    h ^= h >> 15
    return h - 0x100000000 if h & 0x80000000 else h
