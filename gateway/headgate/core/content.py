"""Validation of an event's content against the topic's schema, and its digest.

A digest is a keyed hash of 128 bits over everything that a consumer sees: the bytes, or their
canonical form. The hash is blake2b and not a faster one: with a weak hash, a client could construct
two contents with one digest and make the gateway drop a change.

Another process examines large texts, so `Orders` and `Examination` are plain data.
"""

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from typing import Final, NamedTuple

from headgate.core.formats.canonical import Fallback, canonical
from headgate.core.formats.jsontext import is_json
from headgate.core.keys import parse_pointer
from headgate.core.outcome import Failure
from headgate.core.schema import INLINE_BYTES as VIOLATIONS_INLINE_BYTES
from headgate.core.schema import Schema, received_schema, violation

_BYTES: Final = 16
_MAX_TYPES: Final = 64  # content types with a cached state; clients choose them freely


class Digester:
    """Digest function of one policy.

    Args:
        fingerprint: The policy's fingerprint, up to 64 bytes. It keys the hash, so digests of
            different policies never match.
        kind: 5 bytes that separate kinds of input (bytes as sent, canonical forms).
    """

    __slots__ = ("_key", "_kind", "_states")

    def __init__(self, fingerprint: bytes, kind: bytes = b"value") -> None:
        self._key = fingerprint
        self._kind = kind
        self._states: dict[bytes | None, blake2b] = {}

    @property
    def of_documents(self) -> tuple[bytes, bytes]:
        """Return the hash's key, and its input before a value of type application/json."""
        return self._key, self._prefix(b"application/json")

    def digest(self, value: bytes | None, content_type: bytes | None = None) -> bytes:
        """Return 16 bytes. A tombstone (None) equals no value, not even an empty one."""
        if value is None:
            return blake2b(b"tombstone", digest_size=_BYTES, key=self._key).digest()
        state = self._states.get(content_type)
        state = (self._prepare(content_type) if state is None else state).copy()
        state.update(value)
        return state.digest()

    def begin(self, content_type: bytes | None) -> blake2b:
        """Return a hash state for a value in pieces.

        Update the state with each piece; its digest then equals that of `digest` over the value.
        """
        return self._prepare(content_type)

    def _prepare(self, content_type: bytes | None) -> blake2b:
        state = blake2b(self._prefix(content_type), digest_size=_BYTES, key=self._key)
        if len(self._states) >= _MAX_TYPES:
            self._states.clear()
        self._states[content_type] = state
        return state

    def _prefix(self, content_type: bytes | None) -> bytes:
        # The length precedes the type, so that no two pairs of type and value have the same bytes.
        name = content_type or b""
        return self._kind + len(name).to_bytes(4, "big") + name


_JSON = b"application/json"


class Comparison:
    """Digests of canonical forms, or of the bytes if there is no canonical form.

    Another process receives an instance as these three arguments.

    Args:
        rules: The policy's fingerprint.
        ignore: JSON Pointers to parts that are not compared.
        max_bytes: Longer texts are compared by their bytes.
    """

    __slots__ = ("_given", "forms", "ignore", "max_bytes", "raw")

    def __init__(self, rules: bytes, ignore: Sequence[str], max_bytes: int) -> None:
        self._given = (rules, tuple(ignore), max_bytes)
        self.ignore = [parse_pointer(pointer) for pointer in ignore]
        self.max_bytes = max_bytes
        self.forms = Digester(rules, b"canon")
        self.raw = Digester(rules).digest

    def __reduce__(self) -> tuple[Callable[..., "Comparison"], tuple[object, ...]]:
        return received_comparison, self._given

    def digest(
        self, value: bytes | None, content_type: bytes | None
    ) -> tuple[bytes, Fallback | None]:
        """Return the digest, 16 bytes, and why it covers the bytes as sent.

        The reason is None for canonical forms and tombstones.
        """
        if value is None:
            return self.raw(None), None
        fallback = self.must_be_raw(value, content_type)
        if fallback is None:
            form = canonical(value, self.ignore)
            if not isinstance(form, Fallback):
                return self.forms.digest(form, content_type), None
            fallback = form
        return self.raw(value, content_type), fallback

    def must_be_raw(self, value: bytes, content_type: bytes | None) -> Fallback | None:
        """Return why the bytes are compared, if size or content type already decide that."""
        if content_type != _JSON and not is_json((content_type or b"").decode("latin-1")):
            return Fallback.NOT_JSON
        return Fallback.LARGE if len(value) > self.max_bytes else None


