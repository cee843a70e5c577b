"""Partition keys: JSON Pointers, joined keys, and Kafka's partition rule.

Spark executors import this file, so that auditor and writer use the same rules. It needs only the
standard library and `native`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headgate.native.chosen import murmur2

__all__ = [
    "KEY_MAX_BYTES",
    "BadPointer",
    "KeyRule",
    "choose_partition",
    "join_parts",
    "murmur2",
    "parse_pointer",
    "partition_for",
]

KEY_MAX_BYTES = 4096  # the default of http.key_max_bytes


def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner gives a key.

    Source: org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey.
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def choose_partition(key: bytes | None, number: int, partitions: int) -> int:
    """Return the partition of an event.

    Args:
        key: The key of the event.
        number: Decides for an event without a key: the number of its request in the topic, or the
            partition that it has.
        partitions: The topic's partition count.
    """
    return number % partitions if key is None else partition_for(key, partitions)


class BadPointer(ValueError):
    """A JSON Pointer that RFC 6901 does not allow."""


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Return the reference tokens of a JSON Pointer (RFC 6901); `""` is the whole document.

    Raises:
        BadPointer: It does not begin with `/`, or has a `~` that is not `~0` or `~1`.
    """
    if pointer == "":
        return ()
    if not pointer.startswith("/"):
        raise BadPointer(f"a JSON Pointer begins with '/': {pointer!r}")
    tokens = pointer[1:].split("/")
    for token in tokens:
        if "~" in token.replace("~0", "").replace("~1", ""):
            raise BadPointer(f"'~' is written '~0' (and '/' '~1') in a JSON Pointer: {pointer!r}")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)


class KeyRule(NamedTuple):
    """A topic's key: the parsed JSON Pointers whose values, joined with `:`, are the key."""

    pointers: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, pointers: Sequence[str]) -> "KeyRule":
        return cls(tuple(parse_pointer(pointer) for pointer in pointers))


def join_parts(parts: Sequence[bytes]) -> bytes:
    """Join the parts of a key.

    `%` and `:` are percent-encoded, so that ("a:b", "c") and ("a", "b:c") are different keys. A
    single part is used unchanged.
    """
    if len(parts) == 1:
        return parts[0]
    return b":".join(part.replace(b"%", b"%25").replace(b":", b"%3A") for part in parts)
