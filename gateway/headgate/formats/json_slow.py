"""JSON parsing with the standard library: the slow path for lone-surrogate escapes.

RFC 8259 allows them and msgspec refuses them. This is a separate module, because `json_text` is
compiled (setup.py) and subclasses of str cannot be.
"""

import json
import re
from typing import NoReturn

from headgate.model.outcome import Refused, malformed

_BLANKS = re.compile(r"[ \t\r\n]*")


class Digits(str):
    """An integer's source digits, so that a huge integer keeps its text."""

    __slots__ = ()


class Fraction(str):
    """A number with a fraction or an exponent."""

    __slots__ = ()


def _refuse_constant(name: str) -> NoReturn:
    raise Refused(malformed(f"{name} is not JSON"))


_SLOW = json.JSONDecoder(parse_int=Digits, parse_float=Fraction, parse_constant=_refuse_constant)


def scan(text: str, at: int) -> tuple[object, int]:
    try:
        return _SLOW.raw_decode(text, at)
    except ValueError as error:
        raise Refused(malformed(str(error))) from None
    except RecursionError:
        raise Refused(malformed("the JSON nests too deep")) from None


def parse_slowly(document: bytes) -> object:
    """Parse a document with the standard library, numbers as their source text."""
    text = decoded(document)
    parsed, end = scan(text, skip_blanks(text, 0))
    if skip_blanks(text, end) != len(text):
        raise Refused(malformed(f"trailing characters (character {end})"))
    return parsed


def children(document: bytes, opening: str, closing: str) -> list[tuple[str, bytes]]:
    """Return the (name, slice) of each child of an array or object with lone surrogates.

    The standard library finds the end of each child, so the slices are exact.
    """
    text = decoded(document)
    slices: list[tuple[str, bytes]] = []
    at = _expect(text, skip_blanks(text, 0), opening)
    while not (not slices and text[at : at + 1] == closing):
        name = ""
        if opening == "{":
            if text[at : at + 1] != '"':
                raise Refused(malformed(f"expected a name at character {at}"))
            found_name, at = scan(text, at)
            name = str(found_name)
            at = _expect(text, skip_blanks(text, at), ":")
        end = scan(text, at)[1]
        slices.append((name, text[at:end].encode()))
        at = skip_blanks(text, end)
        if text[at : at + 1] == closing:
            break
        at = _expect(text, at, ",")
    if skip_blanks(text, at + 1) != len(text):
        raise Refused(malformed(f"trailing characters (character {at + 1})"))
    return slices


def _expect(text: str, at: int, sign: str) -> int:
    """Return the position of the next token after `sign`, which must be at `at`."""
    if text[at : at + 1] != sign:
        raise Refused(malformed(f"expected {sign!r} at character {at}"))
    return skip_blanks(text, at + 1)


def skip_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


def decoded(document: bytes) -> str:
    try:
        return document.decode()
    except UnicodeDecodeError as error:
        raise Refused(malformed(f"invalid UTF-8 at byte {error.start}")) from None
