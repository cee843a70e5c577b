"""What is found out about an event's content before it is reserved.

Does it fit the topic's schema, and what is its digest? Large texts are examined in another process,
so that what goes there (`Orders`) and comes back (`Examination`) is plain data.
"""

from typing import NamedTuple

from headgate.core.formats.canonical import Fallback
from headgate.core.outcome import Failure
from headgate.core.schema import INLINE_BYTES as VIOLATIONS_INLINE_BYTES
from headgate.core.schema import Schema, received_schema, violation
from headgate.core.suppression.comparison import Comparison, received_comparison

INLINE_BYTES = 65_536  # below, examining takes less than the hop to another process: 0.5 ms

_OPAQUE = "the topic has a schema, and these bytes are not JSON"
_UNEXAMINED = "it does not fit the topic's schema; where could not be found out this time"


class Orders(NamedTuple):
    """What a topic wants to know: whether an event fits its schema, and the digest of its form.

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
    """Whether this is for another process: examining it here would hold up all others."""
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
