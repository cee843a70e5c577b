"""Digests of the names and contents that idempotency compares."""

from hashlib import blake2b


def digested(person: bytes, parts: list[bytes], tail: bytes, /) -> bytes:
    """16 bytes (BLAKE2b) over each part behind its length, so that no two lists of parts give the
    same, and then over the tail as it is. person: what kind of digest it is, up to 16 bytes.
    """
    state = blake2b(digest_size=16, person=person)
    for part in parts:
        state.update(len(part).to_bytes(4, "big"))
        state.update(part)
    state.update(tail)
    return state.digest()
