"""The canonical form of a JSON text: names sorted, no blanks, some members removed.

The main rule: two texts with different JSON values never have the same canonical form. Parsing
could break it, because it loses digits beyond a double, the first of two equal names, and halves
of surrogate pairs. Such a text has no canonical form, and its bytes are compared.
Equal values may have different forms (1 and 1.0): that costs a record, not a change.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

import orjson

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
