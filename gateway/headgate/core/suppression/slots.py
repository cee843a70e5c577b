"""Which of several servers knows a key: rendezvous hashing over a table of slots.

A key has a slot, and a slot belongs to the server whose hash with it is highest. So the order of
the list does not matter, and adding the n-th server takes a part of 1/n from the others and moves
nothing else. An event costs one hash, however many servers there are.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

_SLOTS: Final = 4096
MAX_SERVERS: Final = 32


class Slots:
    """servers: their identities, all different."""

    __slots__ = ("_owners",)

    def __init__(self, servers: Sequence[str]) -> None:
        if not 0 < len(set(servers)) == len(servers) <= MAX_SERVERS:
            raise ValueError(f"not 1 to {MAX_SERVERS} different servers: {servers}")
        seeds = [blake2b(one.encode(), digest_size=32).digest() for one in servers]
        self._owners = bytes(_owner(slot.to_bytes(2, "big"), seeds) for slot in range(_SLOTS))

    def owner(self, key: bytes) -> int:
        """The place in the list of the server that knows the key."""
        digest = blake2b(key, digest_size=2).digest()
        return self._owners[(digest[0] << 8 | digest[1]) % _SLOTS]


def _owner(slot: bytes, seeds: Sequence[bytes]) -> int:
    scores = [blake2b(slot, digest_size=8, key=seed).digest() for seed in seeds]
    return max(range(len(seeds)), key=lambda place: (scores[place], seeds[place]))
