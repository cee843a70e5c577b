"""Digests of the names and contents that idempotency compares."""

from hashlib import blake2b


def digested(person: bytes, parts: list[bytes], tail: bytes, /) -> bytes:
    """Return a BLAKE2b digest of 16 bytes.

    Args:
        person: Kind of digest, up to 16 bytes.
        parts: Parts to digest, each with its length before it. So different lists of parts have
            different digests.
        tail: Bytes to digest after the parts, without their length.
    """
    state = blake2b(digest_size=16, person=person)
    for part in parts:
        state.update(len(part).to_bytes(4, "big"))
        state.update(part)
    state.update(tail)
    return state.digest()