@cache  # `forget_received` empties it
def received_comparison(rules: bytes, ignore: tuple[str, ...], max_bytes: int) -> Comparison:
    """Return a comparison that another process, which has the configuration, sent."""
    return Comparison(rules, ignore, max_bytes)


INLINE_BYTES = (
    65_536  # below this size, examining is faster than the hop to another process, 0.5 ms
)

_OPAQUE = "the topic has a schema, and these bytes are not JSON"
_UNEXAMINED = "it does not fit the topic's schema; where could not be found out this time"


class Orders(NamedTuple):
    """A topic's examination: validation against a schema, and a canonical comparison.

    Args:
        schema: The schema, or None.
        comparison: None if digests cover the bytes, or if there are no digests.
    """

    schema: Schema | None
    comparison: Comparison | None


class Content(NamedTuple):
    """The content of an event.

    Args:
        value: The bytes for Kafka.
        content_type: The content type of the value.
        document: The JSON text for the schema, usually the value itself; None if there is none.
    """

    value: bytes
    content_type: bytes | None
    document: bytes | None


class Examination(NamedTuple):
    """The result of an examination.

    Args:
        failure: Why the event is refused; None if it is not.
        digest: 16 bytes; None if the caller must compute it from the bytes.
        fallback: Why the digest does not cover the canonical form.
    """

    failure: Failure | None = None
    digest: bytes | None = None
    fallback: Fallback | None = None


def is_long(orders: Orders, content: Content) -> bool:
    """Return whether another process must examine the content, to keep the event loop free."""
    if len(content.value) <= INLINE_BYTES:
        return False
    if orders.schema is not None and content.document is not None:
        return True
    comparison = orders.comparison
    return (
        comparison is not None
        and comparison.must_be_raw(content.value, content.content_type) is None
    )


def examine(orders: Orders, content: Content) -> Examination:
    """Examine a content completely, without a limit of time."""
    failure = _schema_failure(orders, content)
    return _compared(orders, content) if failure is None else Examination(failure)


def examine_here(orders: Orders, content: Content) -> Examination | None:
    """Examine a short content on the event loop.

    Returns:
        The result, or None if the content violates the schema and listing the violations would
        block the event loop for too long.
    """
    document = content.document
    schema = orders.schema
    if schema is not None and document is not None:
        if not schema.fits(document):
            if len(document) > VIOLATIONS_INLINE_BYTES:
                return None
            return Examination(schema.failure(document))
    elif schema is not None:
        return Examination(violation(_OPAQUE))
    return _compared(orders, content)


def examine_in_need(orders: Orders, content: Content) -> Examination:
    """Examine a content minimally on the event loop, because the other process is unavailable."""
    if orders.schema is not None:
        if content.document is None:
            return Examination(violation(_OPAQUE))
        if not orders.schema.fits(content.document):
            return Examination(violation(_UNEXAMINED))
    comparison = orders.comparison
    if comparison is None:
        return Examination()
    return Examination(None, comparison.raw(content.value, content.content_type), Fallback.POOL)


def forget_received() -> None:
    """Clear the caches of received schemas and comparisons after a configuration change.

    Without the caches, each event would compile its schema again.
    """
    received_schema.cache_clear()
    received_comparison.cache_clear()


def _schema_failure(orders: Orders, content: Content) -> Failure | None:
    if orders.schema is None:
        return None
    if content.document is None:
        return violation(_OPAQUE)
    return orders.schema.check(content.document)


def _compared(orders: Orders, content: Content) -> Examination:
    comparison = orders.comparison
    if comparison is None:
        return Examination()
    return Examination(None, *comparison.digest(content.value, content.content_type))
