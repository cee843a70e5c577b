"""What "the same content" is: a keyed hash of 128 bits over everything a consumer would see.

blake2b and not a faster hash: a client that could construct two contents with one digest could
make the gateway drop a change.
"""

from hashlib import blake2b
from typing import Final

_BYTES: Final = 16
_MAX_TYPES: Final = 64  # content types whose prepared state is kept; clients choose them freely


class Digester:
    """Digests values of one policy.

    fingerprint: of the policy, up to 64 bytes; it is the hash's key, so digests made under
    different policies never meet.  kind: 5 bytes; what is digested under different kinds (bytes as
    sent, canonical forms) never meets either.
    """

    __slots__ = ("_key", "_kind", "_states")

    def __init__(self, fingerprint: bytes, kind: bytes = b"value") -> None:
        self._key = fingerprint
        self._kind = kind
        self._states: dict[bytes | None, blake2b] = {}

    @property
    def of_documents(self) -> tuple[bytes, bytes]:
        """The hash's key, and what it is fed before a value of type application/json."""
        return self._key, self._prefix(b"application/json")

    def digest(self, value: bytes | None, content_type: bytes | None = None) -> bytes:
        """Return 16 bytes. A value of None is a tombstone, which equals no value, empty or not."""
        if value is None:
            return blake2b(b"tombstone", digest_size=_BYTES, key=self._key).digest()
        state = self._states.get(content_type)
        state = (self._prepare(content_type) if state is None else state).copy()
        state.update(value)
        return state.digest()

    def begin(self, content_type: bytes | None) -> blake2b:
        """The state of a value that comes in pieces: update it with each, then its digest is the
        one that `digest` makes of the whole."""
        return self._prepare(content_type)

    def _prepare(self, content_type: bytes | None) -> blake2b:
        state = blake2b(self._prefix(content_type), digest_size=_BYTES, key=self._key)
        if len(self._states) >= _MAX_TYPES:
            self._states.clear()
        self._states[content_type] = state
        return state

    def _prefix(self, content_type: bytes | None) -> bytes:
        # The length before the type: no type and value together can equal another pair.
        name = content_type or b""
        return self._kind + len(name).to_bytes(4, "big") + name
