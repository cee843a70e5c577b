"""The canonical form of a JSON text: names sorted, no blanks, some members left out.

One rule above all: two texts with different JSON values never have one canonical form. Parsing
is what could break it, for it forgets: digits that no double has, the first of two equal names,
halves of surrogate pairs. Where it might, there is no canonical form, and bytes are compared.
Equal values may have different forms (1 and 1.0): that costs a record, not a change.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

import orjson

Pointer = tuple[str, ...]  # reference tokens, unescaped

# An integer of 18 digits fits 64 bits. A decimal of 15 significant digits is the only one of its
# length in the double nearest to it (DBL_DIG), as long as that is a normal one.
_INTEGER_DIGITS = 18
_CERTAIN_DIGITS = 15
_MAX_EXPONENT = 200
_MAX_TOKEN = 40  # characters before the exponent: so much can neither overflow nor vanish
_SHAPES = bytes.maketrans(b"123456789.E", b"0000000000e")  # 15 times as fast as one pattern
_LONG, _POWER = b"0" * (_CERTAIN_DIGITS + 1), b"0e"
_MINUS_NOUGHT = re.compile(rb"-0(?!\.)")
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")  # RFC 6901: no leading zeros


class Fallback(StrEnum):
    """Why bytes are compared instead: a metric label."""

    NOT_JSON = "not_json"  # by its content type
    LARGE = "large"  # over canonical_max_bytes
    NUMBER = "number"  # more digits than parsing keeps
    DUPLICATE_NAME = "duplicate_name"
    SURROGATE = "surrogate"  # a lone one, escaped
    DEEP = "deep"
    POOL = "pool"  # the process that compares large documents was not there


def canonical(text: bytes, ignore: Sequence[Pointer] = ()) -> bytes | Fallback:
    """The canonical form of a valid JSON text without what the pointers name, or why not."""
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
    # Of equal names parsing keeps the last: then fewer strings come out than went in.
    return form if quotes == _quotes(form) else Fallback.DUPLICATE_NAME


def _outside_strings(text: bytes) -> tuple[bytes, int]:
    """What stands outside of strings, and how many quotation marks enclose strings."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    pieces = text.split(b'"')
    return b'"'.join(pieces[::2]), len(pieces) - 1


def _quotes(text: bytes) -> int:
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return text.count(b'"')


def _has_suspects(outside: bytes) -> bool:
    """Whether any number needs a closer check: most texts have none that does."""
    shapes = outside.translate(_SHAPES)
    if _LONG in shapes or _POWER in shapes:
        return True
    return b"-0" in outside and _MINUS_NOUGHT.search(outside) is not None


def _is_kept(number: bytes) -> bool:
    """Whether no number of another value is parsed to the same."""
    mantissa, _, exponent = number.lower().lstrip(b"-").partition(b"e")
    if not exponent and b"." not in mantissa:
        return len(mantissa) <= _INTEGER_DIGITS and number != b"-0"
    digits = len(mantissa.replace(b".", b"").lstrip(b"0"))
    if len(mantissa) > _MAX_TOKEN or len(exponent) > 4:
        return False
    if digits <= _CERTAIN_DIGITS:
        return not exponent or abs(int(exponent)) <= _MAX_EXPONENT
    # Of the decimals with 16 digits a double has one shortest: that one, written so.
    return digits == _CERTAIN_DIGITS + 1 and orjson.dumps(float(number)) == number


def _remove(parsed: object, pointer: Pointer) -> list[object]:
    """Take out what the pointer names; what was taken, or nothing where it names nothing.

    An element's place is kept by a null, so that the indexes of others stay theirs.
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
