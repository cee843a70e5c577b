"""Reading JSON text without re-serialising it: validity, depth, and the values of a key rule.

JSON is parsed to decide. msgspec skips what is not asked for and is strict about it, with three
exceptions that are closed here: invalid UTF-8 in skipped strings (checked once per body, in
`decode`), deep nesting (`is_too_deep`), and lone-surrogate escapes, which RFC 8259 allows and
msgspec refuses: such texts take the slower way through the standard library.
"""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Protocol, cast

import msgspec

from headgate.core.formats.jsonslow import (
    Fraction,
    children,
    decoded,
    parse_slowly,
    scan,
    skip_blanks,
)
from headgate.core.keys import KeyRule, join_parts
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, malformed

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # as signed bytes: 1 down, -1 up
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")  # RFC 6901: no leading zeros
_UNFIT_NAME = re.compile(r'[\\"\x00-\x1f]')  # msgspec takes no such name for a field
_CROWD = 250_000  # commas; so many elements cost about 25 MB
_EMPTY = msgspec.Raw(b"")
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_ANY = msgspec.json.Decoder()


def is_too_deep(document: bytes, limit: int) -> bool:
    """Whether arrays and objects nest deeper than limit; brackets in strings do not count."""
    if document.count(b"[") + document.count(b"{") <= limit:
        return False
    outside = document.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    steps = b"".join(outside).translate(_STEPS, _NOT_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > limit


def elements(document: bytes) -> list[bytes]:
    """The elements of a JSON array, each the exact slice of the text. Raises Refused."""
    try:
        return [bytes(element) for element in _ELEMENTS.decode(document)]
    except RecursionError:
        raise Refused(malformed("the JSON nests too deep")) from None
    except msgspec.DecodeError as error:
        if _has_surrogates(document):
            return [value for _, value in children(document, "[", "]")]
        raise Refused(malformed(str(error))) from None


def is_crowd(document: bytes, maximum: int) -> bool:
    """Whether an array has more than `most` elements, asked only where cutting would cost much."""
    if document.count(b",") <= max(maximum, _CROWD) or document.lstrip()[:1] != b"[":
        return False
    text, at = decoded(document), document.index(b"[")
    for _ in range(maximum):
        at = skip_blanks(text, scan(text, skip_blanks(text, at + 1))[1])
        if text[at : at + 1] != ",":
            return False
    return True


def _has_surrogates(document: bytes) -> bool:
    return b"\\ud" in document or b"\\uD" in document


def members(document: bytes) -> dict[str, bytes]:
    """The members of a JSON object, each value the exact slice of the text (of duplicate names
    the last). Raises Refused."""
    try:
        return {name: bytes(value) for name, value in _MEMBERS.decode(document).items()}
    except RecursionError:
        raise Refused(malformed("the JSON nests too deep")) from None
    except (msgspec.ValidationError, UnicodeDecodeError) as error:
        raise Refused(malformed(str(error))) from None
    except msgspec.DecodeError as error:
        if _has_surrogates(document):
            return dict(children(document, "{", "}"))
        raise Refused(malformed(str(error))) from None


class _Root(Protocol):
    """A document of which only the members that a rule asks for are kept, as f0, f1, ..."""

    f0: msgspec.Raw


class KeyReader:
    """A topic's key rule compiled to one msgspec decoder that validates the whole document.

    Calling it returns the key, or None when the topic has no pointers.
    Raises Refused: `malformed`, `missing_key` or `invalid_key`.
    """

    def __init__(self, rule: KeyRule) -> None:
        self._pointers = rule.pointers
        tokens = [pointer[0] for pointer in rule.pointers if pointer]
        first = dict.fromkeys(token for token in tokens if not _UNFIT_NAME.search(token))
        names = {token: f"f{i}" for i, token in enumerate(first)}
        fields = [(name, msgspec.Raw, _EMPTY) for name in names.values()]
        root = msgspec.defstruct(
            "Root", fields, rename={name: token for token, name in names.items()}
        )
        self._decode = cast("Callable[[bytes], _Root]", msgspec.json.Decoder(root).decode)
        self._is_single = bool(names) and [len(p) for p in rule.pointers] == [1]
        self._names = [names.get(pointer[0], "") if pointer else "" for pointer in rule.pointers]

    def __call__(self, document: bytes) -> bytes | None:
        try:
            root = self._decode(document)
        except msgspec.ValidationError:
            return self._read_other(document)
        except RecursionError:
            raise Refused(malformed("the JSON nests too deep")) from None
        except msgspec.DecodeError as error:
            if _has_surrogates(document):
                return self._read_slowly(document)
            raise Refused(malformed(str(error))) from None
        if self._is_single:
            raw = bytes(root.f0)
            if raw[:1] == b'"' and len(raw) > 2 and b"\\" not in raw:
                return raw[1:-1]  # as `_scalar` would, for what most keys are
            return _scalar(raw, self._pointers[0])
        return self._join(
            [
                self._walk(bytes(getattr(root, name)), pointer)
                if name
                else self._enter(document.strip(), pointer)
                for name, pointer in zip(self._names, self._pointers, strict=True)
            ]
        )

    def _join(self, parts: Sequence[bytes]) -> bytes | None:
        return join_parts(parts) if parts else None

    def _enter(self, raw: bytes, pointer: tuple[str, ...]) -> bytes:
        return self._walk(_step(raw, pointer[0]) if pointer else raw, pointer)

    def _walk(self, raw: bytes, pointer: tuple[str, ...]) -> bytes:
        for token in pointer[1:]:
            raw = _step(raw, token)
        return _scalar(raw, pointer)

    def _read_other(self, document: bytes) -> bytes | None:
        """The document is no object: validate it whole, then look for pointers like `/0`."""
        try:
            _ANY.decode(document)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return self._read_slowly(document)
        raw = document.strip()
        return self._join([self._enter(raw, pointer) for pointer in self._pointers])

    def _read_slowly(self, document: bytes) -> bytes | None:
        parsed = parse_slowly(document)
        return self._join([_scalar_of(parsed, pointer) for pointer in self._pointers])


def _step(raw: bytes, token: str) -> bytes:
    """The member or element that one reference token names, b"" where there is none."""
    if raw[:1] == b"{":
        return members(raw).get(token, b"")
    if raw[:1] == b"[" and _INDEX.fullmatch(token):
        found = elements(raw)
        return found[int(token)] if int(token) < len(found) else b""
    return b""


def _shown(pointer: tuple[str, ...]) -> str:
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in pointer)


