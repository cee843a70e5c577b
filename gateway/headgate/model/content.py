"""Validation of an event's content against the topic's schema, and its digest.

A digest is a keyed hash of 128 bits over everything that a consumer sees: the bytes, or their
canonical form. The hash is blake2b and not a faster one: with a weak hash, a client could construct
two contents with one digest and make the gateway drop a change.

Another process examines large texts, so `ContentCheck` and `CheckResult` are plain data.
"""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from hashlib import blake2b
from typing import Final, NamedTuple

import orjson

from headgate.model.cache import BoundedCache
from headgate.model.keys import parse_pointer
from headgate.model.outcome import Failure
from headgate.model.schema import INLINE_BYTES as VIOLATIONS_INLINE_BYTES
from headgate.model.schema import Schema, received_schema, violation

# ---- canonical form of a JSON text: names sorted, no blanks, some members removed
#
# The main rule: two texts with different JSON values never have the same canonical form. Parsing
# could break it, because it loses digits beyond a double, the first of two equal names, and halves
# of surrogate pairs. Such a text has no canonical form, and its bytes are compared.
# Equal values may have different forms (1 and 1.0): that costs a record, not a change.


Pointer = tuple[str, ...]  # reference tokens, unescaped

# An integer of 18 digits fits 64 bits. A decimal of 15 significant digits survives the conversion
# to a double and back (DBL_DIG), if the double is a normal one.
_INTEGER_DIGITS = 18
_CERTAIN_DIGITS = 15
_MAX_EXPONENT = 200
_MAX_TOKEN = 40  # characters before the exponent: such numbers neither overflow nor become zero
_SHAPES = bytes.maketrans(b"123456789.E", b"0000000000e")  # 15 times as fast as one pattern
_LONG, _POWER = b"0" * (_CERTAIN_DIGITS + 1), b"0e"
_MINUS_NOUGHT = re.compile(rb"-0(?!\.)")
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")  # RFC 6901: no leading zeros


class Fallback(StrEnum):
    """Reason for comparing bytes instead; a metric label."""

    NOT_JSON = "not_json"  # by its content type
    LARGE = "large"  # over canonical_max_bytes
    NUMBER = "number"  # more digits than parsing keeps
    DUPLICATE_NAME = "duplicate_name"
    SURROGATE = "surrogate"  # a lone one, escaped
    DEEP = "deep"
    POOL = "pool"  # the process that compares large documents was unavailable


def canonical(text: bytes, ignore: Sequence[Pointer] = ()) -> bytes | Fallback:
    """Return the canonical form of a valid JSON text, or why there is none.

    Args:
        text: The JSON text.
        ignore: Pointers to the parts that the form does not contain.
    """
    outside, quotes = _outside_strings(text)
    if _has_suspects(outside) and not all(map(_is_kept, _NUMBER.findall(outside))):
        return Fallback.NUMBER
    try:
        parsed = orjson.loads(text)
        removed = [value for pointer in ignore for value in _remove(parsed, pointer)]
        form = orjson.dumps(parsed, option=orjson.OPT_SORT_KEYS)
        if removed:
            quotes -= _quotes(orjson.dumps(removed))
    except orjson.JSONDecodeError:
        has_surrogates = b"\\ud" in text or b"\\uD" in text
        return Fallback.SURROGATE if has_surrogates else Fallback.DEEP
    except orjson.JSONEncodeError:
        return Fallback.DEEP
    # Parsing keeps only the last of equal names, so the form then has fewer strings than the text.
    return form if quotes == _quotes(form) else Fallback.DUPLICATE_NAME


