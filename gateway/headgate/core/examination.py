"""What is found out about an event's content before it is reserved: does it fit the topic's
schema, and what is its digest. Large texts are examined in another process, so that what goes
there (`Orders`) and comes back (`Examination`) is plain data.
"""

from typing import NamedTuple

from headgate.core.canonical import Fallback
from headgate.core.comparison import comparison_of
from headgate.core.outcome import Failure
from headgate.core.schema import INLINE_BYTES as VIOLATIONS_INLINE_BYTES
from headgate.core.schema import schema_of, violation

INLINE_BYTES = 65_536  # below, examining takes less than the hop to another process: 0.5 ms

_OPAQUE = "the topic has a schema, and these bytes are not JSON"
_UNEXAMINED = "it does not fit the topic's schema; where could not be found out this time"


class Orders(NamedTuple):
    """What a topic wants to know. Built into a schema and a comparison once in each process.

    schema: the file's bytes, or None.  rules: the policy's fingerprint where digests are of
    canonical forms, or None; ignore, most_bytes: see `Comparison`.
    """

    schema: bytes | None
    rules: bytes | None
    ignore: tuple[str, ...] = ()
    most_bytes: int = 0


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
    """Whether this is for another process: examining it here would hold up all others."""
    if len(content.value) <= INLINE_BYTES:
        return False
    if orders.schema is not None and content.document is not None:
        return True
    return orders.rules is not None and _raw_anyway(orders, content) is None


def examine(orders: Orders, content: Content) -> Examination:
    """Everything, however long it takes."""
    failure = _schema_failure(orders, content)
    return _compared(orders, content) if failure is None else Examination(failure)


def examine_here(orders: Orders, content: Content) -> Examination | None:
    """The same for a content that is not long. None: it does not fit the schema, and listing its
    violations would take too long for the event loop."""
    document = content.document
    if orders.schema is not None and document is not None:
        schema = schema_of(orders.schema)
        if not schema.fits(document):
            if len(document) > VIOLATIONS_INLINE_BYTES:
                return None
            return Examination(schema.failure(document))
    elif orders.schema is not None:
        return Examination(violation(_OPAQUE))
    return _compared(orders, content)


def examine_in_need(orders: Orders, content: Content) -> Examination:
    """The other process is not there: the least that must be known, here and now."""
    if orders.schema is not None:
        if content.document is None:
            return Examination(violation(_OPAQUE))
        if not schema_of(orders.schema).fits(content.document):
            return Examination(violation(_UNEXAMINED))
    if orders.rules is None:
        return Examination()
    comparison = comparison_of(orders.rules, orders.ignore, orders.most_bytes)
    return Examination(None, comparison.raw(content.value, content.content_type), Fallback.POOL)


def _schema_failure(orders: Orders, content: Content) -> Failure | None:
    if orders.schema is None:
        return None
    if content.document is None:
        return violation(_OPAQUE)
    return schema_of(orders.schema).check(content.document)


def _compared(orders: Orders, content: Content) -> Examination:
    if orders.rules is None:
        return Examination()
    comparison = comparison_of(orders.rules, orders.ignore, orders.most_bytes)
    return Examination(None, *comparison.digest(content.value, content.content_type))


def _raw_anyway(orders: Orders, content: Content) -> Fallback | None:
    assert orders.rules is not None
    comparison = comparison_of(orders.rules, orders.ignore, orders.most_bytes)
    return comparison.must_be_raw(content.value, content.content_type)
