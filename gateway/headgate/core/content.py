"""The examination of an event's content: does it fit the topic's schema, and its digest.

A digest is a keyed hash of 128 bits over everything that a consumer would see: the bytes, or their
canonical form. It is blake2b and not a faster hash: a client that could construct two contents with
one digest could make the gateway drop a change.

Large texts are examined in another process, so that `Orders` and `Examination` are plain data.
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


_JSON = b"application/json"


class Comparison:
    """Digests of canonical forms, and of bytes where there is none.

    rules: the policy's fingerprint.  ignore: JSON Pointers.  max_bytes: texts that are longer
    are compared by their bytes. It goes to another process as these three.
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
        """16 bytes, and why they are of the bytes as sent (None: they are not, or a tombstone)."""
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
        """Return why the bytes are compared, if that is certain without a look into the value."""
        if content_type != _JSON and not is_json((content_type or b"").decode("latin-1")):
            return Fallback.NOT_JSON
        return Fallback.LARGE if len(value) > self.max_bytes else None


@cache  # `examination.forget_received` empties it
def received_comparison(rules: bytes, ignore: tuple[str, ...], max_bytes: int) -> Comparison:
    """One that came from another process, which has the configuration and holds it."""
    return Comparison(rules, ignore, max_bytes)


INLINE_BYTES = 65_536  # below, examining takes less than the hop to another process: 0.5 ms

_OPAQUE = "the topic has a schema, and these bytes are not JSON"
_UNEXAMINED = "it does not fit the topic's schema; where could not be found out this time"


class Orders(NamedTuple):
    """The examination that a topic wants: does an event fit its schema, the digest of its form.

    comparison: None where digests are of the bytes, or where there are none.
    """

    schema: Schema | None
    comparison: Comparison | None


class Content(NamedTuple):
    """value: the bytes for Kafka.  document: the JSON text that the schema is about, mostly the
    very same bytes; None: there is none."""

    value: bytes
    content_type: bytes | None
    document: bytes | None


class Examination(NamedTuple):
    """failure: why the event is refused; else digest: 16 bytes, None where the caller makes it
    from the bytes.  fallback: why the digest is not of the canonical form."""

    failure: Failure | None = None
    digest: bytes | None = None
    fallback: Fallback | None = None


def is_long(orders: Orders, content: Content) -> bool:
    """Return whether this is for another process: here it would hold up all others."""
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
    """Everything, however long it takes."""
    failure = _schema_failure(orders, content)
    return _compared(orders, content) if failure is None else Examination(failure)


def examine_here(orders: Orders, content: Content) -> Examination | None:
    """The same for a content that is not long. None: it does not fit the schema, and listing its
    violations would take too long for the event loop."""
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
    """The other process is not there: the least that must be known, here and now."""
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
    """Another configuration is in force where the orders come from: what it asks for is compiled
    when it comes. Until then everything is kept, or it would be compiled for every event."""
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