def _outside_strings(text: bytes) -> tuple[bytes, int]:
    """Return the text outside of strings, and the number of quotation marks around strings."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    pieces = text.split(b'"')
    return b'"'.join(pieces[::2]), len(pieces) - 1


def _quotes(text: bytes) -> int:
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return text.count(b'"')


def _has_suspects(outside: bytes) -> bool:
    """Return whether any number needs a closer check; most texts have no such number."""
    shapes = outside.translate(_SHAPES)
    if _LONG in shapes or _POWER in shapes:
        return True
    return b"-0" in outside and _MINUS_NOUGHT.search(outside) is not None


def _is_kept(number: bytes) -> bool:
    """Return whether no number with another value has the same parsed value."""
    mantissa, _, exponent = number.lower().lstrip(b"-").partition(b"e")
    if not exponent and b"." not in mantissa:
        return len(mantissa) <= _INTEGER_DIGITS and number != b"-0"
    digits = len(mantissa.replace(b".", b"").lstrip(b"0"))
    if len(mantissa) > _MAX_TOKEN or len(exponent) > 4:
        return False
    if digits <= _CERTAIN_DIGITS:
        return not exponent or abs(int(exponent)) <= _MAX_EXPONENT
    # Of decimals with 16 digits, only the shortest one of the double is kept, as orjson writes it.
    return digits == _CERTAIN_DIGITS + 1 and orjson.dumps(float(number)) == number


def _remove(parsed: object, pointer: Pointer) -> list[object]:
    """Remove the value that a pointer names, and return it in a list; empty if it is absent.

    A null replaces an element of an array, so that the indexes of the others do not change.
    """
    *way, last = pointer
    for token in way:
        if isinstance(parsed, dict):
            parsed = parsed.get(token)
        elif isinstance(parsed, list) and _names(parsed, token):
            parsed = parsed[int(token)]
        else:
            return []
    if isinstance(parsed, dict) and last in parsed:
        return [{last: parsed.pop(last)}]
    if isinstance(parsed, list) and _names(parsed, last):
        element, parsed[int(last)] = parsed[int(last)], None
        return [element]
    return []


def _names(elements: list[object], token: str) -> bool:
    return _INDEX.fullmatch(token) is not None and int(token) < len(elements)


# ---- content types


_FORM = "application/x-www-form-urlencoded"


def is_json(content_type: str) -> bool:
    """Return whether the content type is JSON (RFC 6839 for `+json`)."""
    media_type = _media_type(content_type)
    return media_type in ("application/json", "text/json") or media_type.endswith("+json")


def is_form(content_type: str) -> bool:
    """Return whether the content type is that of a browser's form."""
    return _media_type(content_type) == _FORM


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


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
        self._states = BoundedCache[bytes | None, blake2b](_MAX_TYPES)

    @property
    def of_documents(self) -> tuple[bytes, bytes]:
        """Return the hash's key, and its input before a value of type application/json."""
        return self._key, self._prefix(b"application/json")

    def digest(self, value: bytes | None, content_type: bytes | None = None) -> bytes:
        """Return 16 bytes. A tombstone (None) equals no value, not even an empty one."""
        if value is None:
            return blake2b(b"tombstone", digest_size=_BYTES, key=self._key).digest()
        state = (self._states.get(content_type) or self.begin(content_type)).copy()
        state.update(value)
        return state.digest()

    def begin(self, content_type: bytes | None) -> blake2b:
        """Return a hash state for a value in pieces.

        Update the state with each piece; its digest then equals that of `digest` over the value.
        """
        state = blake2b(self._prefix(content_type), digest_size=_BYTES, key=self._key)
        return self._states.put(content_type, state)

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


class ContentCheck(NamedTuple):
    """A topic's examination: validation against a schema, and a canonical comparison.

    Attributes:
        schema: The schema, or None.
        comparison: None if digests cover the bytes, or if there are no digests.
    """

    schema: Schema | None
    comparison: Comparison | None


class Content(NamedTuple):
    """The content of an event.

    Attributes:
        value: The bytes for Kafka.
        content_type: The content type of the value.
        document: The JSON text for the schema, usually the value itself; None if there is none.
    """

    value: bytes
    content_type: bytes | None
    document: bytes | None


class CheckResult(NamedTuple):
    """The result of an examination.

    Attributes:
        failure: Why the event is refused; None if it is not.
        digest: 16 bytes; None if the caller must compute it from the bytes.
        fallback: Why the digest does not cover the canonical form.
    """

    failure: Failure | None = None
    digest: bytes | None = None
    fallback: Fallback | None = None


def is_long(check: ContentCheck, content: Content) -> bool:
    """Return whether another process must examine the content, to keep the event loop free."""
    if len(content.value) <= INLINE_BYTES:
        return False
    if check.schema is not None and content.document is not None:
        return True
    comparison = check.comparison
    return (
        comparison is not None
        and comparison.must_be_raw(content.value, content.content_type) is None
    )


def examine(check: ContentCheck, content: Content) -> CheckResult:
    """Examine a content completely, without a limit of time."""
    failure = _schema_failure(check, content)
    return _compared(check, content) if failure is None else CheckResult(failure)


def examine_here(check: ContentCheck, content: Content) -> CheckResult | None:
    """Examine a short content on the event loop.

    Returns:
        The result, or None if the content violates the schema and listing the violations would
        block the event loop for too long.
    """
    document = content.document
    schema = check.schema
    if schema is not None and document is not None:
        if not schema.fits(document):
            if len(document) > VIOLATIONS_INLINE_BYTES:
                return None
            return CheckResult(schema.failure(document))
    elif schema is not None:
        return CheckResult(violation(_OPAQUE))
    return _compared(check, content)


def examine_in_need(check: ContentCheck, content: Content) -> CheckResult:
    """Examine a content minimally on the event loop, because the other process is unavailable."""
    if check.schema is not None:
        if content.document is None:
            return CheckResult(violation(_OPAQUE))
        if not check.schema.fits(content.document):
            return CheckResult(violation(_UNEXAMINED))
    comparison = check.comparison
    if comparison is None:
        return CheckResult()
    return CheckResult(None, comparison.raw(content.value, content.content_type), Fallback.POOL)


def forget_received() -> None:
    """Clear the caches of received schemas and comparisons after a configuration change.

    Without the caches, each event would compile its schema again.
    """
    received_schema.cache_clear()
    received_comparison.cache_clear()


def _schema_failure(check: ContentCheck, content: Content) -> Failure | None:
    if check.schema is None:
        return None
    if content.document is None:
        return violation(_OPAQUE)
    return check.schema.check(content.document)


def _compared(check: ContentCheck, content: Content) -> CheckResult:
    comparison = check.comparison
    if comparison is None:
        return CheckResult()
    return CheckResult(None, *comparison.digest(content.value, content.content_type))