def _missing(pointer: tuple[str, ...]) -> Refused:
    detail = f"no key at {_shown(pointer) or 'the document itself'!r}: it is absent, null or empty"
    return Refused(Failure(Reason.MISSING_KEY, detail))


def _invalid(pointer: tuple[str, ...], what: str) -> Refused:
    detail = f"the key at {_shown(pointer)!r} is {what}; use a string, an integer or a boolean"
    return Refused(Failure(Reason.INVALID_KEY, detail))


def _scalar(raw: bytes, pointer: tuple[str, ...]) -> bytes:
    """A key part from its JSON text: a string's UTF-8, an integer's source digits, a boolean."""
    lead = raw[:1]
    if lead == b'"':
        if len(raw) == 2:
            raise _missing(pointer)
        return raw[1:-1] if b"\\" not in raw else _TEXT.decode(raw).encode()
    if lead in (b"", b"n"):
        raise _missing(pointer)
    if lead in (b"{", b"["):
        raise _invalid(pointer, "an object" if lead == b"{" else "an array")
    if lead not in (b"t", b"f") and (b"." in raw or b"e" in raw or b"E" in raw):
        raise _invalid(pointer, "a number with a fraction or an exponent")
    return raw


def _scalar_of(parsed: object, pointer: tuple[str, ...]) -> bytes:
    """As `_scalar`, from a document that the standard library parsed."""
    for token in pointer:
        if isinstance(parsed, dict):
            parsed = parsed.get(token)
        elif isinstance(parsed, list) and _INDEX.fullmatch(token):
            parsed = parsed[int(token)] if int(token) < len(parsed) else None
        else:
            parsed = None
    if parsed is None or parsed == "":
        raise _missing(pointer)
    if isinstance(parsed, bool):
        return b"true" if parsed else b"false"
    if isinstance(parsed, Fraction):
        raise _invalid(pointer, "a number with a fraction or an exponent")
    if not isinstance(parsed, str):
        raise _invalid(pointer, "an object" if isinstance(parsed, dict) else "an array")
    try:
        return parsed.encode()
    except UnicodeEncodeError:
        raise _invalid(pointer, "a string with a lone surrogate") from None
