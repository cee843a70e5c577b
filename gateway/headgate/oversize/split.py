"""Documents split at one of their arrays: elements become records, the rest is the manifest."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, TypedDict

import orjson

from headgate.formats.json_text import KeyReader, elements, members
from headgate.model.keys import KeyRule, parse_pointer
from headgate.model.outcome import Refused
from headgate.model.oversize import SplitRule

MAX_ELEMENTS = 10_000
_BLANKS = b" \t\r\n"


class _Manifest(TypedDict):
    keys: list[str]
    at: int
    gaps: list[str]
    around: list[str]
    sha256: str


class Element(NamedTuple):
    """An element of a split document: the key of its record, and its exact slice."""

    key: bytes
    value: bytes


class Split(NamedTuple):
    """A split document: its elements and its manifest."""

    elements: list[Element]
    manifest: bytes


class NotSplit(Exception):
    """A document that cannot be split by the rule; the message has the reason."""


def split(document: bytes, rule: SplitRule, parent_key: bytes) -> Split:
    """Split a document, which must be valid JSON of bounded depth. Raises NotSplit."""
    array = _array(document, rule.pointer)
    at = document.find(array)
    if document.find(array, at + 1) >= 0:
        raise NotSplit(f"the text of the array at {rule.pointer} occurs twice")
    values = elements(array)
    if not 0 < len(values) <= MAX_ELEMENTS:
        raise NotSplit(f"{rule.pointer} has {len(values)} elements, not 1 to {MAX_ELEMENTS}")
    pieces = [*map(Element, _keys(values, rule, parent_key), values)]
    rest = document[:at] + b"[]" + document[at + len(array) :]
    lead, trailing = len(rest) - len(rest.lstrip(_BLANKS)), len(rest.rstrip(_BLANKS))
    about = {
        "manifest": 1,
        "pointer": rule.pointer,
        "element_key": rule.key,
        "count": len(pieces),
        "bytes": len(document),
        "sha256": sha256(document).hexdigest(),
        "keys": [each.key.decode() for each in pieces],
        "document": orjson.Fragment(rest[lead:trailing]),
        "at": at - lead,
        "gaps": [gap.decode() for gap in _gaps(array, values)],
        "around": [rest[:lead].decode(), rest[trailing:].decode()],
    }
    return Split(pieces, orjson.dumps(about))


def rebuild(manifest: bytes, values: Mapping[bytes, bytes]) -> bytes:
    """Return the document, byte for byte.

    Args:
        manifest: The value of the manifest.
        values: The values of the elements by key; additional ones are ignored.

    Raises:
        KeyError: An element is missing.
        ValueError: The elements belong to another version of the document, or the manifest is
            malformed.
    """
    try:
        about: _Manifest = orjson.loads(manifest)
        rest, keys = members(manifest)["document"], [key.encode() for key in about["keys"]]
        at, gaps, digest = about["at"], [gap.encode() for gap in about["gaps"]], about["sha256"]
        lead, trailing = (blanks.encode() for blanks in about["around"])
    except (KeyError, TypeError, AttributeError, Refused) as error:
        raise ValueError(f"not a manifest: {error!r}") from None
    between = gaps[1:-1] if len(gaps) == len(keys) + 1 else gaps[1:2] * (len(keys) - 1)
    parts = [lead, rest[:at], gaps[0]]
    for number, key in enumerate(keys):
        parts += [between[number - 1]] if number else []
        parts.append(values[key])
    document = b"".join([*parts, gaps[-1], rest[at + 2 :], trailing])
    if sha256(document).hexdigest() != digest:
        raise ValueError("the elements are of another version of the document")
    return document


def _array(document: bytes, pointer: str) -> bytes:
    value = document
    for token in parse_pointer(pointer):
        try:
            value = members(value).get(token, b"") if value.lstrip()[:1] == b"{" else b""
        except Refused as refused:
            raise NotSplit(str(refused)) from None
    if value[:1] != b"[" or not parse_pointer(pointer):
        raise NotSplit(f"there is no array at {pointer}")
    return value


def _keys(values: Sequence[bytes], rule: SplitRule, parent_key: bytes) -> list[bytes]:
    read = KeyReader(KeyRule.parse((rule.key,)))
    try:
        keys = [read(value) or b"" for value in values]
    except Refused as refused:
        raise NotSplit(f"an element has no key: {refused}") from None
    if len({*keys, parent_key}) <= len(keys):
        raise NotSplit("two elements have one key, or that of the whole")
    return keys


def _gaps(array: bytes, values: Sequence[bytes]) -> list[bytes]:
    """Return the gaps between elements.

    They are only blanks and commas, so the first occurrence of an element's text after the previous
    element is the element itself.
    """
    gaps, at = [], 0
    for value in values:
        start = array.index(value, at + (1 if at == 0 else 0))
        gaps.append(array[at:start])
        at = start + len(value)
    gaps.append(array[at:])
    is_uniform = len(set(gaps[1:-1])) == 1
    return [gaps[0], gaps[1], gaps[-1]] if is_uniform else gaps
